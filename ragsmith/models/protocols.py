"""What techniques may ask of models, as protocols.

A technique receives its models as arguments typed by these protocols and never fetches one. Calls go through the
gateway, which remembers, joins and counts them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragsmith.models.tasks import Input, Task

T = TypeVar("T")
Vectors = NDArray[np.float32]


class LanguageModel(Protocol):
    """Something that performs language tasks."""

    @property
    def id(self) -> str:
        """Provider, model and revision: part of every key."""
        ...

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """Perform ``task``; ``sample`` numbers repeated requests for the same inputs.

        Raises:
            ModelError: no valid reply could be had.
        """
        ...

    def run_all(self, task: Task[T], inputs: Sequence[Mapping[str, Input]]) -> tuple[T, ...]:
        """Perform ``task`` for each of ``inputs``, in their order.

        One after another, unless a model does otherwise: one that is waited for gets many at once.

        Raises:
            ModelError: one of them had no valid reply.
        """
        return tuple(self.run(task, sample=0, **given) for given in inputs)


class Embedder(Protocol):
    """Something that maps texts to unit vectors."""

    @property
    def id(self) -> str:
        """Provider, model and revision: part of every key."""
        ...

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed ``texts``: shape ``(len(texts), dimensions)``, rows of length 1 (or 0 for a text without tokens)."""
        ...


class CrossEncoder(Protocol):
    """Something that scores a text against a query, higher is better, on a scale of its own."""

    @property
    def id(self) -> str:
        """Provider, model and revision: part of every key."""
        ...

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Score each of ``texts`` against ``query``."""
        ...
