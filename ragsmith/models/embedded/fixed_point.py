"""Unit vectors in fixed point, whose dot products are exact: the same whatever the batch, the BLAS and its threads.

A float32 product sums in an order that depends on the shapes multiplied and on the machine, so its last bits are no
result to build rankings or caches on. With coordinates that are multiples of 2^-11, every product is a multiple of
2^-22, and no partial sum exceeds |a| |b| (Cauchy-Schwarz), about 1: each of them is a float32 without rounding. The
cosine of two vectors moves by some 2e-4 (standard deviation), far below what a static embedding can tell apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ragsmith.models.protocols import Vectors

_GRID = np.float32(2**11)


def round_to_grid(vectors: NDArray[np.floating]) -> Vectors:
    """Round each coordinate of ``vectors``, rows of length at most 1, to the nearest multiple of 2^-11."""
    scaled: Vectors = np.multiply(vectors, _GRID, dtype=np.float32)
    np.rint(scaled, out=scaled)  # in place from here: a vocabulary of vectors is large
    scaled /= _GRID
    return scaled
