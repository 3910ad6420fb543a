"""Exact search on servers that compare in single precision: extra keys are fetched and rescored.

Entries that were not fetched are farther than those that were, up to the error of single precision
(`screening.compute_tolerance`). If this error leaves open whether one belongs to the best, twice as many are fetched.
So the results are those of exact search, with ties.
"""

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
from ragsmith.index.vector_store import Admitted, Keys, Positions, Scores, start_results

C = TypeVar("C")

EXTRA_KEYS = 16
"""Number of keys fetched beyond those requested at first."""


@dataclass(frozen=True, slots=True, eq=False)
class FetchedKeys:
    """The nearest keys of one query, nearest first: their numbers and vectors, and the server's score of the last."""

    numbers: Positions
    vectors: NDArray[np.floating]
    last: float


_CONNECTIONS: WeakValueDictionary[str, Any] = WeakValueDictionary()
"""Connections of this process by address; each is closed when it is no longer referenced."""
_CONNECTIONS_LOCK = threading.Lock()


def get_connection(address: str, connect: Callable[[], C]) -> C:
    """Return the shared connection to ``address``, created by ``connect`` if there is none."""
    with _CONNECTIONS_LOCK:
        found: C | None = _CONNECTIONS.get(address)
        if found is None:
            found = _CONNECTIONS[address] = connect()
        return found


class ServedVectors(ABC, Generic[C]):
    """A `VectorStore` whose vectors are in a collection of a server.

    ``filters`` is whether the server compares only some keys faster than all of them.
    """

    filters = True

    def __init__(self, keys: Keys, connection: C) -> None:
        self.keys = keys
        self._connection: C | None = connection

    @property
    def connection(self) -> C:
        """The connection; raises `UsageError` after `close`."""
        if self._connection is None:
            raise UsageError("this vector store was closed: open it again")
        return self._connection

    def close(self) -> None:
        """Close the store; the connection is closed with the last store that uses it."""
        self._connection = None

    @abstractmethod
    def fetch(self, queries: NDArray[np.floating], limit: int, among: Positions | None = None) -> list[FetchedKeys]:
        """Return the ``limit`` nearest keys for each row of ``queries``, or all keys if there are fewer.

        With ``among``, the server compares only the keys with these numbers.
        """

    def search(
        self, query_vectors: NDArray[np.floating], k: int, admitted: Admitted | None = None
    ) -> tuple[Positions, Scores]:
        """See `VectorStore.search`.

        Raises:
            ModelUnavailable: the server is down or refuses, or it has fewer vectors than there are keys.
        """
        keys = self.keys
        positions, scores, pending = start_results(keys, query_vectors, k, admitted)
        wanted = positions.shape[1]
        own = None if admitted is None else keys.owned_by(admitted)
        among = None if own is None or not self.filters else np.flatnonzero(own)
        count = keys.count if among is None else len(among)
        others = 1 if own is None or among is not None else keys.count // max(1, int(np.count_nonzero(own)))
        limit = (k * -(-keys.count // max(1, len(keys.starts))) + EXTRA_KEYS) * others  # others are left out below
        while pending:
            undecided = []
            for row, found in zip(pending, self.fetch(query_vectors[pending], limit, among), strict=True):
                if len(found.numbers) < min(limit, count):
                    raise ModelUnavailable(
                        f"the vector store has found {len(found.numbers)} of {min(limit, count)} vectors, as "
                        "others were removed while it was in use: run the same command again to put them in"
                    )
                kept = slice(None) if own is None else own[found.numbers]
                entries, best = rank_entries(keys, query_vectors[row], found.numbers[kept], found.vectors[kept], wanted)
                is_exact = len(best) == wanted and found.last < best[-1] - compute_tolerance(query_vectors[row])
                if is_exact or limit >= count:
                    positions[row], scores[row] = entries, best
                else:  # a key that was not fetched may be among the best
                    undecided.append(row)
            pending, limit = undecided, limit * 2
        return positions, scores


def fill_collection(keys: Keys, count: Callable[[], int], put: Callable[[int], None], drop: Callable[[], None]) -> None:
    """Complete a collection whose vectors are inserted in order.

    ``put`` inserts all vectors from a given number on. A collection that was changed by others is dropped and rebuilt.
    """
    stored = count()
    if stored == keys.count:
        return
    if stored > keys.count:
        drop()
        stored = 0
    put(stored)
    if count() != keys.count:
        drop()
        put(0)
