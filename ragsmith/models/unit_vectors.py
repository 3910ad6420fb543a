"""Unit vectors: validation and normalisation for external embedders, and fixed point for exact dot products."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import warn_caller
from ragsmith.models.protocols import Vectors

PROBE = "a"
"""The text that is embedded to determine the number of dimensions if every text is blank."""
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
    warn_caller(f"{name} gives vectors that do not have length 1: they were scaled to it")


class UnitVectors:
    """Checks and normalises the vectors of one embedder; ``dimensions`` None takes those of the first vectors."""

    def __init__(self, dimensions: int | None = None) -> None:
        self.dimensions = dimensions
        """The number of dimensions of all vectors, if it is known."""

    def embed(self, texts: Sequence[str], embed_nonblank: Callable[[list[str]], Sequence[Vectors]]) -> Vectors:
        """Embed ``texts``: shape ``(len(texts), dimensions)``, zero for blank ones.

        ``embed_nonblank`` embeds the others and returns arrays from `normalize`, which are concatenated.
        """
        nonblank = [row for row, text in enumerate(texts) if text.strip()]
        if texts and not nonblank and self.dimensions is None:
            embed_nonblank([PROBE])
        arrays = embed_nonblank([texts[row] for row in nonblank]) if nonblank else ()
        vectors = np.zeros((len(texts), self.dimensions or 0), dtype=np.float32)
        vectors[nonblank] = np.concatenate([vectors[:0], *arrays])
        return vectors

    def normalize(self, rows: NDArray[np.float64], error: Callable[[str], Exception], name: str) -> Vectors:
        """Scale ``rows`` to length 1, with a warning if vectors of the embedder ``name`` had another length.

        Raises ``error(message)`` if a row is not finite, zero, or has a different number of dimensions.
        """
        if not np.isfinite(rows).all():
            raise error("a vector contains NaN or infinity")
        if not rows.any(axis=1).all():
            raise error("a vector is zero, though its text is not blank")
        if self.dimensions not in (None, rows.shape[1]):
            expected = f"expected {self.dimensions}, as before or as requested (for another model, use another cache)"
            raise error(f"the vectors have {rows.shape[1]} numbers; {expected}")
        self.dimensions = rows.shape[1]
        vectors, changed = normalize_rows(rows)
        if changed.any():
            warn_normalized(name)
        return vectors


GRID_STEPS = np.float32(2**11)
"""The number of steps of the grid from 0 to 1."""


def round_to_grid(vectors: NDArray[np.floating]) -> Vectors:
    """Round each coordinate of ``vectors``, rows of length at most 1, to the nearest multiple of 2^-11."""
    scaled: Vectors = np.multiply(vectors, GRID_STEPS, dtype=np.float32)
    np.rint(scaled, out=scaled)  # in place from here: a vocabulary of vectors is large
    scaled /= GRID_STEPS
    return scaled
