"""Vector stores: where the vectors of an index's keys lie, and how the entries nearest to a query are found.

Every store returns what exact search in double precision does: scores to 6 decimals, ties by position.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragsmith.digest import digest
from ragsmith.errors import UsageError
from ragsmith.index.top import best_places
from ragsmith.models.vector_address import AUTO, EXACT, QDRANT

Positions = NDArray[np.int64]
Scores = NDArray[np.float64]
MakeVectors = Callable[[int, int], NDArray[np.floating]]
"""Vectors of the keys ``[start, end)``, rows of length 1 or 0: embedded when a store asks for them."""

LARGE_ROWS = 50_000
"""Below this, a product with all vectors is faster than asking a server (0.4 ms for 10,000 keys, 13 ms for 100,000)."""
SERVER_VARIABLE = "QDRANT_URL"


class VectorStore(Protocol):
    """Something that finds the entries nearest to queries; an entry is as near as the nearest of its keys."""

    def search(self, query_vectors: NDArray[np.floating], k: int) -> tuple[Positions, Scores]:
        """Positions and cosines of the ``k`` best entries, best first: shape ``(queries, min(k, entries))`` both.

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


class ExactVectors:
    """All vectors in memory, compared with every query in double precision."""

    def __init__(self, keys: Keys, make: MakeVectors) -> None:
        self._keys = keys
        self._vectors: Scores = make(0, keys.count).astype(np.float64, copy=False)

    def search(self, query_vectors: NDArray[np.floating], k: int) -> tuple[Positions, Scores]:
        """See `VectorStore.search`."""
        shape = (len(query_vectors), min(k, len(self._keys.starts)))
        if 0 in shape:
            return np.zeros(shape, dtype=np.int64), np.zeros(shape)
        rows = self._keys.entry_scores(query_vectors.astype(np.float64) @ self._vectors.T)
        positions = np.stack([best_places(row, k) for row in rows])
        return positions, np.take_along_axis(rows, positions, axis=1)


def open_vectors(location: str, keys: Keys, make: MakeVectors) -> VectorStore:
    """The store that ``location`` names: ``auto``, ``exact``, ``qdrant:URL``, ``qdrant:FOLDER``, ``qdrant::memory:``.

    ``auto`` is the Qdrant server that ``QDRANT_URL`` names for at least ``LARGE_ROWS`` keys, and exact otherwise. An
    embedded Qdrant is never chosen by itself: it compares everything too, only more slowly.

    Raises:
        UsageError: there is no such store, or it cannot be opened.
        MissingExtra: qdrant-client is not installed.
    """
    kind, _, where = location.partition(":")
    if location == AUTO:
        where = os.environ.get(SERVER_VARIABLE, "")
        kind = QDRANT if where and keys.count >= LARGE_ROWS else EXACT
    if kind == EXACT:
        return ExactVectors(keys, make)
    if kind == QDRANT and where:
        from ragsmith.index.qdrant import QdrantVectors  # noqa: PLC0415  the client takes 0.8 s to import

        return QdrantVectors(where, keys, make)
    raise UsageError(f"unknown vector store {location!r}: give auto, exact, or qdrant: and a URL or folder")
