"""Registration of importers for ``ragsmith dataset import``.

```python
@importer("cards", keys=[{"front", "back"}], licence="CC0")
def import_cards(source: Path, *, deck: str = "all") -> Imported:
    \"\"\"Flash cards in JSON.\"\"\"
```

It takes the published folder or file and returns an `Imported`. An importer whose evidence are texts may take
``documents``, a `Dataset` to locate these texts in, as second argument.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ragsmith.datasets.importers.imported import Imported
from ragsmith.errors import UsageError
from ragsmith.extensions import Extension, Package, Registry
from ragsmith.types import Dataset

F = TypeVar("F", bound=Callable[..., Imported])


@dataclass(frozen=True, kw_only=True)
class Importer(Extension):
    """A function that reads a published layout.

    The layout is recognised by ``keys``, sets of keys of which the first object of a file has one completely, or by
    ``recognises``, a function of the folder or file. ``licence`` is that of the published data.
    """

    licence: str = "not stated"
    keys: Sequence[Collection[str]] = ()
    recognises: Callable[[Path], bool] | None = None

    @property
    def takes_documents(self) -> bool:
        """Whether its evidence are texts, which can be located in given documents."""
        return "documents" in inspect.signature(self.fn).parameters

    def has_keys(self, record: Collection[str]) -> bool:
        """Whether an object with these keys is in its layout."""
        return any(set(wanted) <= set(record) for wanted in self.keys)

    def read(self, source: Path, documents: Dataset | None = None) -> Imported:
        """Read the published data set.

        Raises:
            UsageError: ``documents`` are given and the format has its own, or a package is not installed.
            DatasetError: a file is not in this layout.
        """
        if self.package:
            self.package.check()
        if documents is None:
            found: Imported = self.fn(source, **self.chosen)
        elif self.takes_documents:
            found = self.fn(source, documents, **self.chosen)
        else:
            raise UsageError(f"the format {self.name!r} brings its own documents; leave --documents out")
        return replace(found, dataset=replace(found.dataset, licence=self.licence))


IMPORTERS: Registry[Importer] = Registry("format", "ragsmith.datasets.importers")


def importer(
    name: str,
    *,
    keys: Sequence[Collection[str]] = (),
    recognises: Callable[[Path], bool] | None = None,
    licence: str = "not stated",
    paper: str = "",
    package: Package | None = None,
) -> Callable[[F], F]:
    """Register the decorated function as the importer of the format ``name``; see `Importer` for the arguments."""

    def register(fn: F) -> F:
        IMPORTERS.add(
            Importer(name=name, fn=fn, paper=paper, package=package, licence=licence, keys=keys, recognises=recognises)
        )
        return fn

    return register
