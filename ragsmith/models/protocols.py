"""Protocols of the models that techniques use.

A technique receives its models as arguments typed by these protocols. Calls go through the gateway, which caches,
deduplicates and counts them.
"""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragsmith.models.tasks import Input, Task

T = TypeVar("T")
Vectors = NDArray[np.float32]


class LanguageModel(Protocol):
    """A model that performs language tasks."""

    @property
    def id(self) -> str:
        """Provider, model and revision: part of every key."""

    def run(self, task: Task[T], *, sample: int = 0, **inputs: Input) -> T:
        """Perform ``task``; ``sample`` numbers repeated requests for the same inputs.

        Raises:
            ModelError: there was no valid reply.
        """

    def run_all(self, task: Task[T], inputs: Sequence[Mapping[str, Input]]) -> tuple[T, ...]:
        """Perform ``task`` for each of ``inputs``, in order; remote models override this to send them concurrently.

        Raises:
            ModelError: there was no valid reply for one of them.
        """
        return tuple(self.run(task, sample=0, **one) for one in inputs)


class Embedder(Protocol):
    """A model that maps texts to unit vectors."""

    @property
    def id(self) -> str:
        """Provider, model and revision: part of every key."""

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Embed ``texts``: shape ``(len(texts), dimensions)``, rows of length 1 (or 0 for a text without tokens)."""


class CrossEncoder(Protocol):
    """A model that scores texts against a query; higher is better, on a scale of its own."""

    @property
    def id(self) -> str:
        """Provider, model and revision: part of every key."""

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Score each of ``texts`` against ``query``."""
