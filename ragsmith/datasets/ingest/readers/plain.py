"""Markdown, plain text and source code: unchanged except encoding and line ends."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ragsmith.datasets.document_types.document_types import SOURCE_SUFFIXES
from ragsmith.datasets.ingest.decoding import decode_text
from ragsmith.datasets.ingest.readers.part import FilePart, reader

_FRONT_MATTER = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)
_FRONT_TITLE = re.compile(r"""^title: *(["']?)(?P<title>.+?)\1 *$""", re.MULTILINE)
_UNDERLINED = re.compile(r"^(?! {0,3}[#>|\-*+])(?P<title>\S.*)\n=+ *$", re.MULTILINE)


@reader("Markdown", suffixes=(".md", ".markdown", ".mdown", ".mkd"))
def read_markdown(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Markdown, as it is."""
    text, notes = decode_text(data)
    return (FilePart(text, title=_title(text), notes=notes),)


@reader("text", suffixes=(".txt",))
def read_text(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Plain text, and files without another reader."""
    text, notes = decode_text(data)
    return (FilePart(text, ending=".txt", notes=notes),)


@reader("source code", suffixes=[suffix for suffix in SOURCE_SUFFIXES if suffix != ".json"])
def read_code(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Source code, as it is."""
    text, notes = decode_text(data)
    return (FilePart(text, ending=PurePosixPath(name).suffix, notes=notes),)


def _title(text: str) -> str | None:
    """Return the title in the front matter or an underlined heading; headings with ``#`` are found when loading."""
    if front := _FRONT_MATTER.match(text):
        found = _FRONT_TITLE.search(front[1])
        if found:
            return found["title"]
    underlined = _UNDERLINED.search(text)
    return underlined["title"].strip() if underlined else None
