"""Vectors in Qdrant: a server by URL, a folder, or memory.

A collection is named by the digest of texts and embedder and reused if it is complete. The server compares in single
precision, and its results are rescored (`rescoring`), so that they equal exact search, including ties.
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
from ragsmith.index.rescoring import FetchedKeys, ServedVectors, fill_collection, get_connection
from ragsmith.index.vector_store import Keys, MakeVectors, Positions
from ragsmith.models.vector_stores import is_url, vector_store

if TYPE_CHECKING:
    from qdrant_client import QdrantClient

KEY_VARIABLE = "QDRANT_API_KEY"
"""Environment variable with the key of a Qdrant server."""
BATCH_ROWS = 256
"""Number of points per request."""
TIMEOUT_SECONDS = 60
MEMORY = ":memory:"
"""The address of a store in memory."""

T = TypeVar("T")


class QdrantConnection:
    """A client that is closed when it is no longer referenced."""

    def __init__(self, location: str) -> None:
        self.client: QdrantClient = _connect(location)
        # an embedded Qdrant is not thread-safe
        self._turn = nullcontext() if is_url(location) else threading.RLock()
        weakref.finalize(self, self.client.close)

    def ask(self, request: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Call a method of the client; errors are converted into messages without URL or key."""
        from qdrant_client.http.exceptions import ApiException  # noqa: PLC0415

        with self._turn:
            try:
                return request(*arguments, **named)
            except ApiException as error:
                status = getattr(error, "status_code", None)
                said = f"answers HTTP {status}" if status else "does not answer"
                raise ModelUnavailable(
                    f"the Qdrant server {said}: check its URL, {KEY_VARIABLE}, and that it is running"
                ) from None


def _get_connection(location: str) -> QdrantConnection:
    """Return a connection to ``location``; connections to stores in memory are not shared."""
    if location == MEMORY:
        return QdrantConnection(location)
    address = location if is_url(location) else str(Path(location).resolve())
    return get_connection(address, lambda: QdrantConnection(location))


class QdrantVectors(ServedVectors[QdrantConnection]):
    """A collection with the vectors of ``keys``; ``make`` is only called for missing ones.

    ``location`` is a URL (its key is read from ``QDRANT_API_KEY``), a folder, or ``:memory:``. A folder can be open in
    one process at a time.
    """

    def __init__(self, location: str, keys: Keys, make: MakeVectors) -> None:
        super().__init__(keys, _get_connection(location))
        self._location, self.filters = location, is_url(location)  # embedded, it looks for each id in a list
        if keys.count:
            ask, client = self.connection.ask, self.connection.client
            fill_collection(
                keys, self._count, partial(self._put, make), lambda: ask(client.delete_collection, keys.name)
            )

    def fetch(self, queries: NDArray[np.floating], limit: int, among: Positions | None = None) -> list[FetchedKeys]:
        """See `ServedVectors.fetch`."""
        from qdrant_client.models import Filter, HasIdCondition, QueryRequest, SearchParams  # noqa: PLC0415

        only = None if among is None else Filter(must=[HasIdCondition(has_id=among.tolist())])
        params = SearchParams(exact=True) if is_url(self._location) else None  # embedded, it is always exact
        requests = [
            QueryRequest(query=query, filter=only, limit=limit, params=params, with_vector=True)
            for query in queries.astype(np.float32).tolist()
        ]
        replies = self.connection.ask(self.connection.client.query_batch_points, self.keys.name, requests)
        return [_parse_points(reply.points) for reply in replies]

    def _count(self) -> int:
        ask, client = self.connection.ask, self.connection.client
        return int(ask(client.count, self.keys.name, exact=True).count) if self._exists() else 0

    def _exists(self) -> bool:
        return bool(self.connection.ask(self.connection.client.collection_exists, self.keys.name))

    def _put(self, make: MakeVectors, first: int) -> None:
        from qdrant_client.models import Batch, Distance, VectorParams  # noqa: PLC0415

        name, ask, client = self.keys.name, self.connection.ask, self.connection.client
        for start in range(first, self.keys.count, BATCH_ROWS):
            end = min(start + BATCH_ROWS, self.keys.count)
            vectors = make(start, end)
            if start == 0 and not self._exists():
                # the dot product of unit vectors is their cosine; for COSINE, Qdrant would change their last bits
                ask(client.create_collection, name, VectorParams(size=vectors.shape[1], distance=Distance.DOT))
            batch = Batch(ids=list(range(start, end)), vectors=vectors.astype(np.float32).tolist())
            ask(client.upsert, name, batch, wait=True)

    def __reduce__(self) -> tuple[type[QdrantVectors], tuple[str, Keys, MakeVectors]]:
        if not is_url(self._location):
            raise UsageError("an embedded Qdrant serves one process: give the URL of a server, or exact search")
        return QdrantVectors, (self._location, self.keys, _raise_lost_points)


def _parse_points(points: Sequence[Any]) -> FetchedKeys:
    numbers = np.array([int(point.id) for point in points], dtype=np.int64)
    vectors = np.array([point.vector for point in points], dtype=np.float64)
    return FetchedKeys(numbers, vectors, points[-1].score if points else 0.0)


def _raise_lost_points(start: int, end: int) -> Any:
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
