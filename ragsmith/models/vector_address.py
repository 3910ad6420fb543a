"""Where the vectors of an index lie, by name: in memory, or in Qdrant. `ragsmith.index.stores` opens them."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

AUTO, EXACT, QDRANT = "auto", "exact", "qdrant"


def is_url(where: str) -> bool:
    """Whether ``where`` is a server, and not a folder."""
    return where.startswith(("http://", "https://"))


def serves_one_process(location: str) -> bool:
    """Whether only the process that opened the store ``location`` can search it: an embedded Qdrant."""
    kind, _, where = location.partition(":")
    return kind == QDRANT and not is_url(where)


def _is_folder(location: str) -> bool:
    return serves_one_process(location) and location != f"{QDRANT}::memory:"


def written_in(folder: Path, location: str) -> str:
    """A store's address as a file in ``folder`` has it: folders are relative to it, and no URL has a secret in it."""
    kind, _, where = location.partition(":")
    if _is_folder(location):
        return f"{kind}:{Path(os.path.relpath(Path(where).resolve(), folder.resolve())).as_posix()}"
    if is_url(where):
        parts = urlsplit(where)
        return f"{kind}:{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return location


def read_from(folder: Path, location: str) -> str:
    """The address that `written_in` wrote."""
    kind, _, where = location.partition(":")
    return f"{kind}:{folder / where}" if _is_folder(location) else location
