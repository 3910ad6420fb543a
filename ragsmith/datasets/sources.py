"""Read and write ``sources.jsonl``: the source file of each converted document, its converter and digests."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ragsmith.errors import DatasetError
from ragsmith.text.files import MIB
from ragsmith.text.jsonl import json_lines, read_json_lines

FILE = "sources.jsonl"
MAX_BYTES = 256 * MIB


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A converted text and the part of a source file it was made from.

    ``doc`` and ``file`` are the identifier and path of the document, None for a duplicate of ``duplicate_of``.
    ``sha256`` is the digest of the source file, ``text_sha256`` that of the converted text: a document with another
    digest was edited. ``pages`` are the offsets of pages, slides or chapters in the text.
    """

    source: str
    sha256: str
    kind: str
    converter: str
    text_sha256: str
    ending: str
    part: str = ""
    doc: str | None = None
    file: str | None = None
    duplicate_of: str | None = None
    title: str | None = None
    language: str | None = None
    pages: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def read_sources(dataset: Path) -> tuple[SourceRecord, ...]:
    """Return the rows of a data set's ``sources.jsonl``, none if there is no such file.

    Raises ``DatasetError`` with every invalid line.
    """
    lines = read_json_lines(dataset / FILE, MAX_BYTES)
    if 0 in lines.mistakes:
        raise DatasetError([lines.mistakes[0]])
    found: list[SourceRecord] = []
    wrong = list(lines.mistakes)
    known = {field.name for field in fields(SourceRecord)}
    for number, record in lines.records.items():
        row = {key: tuple(v) if isinstance(v, list) else v for key, v in record.items() if key in known}
        try:
            found.append(SourceRecord(**row))  # type: ignore[arg-type]
        except TypeError:
            wrong.append(number)
    if wrong:
        said = "is not a valid row; remove the line, and its file is converted again"
        raise DatasetError([f"{FILE}:{number}: {said}" for number in sorted(wrong)])
    return tuple(found)


def sources_text(sources: Iterable[SourceRecord]) -> str:
    """Return the text of a ``sources.jsonl``, without default values."""
    rows = ({key: value for key, value in asdict(source).items() if value not in (None, "", ())} for source in sources)
    return json_lines(rows)
