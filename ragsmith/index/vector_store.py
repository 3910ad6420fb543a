"""The interface of vector stores, which search for the entries nearest to a query.

Every exact store returns the results of exact search in double precision: scores to 6 decimals, ties by position.
Results therefore do not depend on the store.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragsmith.digest import digest
from ragsmith.models.protocols import Embedder

Positions = NDArray[np.int64]
Scores = NDArray[np.float64]
Admitted = NDArray[np.bool_]
MakeVectors = Callable[[int, int], NDArray[np.floating]]
"""Vectors of the keys ``[start, end)``, normalised or zero rows, embedded on demand."""


MIN_SINGLE_PRECISION_KEYS = 20_000
"""Minimum number of keys of which vectors in single precision are not converted, which halves the memory and does not
change results (`screening`). Fewer are converted to double precision once instead of for every query."""


def to_memory_precision(vectors: NDArray[np.floating]) -> NDArray[np.floating]:
    """Return ``vectors`` in the precision in which their number is stored in memory, at least their own."""
    if len(vectors) >= MIN_SINGLE_PRECISION_KEYS and vectors.dtype == np.float32:
        return vectors
    return vectors.astype(np.float64, copy=False)


class VectorStore(Protocol):
    """A store that finds the entries nearest to queries; the score of an entry is that of its nearest key."""

    def search(
        self, query_vectors: NDArray[np.floating], k: int, admitted: Admitted | None = None
    ) -> tuple[Positions, Scores]:
        """Return positions and cosines of the ``k`` best entries, best first: shapes ``(queries, min(k, entries))``.

        With ``admitted``, a mask of shape ``(entries,)``, only these are searched, as if there were no others. It is
        given for questions with a filter only.

        The results of a deeper search begin with the same entries, so that results do not depend on earlier searches.

        ``query_vectors`` has the shape ``(queries, dimensions)``, rows of length 1 or 0.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Keys:
    """The keys of an index: those of entry ``e`` are consecutive from ``starts[e]``; ``count`` is the number of keys.

    ``name`` identifies the texts and the embedder, and so the vectors.
    """

    name: str
    starts: Positions
    count: int

    def entry_scores(self, key_scores: Scores) -> Scores:
        """Return the scores of entries, those of their best keys, from key scores of shape ``(..., count)``."""
        best = key_scores
        if len(self.starts) < self.count:
            best = np.maximum.reduceat(key_scores, self.starts, axis=-1)
        return np.round(best, 6)  # the last bits differ between machines; ties must not

    def owned_by(self, admitted: Admitted) -> NDArray[np.bool_]:
        """Return which keys are those of ``admitted`` entries, shape ``(count,)``."""
        return np.repeat(admitted, np.diff(self.starts, append=self.count))


def start_results(
    keys: Keys, query_vectors: NDArray[np.floating], k: int, admitted: Admitted | None = None
) -> tuple[Positions, Scores, list[int]]:
    """Return arrays for the results of a search, and the queries to search for, by row.

    A zero vector is not searched for: all entries are equally near to it, and its results are the first ones.
    """
    first = (np.arange(len(keys.starts)) if admitted is None else np.flatnonzero(admitted))[:k]
    shape = (len(query_vectors), len(first))
    rows = np.flatnonzero(query_vectors.any(axis=1)) if shape[1] else np.zeros(0, dtype=np.int64)
    return np.tile(first, (shape[0], 1)), np.zeros(shape), rows.tolist()


def make_keys_name(index_id: str, embedder_id: str) -> str:
    """Return the name of the vectors of an index by an embedder: ``ragsmith-`` and 32 hexadecimal digits."""
    return f"ragsmith-{digest('vectors', index_id, embedder_id)}"


@dataclass(frozen=True, slots=True)
class TextPositions:
    """`MakeVectors` with its ``texts``, by which a store reuses vectors of ``embedder``."""

    texts: Sequence[str]
    embedder: Embedder
    make: MakeVectors

    def __call__(self, start: int, end: int) -> NDArray[np.floating]:
        """Return vectors of the texts ``[start, end)``."""
        return self.make(start, end)


OpenStore = Callable[[Keys, MakeVectors], VectorStore]
"""Opens the store for the vectors of the keys of an index."""
