"""Vectors on a server that compares in single precision: more is fetched than requested, and scored again.

Entries that were not fetched are farther than those that were, up to the error of single precision
(`screening.compute_tolerance`). If this error leaves open whether one belongs to the best, twice as many are fetched.
So the results are those of exact search, with ties.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import ModelUnavailable, UsageError
from ragsmith.index.screening import compute_tolerance, rank_entries
from ragsmith.index.vector_store import Keys, Positions, Scores

C = TypeVar("C")

MORE = 16
"""How many keys are fetched beyond those requested, at first."""


@dataclass(frozen=True, slots=True, eq=False)
class Fetched:
    """The nearest keys of one query, nearest first: their numbers, their vectors, and the store's score of the last."""

    numbers: Positions
    vectors: NDArray[np.floating]
    last: float


_OPEN: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""The connections of this process by address; each ends when nothing uses it any more."""
_CONNECTING = threading.Lock()


def shared_connection(address: str, connect: Callable[[], C]) -> C:
    """The connection to ``address``, made by ``connect`` where there is none."""
    with _CONNECTING:
        found: C | None = _OPEN.get(address)
        if found is None:
            found = _OPEN[address] = connect()
        return found


class ServedVectors(ABC, Generic[C]):
    """A `VectorStore` whose vectors are in a collection of a server."""

    def __init__(self, keys: Keys, connection: C) -> None:
        self.keys = keys
        self._connection: C | None = connection

    @property
    def connection(self) -> C:
        """The connection. Raises UsageError after `close`."""
        if self._connection is None:
            raise UsageError("this vector store was closed: open it again")
        return self._connection

    def close(self) -> None:
        """Search no more; the connection ends when the last collection that uses it is closed."""
        self._connection = None

    @abstractmethod
    def fetch(self, queries: NDArray[np.floating], limit: int) -> list[Fetched]:
        """For each row of ``queries``, the ``limit`` nearest keys, or all keys if there are no more."""

    def search(self, query_vectors: NDArray[np.floating], k: int) -> tuple[Positions, Scores]:
        """See `VectorStore.search`.

        Raises:
            ModelUnavailable: the server is down or refuses, or it has fewer vectors than there are keys.
        """
        keys = self.keys
        shape = (len(query_vectors), min(k, len(keys.starts)))
        positions, scores = np.zeros(shape, dtype=np.int64), np.zeros(shape)
        if 0 in shape:
            return positions, scores
        waiting = np.flatnonzero(query_vectors.any(axis=1)).tolist()  # all are as near to a zero vector
        positions[:] = np.arange(shape[1])
        limit = k * -(-keys.count // len(keys.starts)) + MORE
        while waiting:
            unsettled = []
            for row, found in zip(waiting, self.fetch(query_vectors[waiting], limit), strict=True):
                if len(found.numbers) < min(limit, keys.count):
                    raise ModelUnavailable(
                        f"the vector store has found {len(found.numbers)} of {min(limit, keys.count)} vectors, as "
                        "others were removed while it was in use: run the same command again to put them in"
                    )
                entries, best = rank_entries(keys, query_vectors[row], found.numbers, found.vectors, shape[1])
                settled = len(best) == shape[1] and found.last < best[-1] - compute_tolerance(query_vectors[row])
                if settled or limit >= keys.count:
                    positions[row], scores[row] = entries, best
                else:  # a key that was not fetched may belong to them
                    unsettled.append(row)
            waiting, limit = unsettled, limit * 2
        return positions, scores


def fill(keys: Keys, count: Callable[[], int], put: Callable[[int], None], drop: Callable[[], None]) -> None:
    """Complete a collection, of which vectors are put in in order, so that those that are there come first.

    ``put`` puts in all from a number on. A collection that others changed is dropped and filled anew.
    """
    there = count()
    if there == keys.count:
        return
    if there > keys.count:
        drop()
        there = 0
    put(there)
    if count() != keys.count:
        drop()
        put(0)
