"""How a function becomes a vector store. Everything known about one is read from its own file.

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from ragsmith.digest import fingerprint
from ragsmith.extensions import Extension, Package, Registry
from ragsmith.models.vector_address import APPROXIMATE, AUTO, approximate_identity, is_embedded_qdrant

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
