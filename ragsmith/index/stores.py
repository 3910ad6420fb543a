"""Which vector store an address opens."""

from __future__ import annotations

import os

from ragsmith.errors import UsageError
from ragsmith.index.exact import ExactVectors
from ragsmith.index.vector_store import Keys, MakeVectors, VectorStore
from ragsmith.models.vector_address import AUTO, EXACT, QDRANT

LARGE_ROWS = 50_000
"""Below this, a product with all vectors is faster than asking a server (0.4 ms for 10,000 keys, 13 ms for 100,000)."""
SERVER_VARIABLE = "QDRANT_URL"


def open_vectors(location: str, keys: Keys, make: MakeVectors) -> VectorStore:
    """The store that ``location`` names: ``auto``, ``exact``, ``qdrant:URL``, ``qdrant:FOLDER``, ``qdrant::memory:``.

    ``auto`` is the Qdrant server that ``QDRANT_URL`` names for at least ``LARGE_ROWS`` keys, and exact otherwise. An
    embedded Qdrant is never chosen by itself: it compares everything too, only more slowly.

    Raises:
        UsageError: there is no such store, or it cannot be opened.
        MissingExtra: qdrant-client is not installed.
    """
    kind, _, where = location.partition(":")
    if location == AUTO:
        where = os.environ.get(SERVER_VARIABLE, "")
        kind = QDRANT if where and keys.count >= LARGE_ROWS else EXACT
    if kind == EXACT:
        return ExactVectors(keys, make)
    if kind == QDRANT and where:
        from ragsmith.index.qdrant import QdrantVectors  # noqa: PLC0415  the client takes 0.8 s to import

        return QdrantVectors(where, keys, make)
    raise UsageError(f"unknown vector store {location!r}: give auto, exact, or qdrant: and a URL or folder")
