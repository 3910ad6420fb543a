"""What a vector store is: where the vectors of an index's keys are, and how the entries nearest to a query are found.

Every store returns what exact search in double precision does: scores to 6 decimals, ties by position. So it never
matters to a result which store is used, and an index knows none but the exact one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragsmith.digest import digest
from ragsmith.models.protocols import Embedder

Positions = NDArray[np.int64]
Scores = NDArray[np.float64]
MakeVectors = Callable[[int, int], NDArray[np.floating]]
"""Vectors of the keys ``[start, end)``, rows of length 1 or 0: embedded when a store asks for them."""


SINGLE_KEYS = 20_000
"""From so many keys on, vectors that come in single precision stay in it, which takes half of the memory; what is found
among them is the same (`screening`). Fewer are turned into double precision once, and not for every query."""


def as_kept(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """``vectors`` in the precision in which so many are kept in memory; in no less than they have."""
    if len(vectors) >= SINGLE_KEYS and vectors.dtype == np.float32:
        return vectors
    return vectors.astype(np.float64, copy=False)


class VectorStore(Protocol):
    """Something that finds the entries nearest to queries; an entry is as near as the nearest of its keys."""

    def search(self, query_vectors: NDArray[np.floating], k: int) -> tuple[Positions, Scores]:
        """Positions and cosines of the ``k`` best entries, best first: shape ``(queries, min(k, entries))`` both.

        The best of a deeper search are the same, so that what was searched before, and how deep, changes no result.

        ``query_vectors`` has the shape ``(queries, dimensions)``, rows of length 1 or 0.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The keys of an index: ``starts[e]`` is the first of entry ``e``'s, which are consecutive; ``count`` is of all.

    ``name`` identifies the texts and the embedder, and so the vectors.
    """

    name: str
    starts: Positions
    count: int

    def entry_scores(self, key_scores: Scores) -> Scores:
        """Scores of entries from those of all keys, shape ``(..., count)``: the best key counts; to 6 decimals."""
        best = key_scores
        if len(self.starts) < self.count:
            best = np.maximum.reduceat(key_scores, self.starts, axis=-1)
        return np.round(best, 6)  # the last bits differ between machines; ties must not


def keys_name(index_id: str, embedder_id: str) -> str:
    """What names the vectors of an index by an embedder: ``ragsmith-`` and 32 hexadecimal digits."""
    return f"ragsmith-{digest('vectors', index_id, embedder_id)}"


@dataclass(frozen=True, slots=True)
class TextPositions:
    """`MakeVectors` that says of which ``texts``: a store that has vectors of some of them by ``embedder`` asks for the
    others alone."""

    texts: Sequence[str]
    embedder: Embedder
    make: MakeVectors

    def __call__(self, start: int, end: int) -> NDArray[np.floating]:
        """Vectors of the texts ``[start, end)``."""
        return self.make(start, end)


OpenStore = Callable[[Keys, MakeVectors], VectorStore]
"""What makes the store for the vectors of an index's keys."""
