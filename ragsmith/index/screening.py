"""The entries nearest to a query among vectors in single precision, exactly as in double precision.

A product of a vector of n numbers with another, in single precision and in whatever order its terms are added, is wrong
by at most ``n u / (1 - n u)`` times the product of their lengths, with u = 2^-24 (Higham 2002, section 3.1). So all
vectors are compared in single precision, and what can be among the best is compared again in double precision.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.top import best_positions
from ragsmith.index.vector_store import Keys, Positions, Scores

_ROUNDED = 1.1e-6
"""Scores have 6 decimals: of two that differ by more than 1e-6, the higher one stays higher."""
_BLOCK = 1 << 14
"""Rows held in double precision at once."""


def nearest(
    keys: Keys, query: NDArray[np.floating], vectors: NDArray[np.float32], k: int, longest: float = 1.0
) -> tuple[Positions, Scores]:
    """The ``k`` best entries for ``query``, best first, and their cosines to 6 decimals; ties by position.

    ``vectors`` are those of all ``keys``, shape ``(keys, dimensions)``, and ``longest`` is no less than their lengths.
    """
    wanted = query.astype(np.float64)
    if not wanted.any() or k >= len(keys.starts):
        scores = keys.entry_scores(_products(vectors, np.arange(keys.count), wanted))
        best = best_positions(scores, k)
        return best, scores[best]
    screened: NDArray[np.float32] = vectors @ wanted.astype(np.float32)
    if len(keys.starts) < keys.count:
        screened = np.maximum.reduceat(screened, keys.starts)
    error = _error(len(wanted)) * longest * float(np.linalg.norm(wanted))
    kth = np.partition(screened, len(screened) - k)[len(screened) - k]
    entries = np.flatnonzero(screened >= kth - 2 * error - _ROUNDED)
    ends = np.append(keys.starts, keys.count)
    counts = ends[entries + 1] - keys.starts[entries]
    begins = np.cumsum(counts) - counts
    numbers = np.arange(counts.sum()) - np.repeat(begins - keys.starts[entries], counts)
    rescored = Keys(keys.name, begins, len(numbers)).entry_scores(_products(vectors, numbers, wanted))
    best = best_positions(rescored, k)
    return entries[best], rescored[best]


def longest(vectors: NDArray[np.float32]) -> float:
    """The length of the longest of ``vectors``, and a little more; 1 if there are none."""
    blocks = (vectors[first : first + _BLOCK] for first in range(0, len(vectors), _BLOCK))
    squares = [float(np.einsum("ij,ij->i", block, block, dtype=np.float64).max()) for block in blocks]
    return math.sqrt(max(squares, default=1.0)) * (1 + 1e-9)


def _error(dimensions: int) -> float:
    """How wrong a product of two vectors of length 1 is at most, one of them rounded to single precision before."""
    unit = 2.0**-24
    terms = (dimensions + 2) * unit
    return terms / (1 - terms)


def _products(vectors: NDArray[np.float32], numbers: Positions, wanted: Scores) -> Scores:
    """The product of each of the vectors ``numbers`` with ``wanted``, in double precision."""
    blocks = (numbers[first : first + _BLOCK] for first in range(0, len(numbers), _BLOCK))
    return np.concatenate([np.zeros(0), *(vectors[block].astype(np.float64) @ wanted for block in blocks)])
