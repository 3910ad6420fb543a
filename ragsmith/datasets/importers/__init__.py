"""Importers read data sets in published layouts and convert their evidence to character spans.

Each format has its own module; importers are registered with the decorator in `registry`.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from ragsmith.datasets.anchoring.question_lists import read_rows, recognise_columns
from ragsmith.datasets.importers.contexts import LIST_SUFFIXES, USER_LIST
from ragsmith.datasets.importers.registry import IMPORTERS, Imported, Importer, importer, read_files
from ragsmith.errors import DatasetError, UsageError
from ragsmith.types import Dataset

__all__ = ["IMPORTERS", "Imported", "import_dataset", "importer", "recognise_format"]

LIST_KEYS = ("data", "examples", "tests")
"""Keys of a file whose value may be the list of records."""


def import_dataset(source: Path, layout: str | None = None, documents: Dataset | None = None) -> Imported:
    """Read the published data set in the folder or file ``source``, in ``layout`` or the recognised layout.

    ``layout`` is ``NAME`` or ``NAME(option=value)``. In formats whose evidence consists of texts,
    the texts are located in ``documents``.

    Raises:
        UsageError: ``source`` does not exist, or the format is unknown, not recognised or has its own documents.
        DatasetError: a file is not in that format.
    """
    known = IMPORTERS.parse(layout) if layout is not None else None
    if not source.exists():
        raise UsageError(f"{source}: there is no such folder or file; give the folder or the file that was published")
    try:
        known = known or recognise_format(source)
        return known.read(source, documents)
    except DatasetError as error:
        tried = f"was read in the format {known.name}" if known else "is in no format that was recognised"
        raise DatasetError(
            error.mistakes, [*error.advice, f"{source} {tried}; name another with --format ({_format_names()})"]
        ) from None


def _format_names() -> str:
    return ", ".join(known.name for known in IMPORTERS)


def recognise_format(source: Path) -> Importer:
    """Return the importer that recognises ``source``, a folder or a file.

    Files of no known format, such as a corpus, are ignored.

    Raises:
        UsageError: no format or several formats are recognised.
        DatasetError: a file cannot be read, or there is no file.
    """
    for known in IMPORTERS:
        if known.recognises and known.recognises(source):
            return known
    found = sorted(_formats_by_contents(source))
    if len(found) == 1:
        return IMPORTERS[found[0]]
    problem = f"has files in several formats ({', '.join(found)})" if found else "is in no known format"
    raise UsageError(f"{source}: {problem}; name one with --format ({_format_names()})")


def _formats_by_contents(source: Path) -> set[str]:
    paths = sorted(source.iterdir()) if source.is_dir() else [source]
    lists = [path for path in paths if path.suffix.lower() in LIST_SUFFIXES - {".json"} and path.is_file()]
    found = {name for path in lists for name in _formats_of_record(read_rows(path)[0][1], path)}
    if lists and not any(path.suffix.lower() == ".json" for path in paths):
        return found
    return found | {name for names in read_files(source, _formats_of_json) for name in names}


def _formats_of_json(content: object) -> list[str]:
    first = content[0] if isinstance(content, list) and content else content
    if not isinstance(first, dict):
        return []
    inner = [item[0] for key in LIST_KEYS if isinstance(item := first.get(key), list) and item]
    found = [name for record in [first, *inner] if isinstance(record, dict) for name in _formats_by_keys(record)]
    return found or (list(_formats_of_record(first, Path())) if isinstance(content, list) else [])


def _formats_by_keys(record: Mapping[str, object]) -> list[str]:
    return [known.name for known in IMPORTERS if known.has_keys(record)]


def _formats_of_record(record: Mapping[str, object], path: Path) -> Iterator[str]:
    """Yield the formats of a row; questions in no published format are a list of the user."""
    if found := _formats_by_keys(record):
        yield from found
        return
    with suppress(DatasetError):
        recognise_columns(list(record), {}, path)
        yield USER_LIST
