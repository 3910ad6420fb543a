"""Hyperparameter genes: chunk size, chunk overlap and models, where a space searches over them.

They follow the genes of the nine families. No stage runs them: they decide on which chunks and with which models the
others run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ragsmith.techniques.families import FAMILIES
from ragsmith.techniques.registry import Technique

CUTTING = ("chunk_size", "chunk_overlap")
"""Settings in characters: they decide what a chunk is."""

ROLES = ("embedder", "cross_encoder", "language_model")
"""Settings that are the model of a role."""

SETTINGS = (*CUTTING, *ROLES)
"""The settings that a space may search over, in the order of their genes."""

GENES = len(FAMILIES)
"""Number of genes that every candidate has; hyperparameter genes follow."""

Value = int | str | Mapping[str, Any]
"""Characters; or a model by name, or by its name and the options that shape its results."""


def _nothing() -> None:
    """What a setting does by itself."""


@dataclass(frozen=True)
class HyperparameterGene(Technique):
    """An option of a further gene, in the place of a technique: its one parameter is the ``value``."""

    value: Value = 0

    @classmethod
    def of(cls, name: str, value: Value) -> HyperparameterGene:
        """The setting ``name`` at ``value``."""
        return cls(name, _nothing, "", value=value)

    @property
    def name(self) -> str:
        """The value in words."""
        if not isinstance(self.value, Mapping):
            return str(self.value)
        options = ", ".join(f"{option}={value}" for option, value in self.value.items() if option != "model")
        return f"{self.value['model']}({options})"

    @property
    def defaults(self) -> dict[str, Any]:
        """The one parameter, which is never another."""
        return {"value": self.value}
