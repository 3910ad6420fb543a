"""The entries nearest to a query among vectors in single precision, exactly as in double precision.

A product of a vector of n numbers with another, in single precision and in whatever order its terms are added, is wrong
by at most ``n u / (1 - n u)`` times the product of their lengths, with u = 2^-24 (Higham 2002, section 3.1). So all
vectors are compared in single precision, and what can be among the best is compared again in double precision.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.top import best_positions
from ragsmith.index.vector_store import Keys, Positions, Scores

LOW = -2.0
"""Stands for a cosine that was not worked out, as it is lower than others."""
_LENGTH = 1.001
"""Vectors are no longer: they have length 1 but for rounding, in half precision perhaps."""
_ROUNDED = 1.1e-6
"""Scores have 6 decimals: of two that differ by more than 1e-6, the higher one stays higher."""
_BLOCK = 1 << 14
"""Rows held in double precision at once."""
_QUERIES = 8
"""Queries that are compared with all vectors at once."""


def nearest(
    keys: Keys, queries: NDArray[np.floating], vectors: NDArray[np.floating], k: int
) -> tuple[Positions, Scores]:
    """The ``k`` best entries for each query, best first, and their cosines to 6 decimals; ties by position.

    ``vectors`` are those of all ``keys``, shape ``(keys, dimensions)``; what is returned is as `VectorStore.search` has
    it.
    """
    shape = (len(queries), min(k, len(keys.starts)))
    positions, scores = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    for first in range(0, len(queries), _QUERIES) if shape[1] else ():
        wanted = queries[first : first + _QUERIES].astype(np.float64)
        screened = wanted.astype(np.float32) @ vectors.T
        if len(keys.starts) < keys.count:
            screened = np.maximum.reduceat(screened, keys.starts, axis=1)
        for row, (query, rough) in enumerate(zip(wanted, screened, strict=True), first):
            positions[row], scores[row] = _rescored(keys, query, rough, vectors, shape[1])
    return positions, scores


def best_cosines(keys: Keys, queries: Scores, vectors: NDArray[np.floating], k: int) -> Scores:
    """Cosine of each of ``queries`` and every entry, by its best key, to 6 decimals: shape ``(queries, entries)``.

    Where vectors are kept in single precision, only those of the ``k`` best entries of each are worked out, and the
    others are `LOW`.
    """
    if vectors.dtype != np.float32:
        return keys.entry_scores(queries @ vectors.T)
    found = np.full((len(queries), len(keys.starts)), LOW)
    np.put_along_axis(found, *nearest(keys, queries, vectors, k), axis=1)
    return found


def doubt(query: NDArray[np.floating]) -> float:
    """By how much a lower score in single precision still leaves open which of two entries is the better one."""
    return 2 * _error(len(query)) * _LENGTH * float(np.linalg.norm(query)) + _ROUNDED


def best_entries(
    keys: Keys, query: NDArray[np.floating], numbers: Positions, vectors: NDArray[np.floating], k: int
) -> tuple[Positions, Scores]:
    """The ``k`` best entries among the keys ``numbers``, best first, and their cosines to 6 decimals; ties by position.

    ``vectors`` are those of these keys, in the same order. There are fewer where the keys are of fewer entries.
    """
    cosines = np.round(vectors.astype(np.float64) @ query.astype(np.float64), 6)
    owners = np.searchsorted(keys.starts, numbers, side="right") - 1
    order = np.lexsort((owners, -cosines))
    first = np.sort(np.unique(owners[order], return_index=True)[1])  # of an entry, the best key counts
    chosen = order[first][:k]
    return owners[chosen], cosines[chosen]


def _rescored(
    keys: Keys, query: Scores, screened: NDArray[np.floating], vectors: NDArray[np.floating], k: int
) -> tuple[Positions, Scores]:
    """The best of the entries that may be among the best, as they were ``screened`` in single precision."""
    kth = np.partition(screened, len(screened) - k)[len(screened) - k]
    error = _error(len(query)) * _LENGTH * float(np.linalg.norm(query))
    entries = np.flatnonzero(screened >= kth - 2 * error - _ROUNDED)
    counts = np.append(keys.starts[1:], keys.count)[entries] - keys.starts[entries]
    begins = np.cumsum(counts) - counts
    numbers = np.arange(counts.sum()) + np.repeat(keys.starts[entries] - begins, counts)
    blocks = (numbers[first : first + _BLOCK] for first in range(0, len(numbers), _BLOCK))
    cosines = np.concatenate([vectors[block].astype(np.float64) @ query for block in blocks])
    scores = Keys(keys.name, begins, len(numbers)).entry_scores(cosines)
    best = best_positions(scores, k)
    return entries[best], scores[best]


def _error(dimensions: int) -> float:
    """How wrong a product of two vectors of length 1 is at most, one of them rounded to single precision before."""
    terms = (dimensions + 2) * 2.0**-24
    return terms / (1 - terms)
