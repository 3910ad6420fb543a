"""Addresses of vector stores: in memory, files or a database. `ragsmith.index.stores` opens them."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from urllib.parse import urlsplit

from ragsmith.digest import fingerprint
from ragsmith.errors import MissingExtra

AUTO, EXACT, APPROXIMATE, QDRANT, POSTGRES = "auto", "exact", "approximate", "qdrant", "postgresql"
FAISS = "faiss-cpu", "large"
"""The package of approximate search, and the extra that brings it."""


def approximate_identity() -> str:
    """What approximate search depends on besides the vectors: the package, the machine and the code.

    Raises:
        MissingExtra: its package is not installed.
    """
    try:
        faiss = version(FAISS[0])
    except PackageNotFoundError:
        raise MissingExtra(*FAISS) from None
    code = fingerprint("ragsmith.index.vector_stores.approximate", "ApproximateVectors")
    return f"approximate={faiss}:{kind_of_machine()}:{code}"


@cache
def kind_of_machine() -> str:
    """Return the processor and instruction set that FAISS uses; its sums and codes differ between them.

    Raises:
        MissingExtra: FAISS is not installed.
    """
    try:
        import faiss  # noqa: PLC0415  0.2 s, and only for those who search approximately
    except ImportError:
        raise MissingExtra(*FAISS) from None
    chosen = getattr(faiss, "SIMDConfig", None)  # before version 1.14, there was a library for each
    instructions = chosen.get_level_name() if chosen else faiss.get_compile_options()
    return "-".join([platform.machine().lower(), *instructions.split()])


def is_url(where: str) -> bool:
    """Whether ``where`` is a server rather than a folder."""
    return where.startswith(("http://", "https://"))


def is_embedded_qdrant(location: str) -> bool:
    """Whether ``location`` is a Qdrant in a folder or in memory, which one process alone can search."""
    kind, _, where = location.partition(":")
    return kind == QDRANT and not is_url(where)


def resolve_address(location: str, folder: Path) -> str:
    """Resolve the folder of an approximate store's address against ``folder``."""
    kind, _, where = location.partition(":")
    return f"{kind}:{folder / where}" if kind == APPROXIMATE and where else location


def _is_folder(location: str) -> bool:
    kind, _, where = location.partition(":")
    return where != "" if kind == APPROXIMATE else is_embedded_qdrant(location) and where != ":memory:"


def to_relative_address(folder: Path, location: str) -> str:
    """Return a store's address for a file in ``folder``: paths are relative to it, and URLs contain no secrets."""
    kind, _, where = location.partition(":")
    if _is_folder(location):
        return f"{kind}:{Path(os.path.relpath(Path(where).resolve(), folder.resolve())).as_posix()}"
    if kind == POSTGRES:
        parts = urlsplit(location)
        user = parts.username and f"{parts.username}@"
        host = parts.netloc.rpartition("@")[2]
        return f"{kind}://{user or ''}{host}{parts.path}"
    if is_url(where):
        parts = urlsplit(where)
        return f"{kind}:{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return location


def from_relative_address(folder: Path, location: str) -> str:
    """Inverse of `to_relative_address`."""
    kind, _, where = location.partition(":")
    return f"{kind}:{folder / where}" if _is_folder(location) else location
