"""Exact search: all vectors in memory, compared with every query."""

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.screening import find_nearest
from ragsmith.index.top import best_positions
from ragsmith.index.vector_store import Admitted, Keys, MakeVectors, Positions, Scores, to_memory_precision
from ragsmith.models.vector_stores import vector_store


class ExactVectors:
    """The vectors of ``keys`` in memory."""

    def __init__(self, keys: Keys, make: MakeVectors) -> None:
        self._keys = keys
        self._vectors = to_memory_precision(make(0, keys.count))

    def search(
        self, query_vectors: NDArray[np.floating], k: int, admitted: Admitted | None = None
    ) -> tuple[Positions, Scores]:
        """See `VectorStore.search`."""
        among = np.arange(len(self._keys.starts)) if admitted is None else np.flatnonzero(admitted)
        shape = (len(query_vectors), min(k, len(among)))
        if 0 in shape:
            return np.zeros(shape, dtype=np.int64), np.zeros(shape)
        if self._vectors.dtype == np.float32:
            return find_nearest(self._keys, query_vectors, self._vectors, k, admitted)
        rows = self._keys.entry_scores(query_vectors.astype(np.float64) @ self._vectors.T)
        positions = np.stack([among[best_positions(row, k)] for row in (rows if admitted is None else rows[:, among])])
        return positions, np.take_along_axis(rows, positions, axis=1)


@vector_store("exact")
def exact(address: str, keys: Keys, make: MakeVectors) -> ExactVectors:
    """All vectors in memory, compared with every query."""
    return ExactVectors(keys, make)
