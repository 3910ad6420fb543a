"""Vectors in Qdrant: a server by URL, a folder, or memory.

A server saves embedding a large corpus again and again: a collection is named by the digest of texts and embedder, and
used as it stands when all of its points are there. The server compares in single precision, so what it finds is scored
again (`rescoring`): results are those of exact search, ties included.
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import MissingExtra, ModelUnavailable, UsageError
from ragsmith.extensions import Package
from ragsmith.index.rescoring import Fetched, search_rescored
from ragsmith.index.vector_store import Keys, MakeVectors, Positions, Scores
from ragsmith.models.vector_stores import is_url, vector_store

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

KEY_VARIABLE = "QDRANT_API_KEY"
BATCH_ROWS = 256
TIMEOUT_SECONDS = 60
MEMORY = ":memory:"

T = TypeVar("T")


class _Connection:
    """A client, closed when nothing uses it any more."""

    def __init__(self, location: str) -> None:
        self.client: QdrantClient = _connect(location)
        # an embedded Qdrant is not for several threads
        self.turn = nullcontext() if is_url(location) else threading.RLock()
        weakref.finalize(self, self.client.close)


_connections: weakref.WeakValueDictionary[str, _Connection] = weakref.WeakValueDictionary()
"""Those of this process: a folder is locked while it is open, so that all collections in it need one connection."""
_connecting = threading.Lock()


def _connection(location: str) -> _Connection:
    """The connection to ``location`` that is there, or a new one; a store in memory is nobody else's."""
    if location == MEMORY:
        return _Connection(location)
    address = location if is_url(location) else str(Path(location).resolve())
    with _connecting:
        found = _connections.get(address)
        if found is None:
            found = _connections[address] = _Connection(location)
        return found


class QdrantVectors:
    """One collection for the vectors of ``keys``; ``make`` is asked only for those that are not there.

    ``location`` is a URL (its key is read from ``QDRANT_API_KEY``), a folder, or ``:memory:``. A folder can be open in
    one process at a time. With ``exact=False`` a server searches its approximate graph, and may miss entries.
    """

    def __init__(self, location: str, keys: Keys, make: MakeVectors, *, exact: bool = True) -> None:
        self._location = location
        self._keys = keys
        self._exact = exact
        self._connection: _Connection | None = _connection(location)
        if keys.count:
            self._complete(make)

    def close(self) -> None:
        """Search no more; the last collection of a folder to be closed lets go of it."""
        self._connection = None

    @property
    def _client(self) -> QdrantClient:
        if self._connection is None:
            raise UsageError("this vector store was closed: open it again")
        return self._connection.client

    def search(self, query_vectors: NDArray[np.floating], k: int) -> tuple[Positions, Scores]:
        """See `VectorStore.search`.

        Raises:
            ModelUnavailable: the server is down or refuses.
        """
        return search_rescored(self._keys, query_vectors, k, self._fetch)

    def _fetch(self, queries: NDArray[np.floating], limit: int) -> list[Fetched]:
        from qdrant_client.models import QueryRequest, SearchParams  # noqa: PLC0415

        params = SearchParams(exact=self._exact) if is_url(self._location) else None  # embedded, it is always exact
        requests = [
            QueryRequest(query=query, limit=limit, params=params, with_vector=True)
            for query in queries.astype(np.float32).tolist()
        ]
        replies = self._ask(lambda: self._client.query_batch_points(self._keys.name, requests))
        return [_fetched(reply.points) for reply in replies]

    def _complete(self, make: MakeVectors) -> None:
        """Put in what is missing: points are put in in order, so those that are there come first."""
        there = self._count()
        if there == self._keys.count:
            return
        self._put(make, there if 0 < there < self._keys.count else 0)
        if self._count() != self._keys.count:  # somebody took points out, or put others in
            self._ask(lambda: self._client.delete_collection(self._keys.name))
            self._put(make, 0)

    def _count(self) -> int:
        if not self._ask(lambda: self._client.collection_exists(self._keys.name)):
            return 0
        count: int = self._ask(lambda: self._client.count(self._keys.name, exact=True)).count
        return count

    def _put(self, make: MakeVectors, first: int) -> None:
        from qdrant_client.models import Batch, Distance, VectorParams  # noqa: PLC0415

        name = self._keys.name
        for start in range(first, self._keys.count, BATCH_ROWS):
            end = min(start + BATCH_ROWS, self._keys.count)
            vectors = make(start, end)
            if start == 0 and not self._ask(lambda: self._client.collection_exists(name)):
                # the dot product of unit vectors is their cosine; for COSINE, Qdrant would change their last bits
                params = VectorParams(size=vectors.shape[1], distance=Distance.DOT)
                self._ask(partial(self._client.create_collection, name, params))
            batch = Batch(ids=list(range(start, end)), vectors=vectors.astype(np.float32).tolist())
            self._ask(partial(self._client.upsert, name, batch, wait=True))

    def _ask(self, request: Callable[[], T]) -> T:
        """The answer to ``request``; an error says in one sentence what is wrong, without URL or key."""
        from qdrant_client.http.exceptions import ApiException  # noqa: PLC0415

        with self._connection.turn if self._connection else nullcontext():
            try:
                return request()
            except ApiException as error:
                status = getattr(error, "status_code", None)
                said = f"answers HTTP {status}" if status else "does not answer"
                raise ModelUnavailable(
                    f"the Qdrant server {said}: check its URL, {KEY_VARIABLE}, and that it is running"
                ) from None

    def __reduce__(self) -> tuple[type[QdrantVectors], tuple[str, Keys, MakeVectors]]:
        if not is_url(self._location):
            raise UsageError("an embedded Qdrant serves one process: give the URL of a server, or exact search")
        return QdrantVectors, (self._location, self._keys, _all_there)


def _fetched(points: Sequence[Any]) -> Fetched:
    numbers = np.array([int(point.id) for point in points], dtype=np.int64)
    vectors = np.array([point.vector for point in points], dtype=np.float64)
    return Fetched(numbers, vectors, points[-1].score if points else 0.0)


def _all_there(start: int, end: int) -> Any:
    raise ModelUnavailable(f"the Qdrant collection lost points while it was in use ({start} to {end}): run again")


def _connect(location: str) -> QdrantClient:
    try:
        from qdrant_client import QdrantClient  # noqa: PLC0415  0.8 s
    except ImportError:
        raise MissingExtra("qdrant-client", "qdrant") from None
    if is_url(location):
        key = os.environ.get(KEY_VARIABLE)
        return QdrantClient(url=location, api_key=key, timeout=TIMEOUT_SECONDS, check_compatibility=False)
    if re.match(r"[\w.-]+:\d", location):
        raise UsageError(f"{location!r} is not the URL of a Qdrant server: write http:// or https:// in front")
    if location == MEMORY:
        return QdrantClient(MEMORY)
    try:
        # threads take turns here, whatever SQLite would allow
        return QdrantClient(path=location, force_disable_check_same_thread=True)
    except (RuntimeError, OSError) as error:
        raise UsageError(
            f"the Qdrant folder {location!r} cannot be opened, perhaps because another process has it open: "
            f"give another folder, or the URL of a server ({type(error).__name__})"
        ) from None


@vector_store(
    "qdrant",
    form="qdrant:URL, qdrant:FOLDER or qdrant::memory:",
    package=Package("qdrant_client", "qdrant-client", "qdrant"),
)
def qdrant(address: str, keys: Keys, make: MakeVectors) -> QdrantVectors:
    """A Qdrant server by URL, or an embedded one in a folder or in memory."""
    return QdrantVectors(address, keys, make)
