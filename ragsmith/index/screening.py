"""Nearest neighbour search among vectors in single precision, with the results of double precision.

The error of the inner product of two vectors of n numbers in single precision, in any order of summation, is at most
``n u / (1 - n u)`` times the product of their norms, with u = 2^-24 (Higham 2002, section 3.1). Therefore all vectors
are compared in single precision, and the entries that can be among the best are scored again in double precision.
"""

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.top import best_positions
from ragsmith.index.vector_store import Admitted, Keys, Positions, Scores

UNSCORED = -2.0
"""Placeholder for a cosine that was not computed, lower than any cosine."""
_MAX_NORM = 1.001
"""Upper bound of the norms of vectors, which are 1 up to rounding, possibly in half precision."""
_ROUNDING_ERROR = 1.1e-6
"""Scores are rounded to 6 decimals, which keeps the order of two that differ by more than this."""
_BLOCK_ROWS = 1 << 14
"""Number of vectors converted to double precision at a time."""
_BLOCK_QUERIES = 8
"""Number of queries compared with all vectors at a time."""


def find_nearest(
    keys: Keys, queries: NDArray[np.floating], vectors: NDArray[np.floating], k: int, admitted: Admitted | None = None
) -> tuple[Positions, Scores]:
    """Return the ``k`` best entries for each query, best first, and their cosines to 6 decimals; ties by position.

    ``vectors`` are those of all ``keys``, shape ``(keys, dimensions)``. The shapes returned are those of
    `VectorStore.search`.
    """
    shape = (len(queries), min(k, len(keys.starts) if admitted is None else int(np.count_nonzero(admitted))))
    positions, scores = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    for first in range(0, len(queries), _BLOCK_QUERIES) if shape[1] else ():
        wanted = queries[first : first + _BLOCK_QUERIES].astype(np.float64)
        screened = wanted.astype(np.float32) @ vectors.T
        if len(keys.starts) < keys.count:
            screened = np.maximum.reduceat(screened, keys.starts, axis=1)
        screened = screened if admitted is None else np.where(admitted, screened, np.float32(-np.inf))
        for row, (query, rough) in enumerate(zip(wanted, screened, strict=True), first):
            positions[row], scores[row] = _rescore(keys, query, rough, vectors, shape[1])
    return positions, scores


def compute_best_cosines(
    keys: Keys, queries: Scores, vectors: NDArray[np.floating], k: int, admitted: Admitted | None = None
) -> Scores:
    """Return the cosine of each query and the best key of every entry, to 6 decimals: shape ``(queries, entries)``.

    For vectors in single precision, only the cosines of the ``k`` best entries of each query are computed, and the
    others are `UNSCORED`, as are all entries that are not ``admitted``.
    """
    if vectors.dtype != np.float32:
        return np.where(True if admitted is None else admitted, keys.entry_scores(queries @ vectors.T), UNSCORED)
    found = np.full((len(queries), len(keys.starts)), UNSCORED)
    np.put_along_axis(found, *find_nearest(keys, queries, vectors, k, admitted), axis=1)
    return found


def compute_tolerance(query: NDArray[np.floating]) -> float:
    """Return the difference of two scores in single precision up to which their order is uncertain."""
    return 2 * _bound_product_error(len(query)) * _MAX_NORM * float(np.linalg.norm(query)) + _ROUNDING_ERROR


def rank_entries(
    keys: Keys, query: NDArray[np.floating], numbers: Positions, vectors: NDArray[np.floating], k: int
) -> tuple[Positions, Scores]:
    """Rank the entries of the keys ``numbers``; return the ``k`` best, best first, and their cosines to 6 decimals.

    ``vectors`` are those of these keys, in the same order. Ties are broken by position. Fewer than ``k`` are returned
    if the keys belong to fewer entries.
    """
    cosines = np.round(vectors.astype(np.float64) @ query.astype(np.float64), 6)
    entries = np.searchsorted(keys.starts, numbers, side="right") - 1
    order = np.lexsort((entries, -cosines))
    first = np.sort(np.unique(entries[order], return_index=True)[1])  # the best key of each entry
    chosen = order[first][:k]
    return entries[chosen], cosines[chosen]


def _rescore(
    keys: Keys, query: Scores, screened: NDArray[np.floating], vectors: NDArray[np.floating], k: int
) -> tuple[Positions, Scores]:
    """Score again, in double precision, the entries that can be among the ``k`` best by their ``screened`` scores."""
    kth = np.partition(screened, len(screened) - k)[len(screened) - k]
    error = _bound_product_error(len(query)) * _MAX_NORM * float(np.linalg.norm(query))
    entries = np.flatnonzero(screened >= kth - 2 * error - _ROUNDING_ERROR)
    counts = np.append(keys.starts[1:], keys.count)[entries] - keys.starts[entries]
    begins = np.cumsum(counts) - counts
    numbers = np.arange(counts.sum()) + np.repeat(keys.starts[entries] - begins, counts)
    blocks = (numbers[first : first + _BLOCK_ROWS] for first in range(0, len(numbers), _BLOCK_ROWS))
    cosines = np.concatenate([vectors[block].astype(np.float64) @ query for block in blocks])
    scores = Keys(keys.name, begins, len(numbers)).entry_scores(cosines)
    best = best_positions(scores, k)
    return entries[best], scores[best]


def _bound_product_error(dimensions: int) -> float:
    """Bound the error of the product of two unit vectors in single precision, one of them rounded to it before."""
    terms = (dimensions + 2) * 2.0**-24
    return terms / (1 - terms)
