"""Vectors that somebody else computes: blank texts are not sent, and all vectors have length 1 and as many numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ragsmith.models.protocols import Vectors

PROBE = "a"
"""What is embedded to learn how many numbers a vector has, when every text is blank."""


class UnitVectors:
    """Checks and scales the vectors of one embedder; ``dimensions`` None stands for those of the first vectors."""

    def __init__(self, dimensions: int | None = None) -> None:
        self._dimensions = dimensions

    def of(self, texts: Sequence[str], ask: Callable[[list[str]], Sequence[Vectors]]) -> Vectors:
        """Vectors of ``texts``, of the shape ``(len(texts), dimensions)``: zero for blank ones, by ``ask`` for others.

        ``ask`` returns what `checked` returned, in one part or in several.
        """
        written = [row for row, text in enumerate(texts) if text.strip()]
        if texts and not written and self._dimensions is None:
            ask([PROBE])
        found = ask([texts[row] for row in written]) if written else ()
        vectors = np.zeros((len(texts), self._dimensions or 0), dtype=np.float32)
        vectors[written] = np.concatenate([vectors[:0], *found])
        return vectors

    def checked(self, rows: NDArray[np.float64], wrong: Callable[[str], Exception]) -> Vectors:
        """``rows`` scaled to length 1.

        Raises what ``wrong`` makes of a sentence: a row is not finite or zero, or not as long as all others.
        """
        if not np.isfinite(rows).all():
            raise wrong("a vector holds NaN or infinity")
        largest = np.abs(rows).max(axis=1, keepdims=True)
        if not largest.all():
            raise wrong("a vector is zero, though its text is not blank")
        if self._dimensions not in (None, rows.shape[1]):
            expected = f"expected {self._dimensions}, as before or as asked for"
            raise wrong(f"the vectors have {rows.shape[1]} numbers; {expected}")
        self._dimensions = rows.shape[1]
        rows = rows / largest  # squares of large numbers would overflow
        unit: Vectors = (rows / np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, np.newaxis]).astype(np.float32)
        return unit
