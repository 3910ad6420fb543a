"""Unit vectors: validation and normalisation for external embedders, and fixed point for exact dot products."""

import threading
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import Notice
from ragsmith.models.protocols import Vectors

PROBE = "a"
"""The text that is embedded, repeated, while the number of dimensions is unknown."""
AGREEING = 3
"""Replies with vectors of the same number of dimensions after which a served embedder has this number."""
TOLERANCE = 1e-3
"""Maximum deviation of a length from 1 without a warning; rounding to half precision causes less."""


def normalize_rows(rows: NDArray[Any]) -> tuple[Vectors, NDArray[np.bool_]]:
    """Scale nonzero ``rows`` to length 1, and return a mask of those that had another length."""
    wide = np.asarray(rows, dtype=np.float64)
    largest = np.abs(wide).max(axis=1, keepdims=True, initial=0.0)
    nonzero = largest > 0
    wide = wide / np.where(nonzero, largest, 1.0)  # squares of large numbers would overflow
    lengths = np.sqrt(np.einsum("ij,ij->i", wide, wide))[:, np.newaxis]
    unit: Vectors = (wide / np.where(nonzero, lengths, 1.0)).astype(np.float32)
    return unit, (nonzero & (np.abs(largest * lengths - 1) > TOLERANCE))[:, 0]


@cache
def warn_normalized(name: str) -> None:
    """Warn, once per process, that vectors of the embedder called ``name`` were normalised."""
    warnings.warn(f"{name} gives vectors that do not have length 1: they were scaled to it", Notice, stacklevel=2)


class UnitVectors:
    """Checks and normalises the vectors of one embedder.

    Without ``dimensions``, the number is the first one that ``agreeing`` replies have, as one reply may be wrong.
    """

    def __init__(self, dimensions: int | None = None, *, agreeing: int = 1) -> None:
        self._dimensions = dimensions
        self._agreeing = agreeing
        self._replies = Counter[int]()
        self._lock = threading.Lock()

    def expect(self, dimensions: int) -> None:
        """Count vectors of an earlier command as all replies but one, so that another one like them settles the number.

        Replies that contradict them can still settle another one.
        """
        self._replies[dimensions] = max(self._replies[dimensions], self._agreeing - 1)

    def embed(self, texts: Sequence[str], embed_nonblank: Callable[[list[str]], Sequence[Vectors]]) -> Vectors:
        """Embed ``texts``: shape ``(len(texts), dimensions)``, zero for blank ones.

        ``embed_nonblank`` embeds the others and returns arrays from `normalize`, which are concatenated. Until the
        number of dimensions is settled, `PROBE` is embedded; texts whose vectors have another one are embedded again.
        """
        nonblank = [row for row, text in enumerate(texts) if text.strip()]
        rows = [
            row for array in (embed_nonblank([texts[row] for row in nonblank]) if nonblank else ()) for row in array
        ]
        with self._lock:
            while texts and self._dimensions is None:
                embed_nonblank([PROBE * (1 + self._replies.total())])  # a proxy may cache the reply to the same text
        wrong = [place for place, row in enumerate(rows) if len(row) != self._dimensions]
        again = embed_nonblank([texts[nonblank[place]] for place in wrong]) if wrong else ()
        for place, row in zip(wrong, chain.from_iterable(again), strict=True):
            rows[place] = row
        vectors = np.zeros((len(texts), self._dimensions or 0), dtype=np.float32)
        if rows:
            vectors[nonblank] = rows
        return vectors

    def normalize(self, rows: NDArray[np.float64], error: Callable[[str], Exception], name: str) -> Vectors:
        """Scale ``rows`` to length 1, with a warning if vectors of the embedder ``name`` had another length.

        Raises ``error(message)`` if a row is not finite, zero, or has a different number of dimensions.
        """
        if not np.isfinite(rows).all():
            raise error("a vector contains NaN or infinity")
        if not rows.any(axis=1).all():
            raise error("a vector is zero, though its text is not blank")
        width = rows.shape[1]
        self._replies[width] += 1
        if self._dimensions is None and self._replies[width] >= self._agreeing:
            self._dimensions = width
        if self._dimensions not in (None, width):
            raise error(f"the vectors have {width} numbers; expected {self._dimensions}, as before or as requested")
        vectors, changed = normalize_rows(rows)
        if changed.any():
            warn_normalized(name)
        return vectors


_GRID = np.float32(2**11)


def round_to_grid(vectors: NDArray[np.floating]) -> Vectors:
    """Round each coordinate of ``vectors``, rows of length at most 1, to the nearest multiple of 2^-11."""
    scaled: Vectors = np.multiply(vectors, _GRID, dtype=np.float32)
    np.rint(scaled, out=scaled)  # in place from here: a vocabulary of vectors is large
    scaled /= _GRID
    return scaled
