"""An importer reads a data set that was published in another layout and turns its gold into character spans.

Each takes a folder and returns what it made of it, with a count of the gold it found exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from ragsmith.datasets.importers.hotpotqa import import_hotpotqa
from ragsmith.datasets.importers.imported import Imported, read_files
from ragsmith.datasets.importers.ragsmith_layout import import_ragsmith_layout
from ragsmith.datasets.importers.tatqa import import_tatqa
from ragsmith.errors import UsageError
from ragsmith.text.suggest import did_you_mean

Importer = Callable[[Path], Imported]

IMPORTERS: Mapping[str, Importer] = MappingProxyType(
    {"hotpotqa": import_hotpotqa, "ragsmith": import_ragsmith_layout, "tatqa": import_tatqa}
)

__all__ = [
    "IMPORTERS",
    "Imported",
    "Importer",
    "import_dataset",
    "import_hotpotqa",
    "import_ragsmith_layout",
    "import_tatqa",
    "recognised",
]


def import_dataset(source: Path, layout: str | None = None) -> Imported:
    """Read the published data set in the folder (or file) ``source``, in ``layout`` or in the one it is seen to have.

    Raises ``UsageError`` when there is nothing, or the format is unknown or cannot be told; ``DatasetError`` when a
    file is not in that format.
    """
    if layout is not None and layout not in IMPORTERS:
        raise UsageError(f"unknown format {layout!r}: {did_you_mean(layout, IMPORTERS)}")
    if not source.exists():
        raise UsageError(f"{source}: there is no such folder or file; give the folder or the file that was published")
    return IMPORTERS[layout or recognised(source)](source)


def recognised(source: Path) -> str:
    """Return the format of the JSON files in ``source``; files that tell nothing, such as a corpus, are passed over.

    Raises ``UsageError`` when none or several are seen, ``DatasetError`` when a file is not JSON.
    """
    found = {name for names in read_files(source, _layouts_of) for name in names}
    if len(found) == 1:
        return found.pop()
    seen = f"has files in several formats ({', '.join(sorted(found))})" if found else "is in no format that is known"
    raise UsageError(f"{source}: {seen}; name one with --format ({', '.join(sorted(IMPORTERS))})")


def _layouts_of(content: object) -> list[str]:
    """The formats whose keys the JSON of a file has: the object itself, or the first one of a list."""
    first = content[0] if isinstance(content, list) and content else content
    return [name for name, keys in _KEYS.items() if isinstance(first, dict) and keys <= first.keys()]


_KEYS: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        "hotpotqa": frozenset({"context", "supporting_facts"}),
        "ragsmith": frozenset({"article", "chunks", "questions"}),
        "tatqa": frozenset({"table", "paragraphs", "questions"}),
    }
)
