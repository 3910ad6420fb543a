"""Vector stores: registration and addresses. `ragsmith.index.stores` opens them.

```python
@vector_store("chroma", package=Package("chromadb", "chromadb"))
def chroma(address: str, keys: Keys, make: MakeVectors) -> ChromaVectors:
    \"\"\"A Chroma server by URL, or a folder.\"\"\"
    return ChromaVectors(address, keys, make)
```

Then ``--vector-store chroma:ADDRESS``, or ``chroma`` alone with an empty address, opens one. It is a
`ragsmith.index.vector_store.VectorStore`, with the results of exact search unless registered with ``exact=False``.
"""

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
"""The package of approximate search, and the extra that installs it."""


def identify_approximate_search() -> str:
    """Return an identifier of approximate search, apart from the vectors: package, machine and code.

    Raises:
        MissingExtra: its package is not installed.
    """
    try:
        faiss = version(FAISS[0])
    except PackageNotFoundError:
        raise MissingExtra(*FAISS) from None
    code = fingerprint("ragsmith.index.vector_stores.approximate", "ApproximateVectors")
    return f"approximate={faiss}:{get_machine_type()}:{code}"


@cache
def get_machine_type() -> str:
    """Return the processor and instruction set that FAISS uses; its sums and codes differ between them.

    Raises:
        MissingExtra: FAISS is not installed.
    """
    try:
        import faiss  # noqa: PLC0415  0.2 s, only for approximate search
    except ImportError:
        raise MissingExtra(*FAISS) from None
    simd_config = getattr(faiss, "SIMDConfig", None)  # before version 1.14, there was a library for each
    instructions = simd_config.get_level_name() if simd_config else faiss.get_compile_options()
    return "-".join([platform.machine().lower(), *instructions.split()])


def is_url(path: str) -> bool:
    """Whether ``path`` is the URL of a server rather than a folder."""
    return path.startswith(("http://", "https://"))


def is_embedded_qdrant(location: str) -> bool:
    """Whether ``location`` is a Qdrant in a folder or in memory, which only one process can search."""
    kind, _, path = location.partition(":")
    return kind == QDRANT and not is_url(path)


def resolve_address(location: str, folder: Path) -> str:
    """Resolve the folder of an approximate store's address against ``folder``."""
    kind, _, path = location.partition(":")
    return f"{kind}:{folder / path}" if kind == APPROXIMATE and path else location


def _is_folder(location: str) -> bool:
    kind, _, path = location.partition(":")
    return path != "" if kind == APPROXIMATE else is_embedded_qdrant(location) and path != ":memory:"


def to_relative_address(folder: Path, location: str) -> str:
    """Return a store's address for a file in ``folder``: paths are relative to it, and URLs contain no secrets."""
    kind, _, path = location.partition(":")
    if _is_folder(location):
        return f"{kind}:{Path(os.path.relpath(Path(path).resolve(), folder.resolve())).as_posix()}"
    if kind == POSTGRES:
        parts = urlsplit(location)
        user = parts.username and f"{parts.username}@"
        host = parts.netloc.rpartition("@")[2]
        return f"{kind}://{user or ''}{host}{parts.path}"
    if is_url(path):
        parts = urlsplit(path)
        return f"{kind}:{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    return location


def from_relative_address(folder: Path, location: str) -> str:
    """Inverse of `to_relative_address`."""
    kind, _, path = location.partition(":")
    return f"{kind}:{folder / path}" if _is_folder(location) else location


F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class RegisteredVectorStore(Extension):
    """A function that opens the vectors of an index at an address.

    ``check_address`` returns an error message without secrets for an invalid address, or None. ``exact``: whether the
    results are those of exact search; otherwise the store's code is part of the embedder's id. ``one_process``: whether
    only the process that opened it can search it. ``form`` is the form of the addresses.
    """

    form: str = ""
    check_address: Callable[[str], str | None] | None = None
    exact: bool = True
    one_process: bool = False

    def open(self, address: str, *index: Any) -> Any:
        """Open the store at ``address``; ``index`` has the keys and a function that makes their vectors.

        Raises:
            UsageError: its package is not installed, or it cannot be opened.
        """
        return self.call(address, *index)


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
    return VECTOR_STORES.registers(
        lambda fn: RegisteredVectorStore(
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


def list_address_forms() -> str:
    """Return the forms of the addresses of all stores."""
    return ", ".join([AUTO, *(store.form for store in VECTOR_STORES)])


def find_store(location: str) -> RegisteredVectorStore | None:
    """Return the store of the address ``location``, or None for ``auto`` and unknown stores."""
    name = location.partition(":")[0]
    return None if name == AUTO or name not in VECTOR_STORES else VECTOR_STORES[name]


def identify_store(location: str) -> str:
    """Return an identifier of the search in the store ``location``, or "" if its results are those of exact search.

    Raises:
        MissingExtra: the package of approximate search is not installed.
    """
    store = find_store(location)
    if store is None or store.exact:
        return ""
    if store.name == APPROXIMATE:
        return identify_approximate_search()
    return f"{store.name}={fingerprint(store.fn.__module__, store.fn.__name__)}"


def serves_one_process(location: str) -> bool:
    """Whether only the process that opened the store ``location`` can search it."""
    store = find_store(location)
    return is_embedded_qdrant(location) or (store is not None and store.one_process)
