"""Where the vectors of an index lie, by name: in memory, or in Qdrant. `ragsmith.index.stores` opens them."""

from __future__ import annotations

AUTO, EXACT, QDRANT = "auto", "exact", "qdrant"


def is_url(where: str) -> bool:
    """Whether ``where`` is a server, and not a folder."""
    return where.startswith(("http://", "https://"))


def serves_one_process(location: str) -> bool:
    """Whether only the process that opened the store ``location`` can search it: an embedded Qdrant."""
    kind, _, where = location.partition(":")
    return kind == QDRANT and not is_url(where)
