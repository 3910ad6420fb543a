"""Read and write ``sources.jsonl``: the source file of each converted document, its converter and digests."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ragsmith.errors import DatasetError
from ragsmith.text.files import MIB
from ragsmith.text.jsonl import json_lines, read_json_lines

FILE = "sources.jsonl"
MAX_BYTES = 256 * MIB
"""Maximum size of the file, in bytes."""


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A converted text and its source, a part of a file.

    ``doc`` and ``file`` are the identifier and path of the document, None for a duplicate of ``duplicate_of``; a
    ``folded`` one has the same words in other characters.
    ``sha256`` is the digest of the source file, ``text_sha256`` the digest of the converted text: a document with
    another digest was edited. ``metadata_title`` is that of the source file. ``pages`` are the offsets of pages, slides
    or chapters in the text.
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
    folded: bool | None = None
    title: str | None = None
    metadata_title: str | None = None
    language: str | None = None
    pages: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


def read_sources(dataset: Path) -> tuple[SourceRecord, ...]:
    """Return the rows of the ``sources.jsonl`` of a data set; none if there is no such file.

    Raises ``DatasetError``, which lists every invalid line.
    """
    lines = read_json_lines(dataset / FILE, MAX_BYTES)
    if 0 in lines.mistakes:
        raise DatasetError([lines.mistakes[0]])
    rows: list[SourceRecord] = []
    wrong = list(lines.mistakes)
    keys = {field.name for field in fields(SourceRecord)}
    for number, record in lines.records.items():
        row = {key: tuple(v) if isinstance(v, list) else v for key, v in record.items() if key in keys}
        try:
            rows.append(SourceRecord(**row))  # type: ignore[arg-type]
        except TypeError:
            wrong.append(number)
    if wrong:
        problem = "is not a valid row; remove the line, and its file is converted again"
        raise DatasetError([f"{FILE}:{number}: {problem}" for number in sorted(wrong)])
    return tuple(rows)


def format_sources(sources: Iterable[SourceRecord]) -> str:
    """Return the text of a ``sources.jsonl``, without default values."""
    rows = ({key: value for key, value in asdict(source).items() if value not in (None, "", ())} for source in sources)
    return json_lines(rows)
