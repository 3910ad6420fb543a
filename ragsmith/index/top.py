"""The positions of the highest scores among many, ties in the order of the positions."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def best_positions(scores: NDArray[np.float64], k: int, *, positive: bool = False) -> NDArray[np.int64]:
    """Positions of the ``k`` highest scores, best first, ties by position; with ``positive`` only of scores above 0.

    Entries of an index are in the order of their chunks' ids, so a tie goes to the smaller id.
    """
    among = np.flatnonzero(scores > 0) if positive else np.arange(len(scores))
    if 0 < k < len(among):
        # everything that ties with the k-th best stays in, so the stable sort below sees what a full sort would
        kth = np.partition(scores[among], len(among) - k)[len(among) - k]
        among = among[scores[among] >= kth]
    return among[np.argsort(-scores[among], kind="stable")][:k]
