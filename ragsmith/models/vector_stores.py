"""Vector stores: how a function becomes one, and their addresses. `ragsmith.index.stores` opens them.

```python
@vector_store("chroma", package=Package("chromadb", "chromadb"))
def chroma(address: str, keys: Keys, make: MakeVectors) -> ChromaVectors:
    \"\"\"A Chroma server by URL, or a folder.\"\"\"
    return ChromaVectors(address, keys, make)
```

From then on ``--vector-store chroma:ADDRESS``, or ``chroma`` alone with an empty address, opens one. It is a
`ragsmith.index.vector_store.VectorStore`, and finds what exact search finds unless it says ``exact=False``.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from ragsmith.digest import fingerprint
from ragsmith.errors import MissingExtra
from ragsmith.extensions import Extension, Package, Registry

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


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class RegisteredVectorStore(Extension):
    """A function that opens the vectors of an index at an address.

    ``check_address`` says what is wrong with an address, without repeating a secret; None if nothing is. ``exact`` says
    whether it finds what exact search finds: if not, its code is part of the embedder's id. ``one_process`` says
    whether only the process that opened it can search it. ``form`` is how an address is written.
    """

    form: str = ""
    check_address: Callable[[str], str | None] | None = None
    exact: bool = True
    one_process: bool = False

    def open(self, address: str, *of_index: Any) -> Any:
        """The store at ``address`` for the keys of an index, and what makes their vectors.

        Raises:
            UsageError: its package is not installed, or it cannot be opened.
        """
        if self.package:
            self.package.check()
        return self.fn(address, *of_index, **self.chosen)


VECTOR_STORES: Registry[RegisteredVectorStore] = Registry("vector store", "ragsmith.index.vector_stores")


def vector_store(
    name: str,
    *,
    form: str = "",
    check_address: Callable[[str], str | None] | None = None,
    exact: bool = True,
    one_process: bool = False,
    paper: str = "",
    package: Package | None = None,
) -> Callable[[F], F]:
    """Register the decorated function as the vector store ``name``; see `RegisteredVectorStore` for the arguments."""

    def register(fn: F) -> F:
        VECTOR_STORES.add(
            RegisteredVectorStore(
                name=name,
                fn=fn,
                paper=paper,
                package=package,
                form=form or name,
                check_address=check_address,
                exact=exact,
                one_process=one_process,
            )
        )
        return fn

    return register


def known_forms() -> str:
    """How the addresses of all stores are written."""
    return ", ".join([AUTO, *(known.form for known in VECTOR_STORES)])


def store_named(location: str) -> RegisteredVectorStore | None:
    """The store that the address ``location`` names; None for ``auto`` and for an unknown one."""
    name = location.partition(":")[0]
    if name == AUTO or name not in VECTOR_STORES:
        return None
    return VECTOR_STORES[name]


def store_identity(location: str) -> str:
    """What identifies how the store ``location`` searches, where it may find other chunks than exact search; else "".

    Raises:
        MissingExtra: the package of approximate search is not installed.
    """
    store = store_named(location)
    if store is None or store.exact:
        return ""
    if store.name == APPROXIMATE:
        return approximate_identity()
    return f"{store.name}={fingerprint(store.fn.__module__, store.fn.__name__)}"


def serves_one_process(location: str) -> bool:
    """Whether only the process that opened the store ``location`` can search it."""
    store = store_named(location)
    return is_embedded_qdrant(location) or (store is not None and store.one_process)
