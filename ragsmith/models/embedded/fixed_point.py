"""Unit vectors in fixed point, whose dot products are exact for any batch, BLAS and number of threads.

The order of summation in a float32 product depends on shapes and on the machine, and so do its last bits. With
coordinates that are multiples of 2^-11, every product is a multiple of 2^-22, and no partial sum exceeds |a| |b|
(Cauchy-Schwarz), about 1, so that all of them are exact float32 numbers. Cosines change by about 2e-4 (standard
deviation), which is negligible for static embeddings.
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
