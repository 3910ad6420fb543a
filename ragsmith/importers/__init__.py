"""An importer reads a data set that was published in another layout and turns its gold into character spans.

Each takes a folder and returns what it made of it, with a count of the gold it found exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from ragsmith.importers.imported import Imported
from ragsmith.importers.ragsmith_layout import import_ragsmith_layout

Importer = Callable[[Path], Imported]

IMPORTERS: Mapping[str, Importer] = MappingProxyType({"ragsmith": import_ragsmith_layout})

__all__ = ["IMPORTERS", "Imported", "Importer", "import_ragsmith_layout"]
