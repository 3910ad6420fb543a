"""Which format published files have, told by their names and by the keys that are in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from ragsmith.datasets.anchoring.question_lists import recognise_columns as columns_of
from ragsmith.datasets.anchoring.question_tables import read_rows
from ragsmith.datasets.importers.contexts import LIST_SUFFIXES, OWN_LIST
from ragsmith.datasets.importers.imported import read_files
from ragsmith.datasets.importers.registry import IMPORTERS, Importer
from ragsmith.errors import DatasetError, UsageError

WITHIN = ("data", "examples", "tests")
"""Keys of a file whose list holds the objects."""


def recognise_format(source: Path) -> Importer:
    """Return the importer of the format that ``source``, a folder or a file, is seen to have.

    Files that tell nothing, such as a corpus, are passed over.

    Raises:
        UsageError: none or several formats are seen.
        DatasetError: a file that might tell cannot be read, or there is none.
    """
    for importer in IMPORTERS:
        if importer.recognises and importer.recognises(source):
            return importer
    found = sorted(_by_contents(source))
    if len(found) == 1:
        return IMPORTERS[found[0]]
    seen = f"has files in several formats ({', '.join(found)})" if found else "is in no format that is known"
    known = ", ".join(importer.name for importer in IMPORTERS)
    raise UsageError(f"{source}: {seen}; name one with --format ({known})")


def _by_contents(source: Path) -> set[str]:
    paths = sorted(source.iterdir()) if source.is_dir() else [source]
    lists = [path for path in paths if path.suffix.lower() in LIST_SUFFIXES - {".json"} and path.is_file()]
    found = {name for path in lists for name in _of_record(read_rows(path)[0][1], path)}
    if lists and not any(path.suffix.lower() == ".json" for path in paths):
        return found
    return found | {name for names in read_files(source, _of_json) for name in names}


def _of_json(content: object) -> list[str]:
    first = content[0] if isinstance(content, list) and content else content
    if not isinstance(first, dict):
        return []
    inner = [item[0] for key in WITHIN if isinstance(item := first.get(key), list) and item]
    found = [name for record in [first, *inner] if isinstance(record, dict) for name in _by_keys(record)]
    return found or (list(_of_record(first, Path())) if isinstance(content, list) else [])


def _by_keys(record: Mapping[str, object]) -> list[str]:
    return [importer.name for importer in IMPORTERS if importer.has_keys(record)]


def _of_record(record: Mapping[str, object], path: Path) -> Iterator[str]:
    """The formats of a row; one with questions and texts that is in no published format is a list of one's own."""
    if found := _by_keys(record):
        yield from found
        return
    try:
        if "evidence" in columns_of(list(record), {}, path):
            yield OWN_LIST
    except DatasetError:
        return
