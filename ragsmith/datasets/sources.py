"""``sources.jsonl``: which file each document of a data set was made from, how, and what it was then."""

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
    """A text, and the part of a source file that it was made from.

    ``doc`` and ``file`` are its identifier and the path of its file in the data set, None where it is the same as the
    document ``duplicate_of``. ``sha256`` is of the source file, ``text_sha256`` of the text as it was converted: a file
    with another digest was edited since. ``pages`` are the offsets in the text at which pages, slides or chapters
    start.
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
    """Return the rows of a data set's ``sources.jsonl``, none where there is no such file.

    Raises ``DatasetError`` with every line that cannot be used.
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
        said = "is no row of it; remove the line, and its file is converted again"
        raise DatasetError([f"{FILE}:{number}: {said}" for number in sorted(wrong)])
    return tuple(found)


def sources_text(sources: Iterable[SourceRecord]) -> str:
    """Return the text of a ``sources.jsonl``; what is not known of a row is left out."""
    rows = ({key: value for key, value in asdict(source).items() if value not in (None, "", ())} for source in sources)
    return json_lines(rows)
