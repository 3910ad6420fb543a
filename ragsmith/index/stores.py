"""Which vector store an address opens."""

from __future__ import annotations

import os
from pathlib import Path

from ragsmith.errors import UsageError
from ragsmith.index.exact import ExactVectors
from ragsmith.index.vector_store import Keys, MakeVectors, VectorStore
from ragsmith.models.vector_address import APPROXIMATE, AUTO, EXACT, POSTGRES, QDRANT, STORE_FORMS

LARGE_ROWS = 50_000
"""Below this, a product with all vectors is faster than asking a server (0.4 ms for 10,000 keys, 13 ms for 100,000)."""
SERVER_VARIABLE = "QDRANT_URL"


def open_vectors(location: str, keys: Keys, make: MakeVectors) -> VectorStore:
    """The store that ``location`` names: ``auto``, ``exact``, ``approximate``, ``approximate:FOLDER``, ``qdrant:URL``,
    ``qdrant:FOLDER``, ``qdrant::memory:``, or the URL of a PostgreSQL database.

    ``auto`` is the Qdrant server that ``QDRANT_URL`` names for at least ``LARGE_ROWS`` keys, and exact otherwise. An
    embedded Qdrant is never chosen by itself: it compares everything too, only more slowly; nor is approximate search,
    which may miss entries: whoever wants that has to say so.

    Raises:
        UsageError: there is no such store, or it cannot be opened.
        MissingExtra: the package that it needs is not installed.
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
    if kind == APPROXIMATE:
        from ragsmith.index.approximate import ApproximateVectors, default_folder  # noqa: PLC0415

        return ApproximateVectors(keys, make, Path(where) if where else default_folder())
    if kind == POSTGRES and where.startswith("//"):
        from ragsmith.index.pgvector import PostgresVectors  # noqa: PLC0415

        return PostgresVectors(location, keys, make)
    raise UsageError(f"unknown vector store {location!r}: give {STORE_FORMS}")
