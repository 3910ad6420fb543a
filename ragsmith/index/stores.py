"""Opening of vector stores by address."""

import os

from ragsmith.errors import UsageError
from ragsmith.index.vector_store import Keys, MakeVectors, VectorStore
from ragsmith.models.options import problem_with_store
from ragsmith.models.vector_stores import AUTO, EXACT, QDRANT, VECTOR_STORES

MIN_SERVER_KEYS = 50_000
"""Minimum number of keys for a server; exact search is faster for fewer (0.4 ms for 10,000, 13 ms for 100,000)."""
URL_VARIABLE = "QDRANT_URL"
"""Environment variable with the URL of a Qdrant server."""


def open_vector_store(location: str, keys: Keys, make: MakeVectors) -> VectorStore:
    """Open the store ``location``: ``auto``, or ``NAME`` or ``NAME:ADDRESS`` of a registered one.

    For at least `MIN_SERVER_KEYS` keys, ``auto`` is the Qdrant server of ``QDRANT_URL``, if set; otherwise exact
    search: an embedded Qdrant also compares all vectors but is slower, and approximate search may miss entries.

    Raises:
        UsageError: the store is unknown or cannot be opened.
        MissingExtra: its package is not installed.
    """
    if location == AUTO:
        server = os.environ.get(URL_VARIABLE, "")
        location = f"{QDRANT}:{server}" if server and keys.count >= MIN_SERVER_KEYS else EXACT
    if problem := problem_with_store(location):
        raise UsageError(problem)
    name, _, address = location.partition(":")
    store: VectorStore = VECTOR_STORES[name].open(address, keys, make)
    if not callable(getattr(store, "search", None)):
        raise UsageError(f"the vector store {name} returned {store!r}: return an object with a method search")
    return store
