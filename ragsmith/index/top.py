"""Selection of the highest scores."""

import numpy as np
from numpy.typing import NDArray


def best_positions(scores: NDArray[np.float64], k: int, *, positive: bool = False) -> NDArray[np.int64]:
    """Return the positions of the ``k`` highest scores, best first, ties by position; with ``positive``, only above 0.

    Entries of an index are in the order of their chunks' ids, so a tie goes to the smaller id.
    """
    candidates = np.flatnonzero(scores > 0) if positive else np.arange(len(scores))
    if 0 < k < len(candidates):
        # scores equal to the k-th are kept, so that the result equals that of a full stable sort
        kth = np.partition(scores[candidates], len(candidates) - k)[len(candidates) - k]
        candidates = candidates[scores[candidates] >= kth]
    return candidates[np.argsort(-scores[candidates], kind="stable")][:k]
