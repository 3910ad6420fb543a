"""Exact results from a store that compares in single precision: more is fetched than asked for, and scored again.

Whatever was not fetched is farther than what was, but for the error of single precision (`screening.doubt`); where that
leaves open whether it belongs to the best, twice as much is fetched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import ModelUnavailable
from ragsmith.index.screening import doubt
from ragsmith.index.vector_store import Keys, Positions, Scores

MORE = 16
"""How many keys are fetched beyond those asked for, at first."""


@dataclass(frozen=True, slots=True, eq=False)
class Fetched:
    """The nearest keys of one query, nearest first: their numbers, their vectors, and the store's score of the last."""

    numbers: Positions
    vectors: NDArray[np.floating]
    last: float


Fetch = Callable[[NDArray[np.floating], int], list[Fetched]]
"""For each row of a matrix of queries, as many of the nearest keys as asked for, or all keys if there are no more."""


def search_rescored(keys: Keys, query_vectors: NDArray[np.floating], k: int, fetch: Fetch) -> tuple[Positions, Scores]:
    """What exact search in double precision finds, ties included, of a store that ``fetch`` asks; see `VectorStore`.

    Raises:
        ModelUnavailable: the store has fewer vectors than there are keys.
    """
    shape = (len(query_vectors), min(k, len(keys.starts)))
    positions, scores = np.zeros(shape, dtype=np.int64), np.zeros(shape)
    if 0 in shape:
        return positions, scores
    waiting = np.flatnonzero(query_vectors.any(axis=1)).tolist()  # to a zero vector all are as near
    positions[:] = np.arange(shape[1])
    limit = k * -(-keys.count // len(keys.starts)) + MORE
    while waiting:
        unsettled = []
        for row, found in zip(waiting, fetch(query_vectors[waiting], limit), strict=True):
            if len(found.numbers) < min(limit, keys.count):
                raise ModelUnavailable(
                    f"the vector store has found {len(found.numbers)} of {min(limit, keys.count)} vectors, as somebody "
                    "took others out while it was in use: run the same command again to put them in"
                )
            entries, best = best_entries(keys, query_vectors[row], found.numbers, found.vectors, shape[1])
            settled = len(best) == shape[1] and found.last < best[-1] - doubt(query_vectors[row])
            if settled or limit >= keys.count:
                positions[row], scores[row] = entries, best
            else:  # one that was not fetched may belong to them
                unsettled.append(row)
        waiting, limit = unsettled, limit * 2
    return positions, scores


def best_entries(
    keys: Keys, query: NDArray[np.floating], numbers: Positions, vectors: NDArray[np.floating], k: int
) -> tuple[Positions, Scores]:
    """The ``k`` best entries among the keys ``numbers``, best first, and their cosines to 6 decimals; ties by position.

    ``vectors`` are those of these keys, in the same order. There are fewer where the keys are of fewer entries.
    """
    cosines = np.round(vectors.astype(np.float64) @ query.astype(np.float64), 6)
    owners = np.searchsorted(keys.starts, numbers, side="right") - 1
    order = np.lexsort((owners, -cosines))
    first = np.sort(np.unique(owners[order], return_index=True)[1])  # of an entry, the best key counts
    chosen = order[first][:k]
    return owners[chosen], cosines[chosen]
