"""Vectors that somebody else computes: blank texts are not sent, and all vectors have length 1 and as many numbers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import Notice
from ragsmith.models.protocols import Vectors

PROBE = "a"
"""What is embedded to learn how many numbers a vector has, when every text is blank."""
TOLERANCE = 1e-3
"""How far from 1 a length may be: vectors that were rounded to half precision are nearer."""


def scaled(rows: NDArray[Any]) -> tuple[Vectors, NDArray[np.bool_]]:
    """``rows`` scaled to length 1, but for those that are zero, and which of them had another length than about 1."""
    wide = np.asarray(rows, dtype=np.float64)
    largest = np.abs(wide).max(axis=1, keepdims=True, initial=0.0)
    given = largest > 0
    wide = wide / np.where(given, largest, 1.0)  # squares of large numbers would overflow
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, np.newaxis]
    unit: Vectors = (wide / np.where(given, lengths, 1.0)).astype(np.float32)
    return unit, (given & (np.abs(largest * lengths - 1) > TOLERANCE))[:, 0]


@cache
def say_scaled(name: str) -> None:
    """Say, once in a process, that the vectors of the embedder called ``name`` are not as they came."""
    warnings.warn(f"{name} gives vectors that do not have length 1: they were scaled to it", Notice, stacklevel=2)


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

    def checked(self, rows: NDArray[np.float64], wrong: Callable[[str], Exception], name: str) -> Vectors:
        """``rows`` scaled to length 1, which is said where it changes those of the embedder called ``name``.

        Raises what ``wrong`` makes of a sentence: a row is not finite or zero, or not as long as all others.
        """
        if not np.isfinite(rows).all():
            raise wrong("a vector holds NaN or infinity")
        if not rows.any(axis=1).all():
            raise wrong("a vector is zero, though its text is not blank")
        if self._dimensions not in (None, rows.shape[1]):
            expected = f"expected {self._dimensions}, as before or as asked for"
            raise wrong(f"the vectors have {rows.shape[1]} numbers; {expected}")
        self._dimensions = rows.shape[1]
        vectors, changed = scaled(rows)
        if changed.any():
            say_scaled(name)
        return vectors
