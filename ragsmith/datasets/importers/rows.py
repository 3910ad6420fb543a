"""What importers of lists share: lines of JSON as strict fields, and documents that are made of a text alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragsmith.datasets.importers.imported import Fields, titled
from ragsmith.errors import DatasetError
from ragsmith.text.files import TextError, read_text
from ragsmith.text.jsonl import parse_record
from ragsmith.types import Document

MAX_BYTES = 1 << 30


def read_lines(path: Path, layout: str) -> Iterator[Fields]:
    """Yield the objects of a JSONL file, one a line. Raises ``DatasetError``."""
    try:
        lines = read_text(path, limit=MAX_BYTES, links=True).split("\n")
    except TextError as error:
        raise DatasetError([error.at(path.name)]) from None
    for number, line in enumerate(lines, start=1):
        if line.strip():
            try:
                yield Fields(parse_record(line), f"{path.name}:{number}", layout)
            except TextError as error:
                raise DatasetError([f"{path.name}:{number}: {error.reason}"]) from None


def named_text(id_: str, title: str, text: str) -> Document:
    """A document of ``text`` under its title, if it has one: a heading, unless it is most of what there is to read."""
    if title and 2 * len(title) > len(text):
        return titled(id_, f"{title}\n\n{text}\n" if text else f"{title}\n")
    return titled(id_, f"# {title}\n\n{text}\n" if title else f"{text}\n")
