"""Markdown, plain text and source code: kept as they are, but for their encoding and line ends."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ragsmith.datasets.intake.decoding import decoded
from ragsmith.datasets.intake.readers.part import Part, reader
from ragsmith.datasets.kinds.kinds import SOURCE_SUFFIXES

_FRONT_MATTER = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)
_FRONT_TITLE = re.compile(r"""^title: *(["']?)(?P<title>.+?)\1 *$""", re.MULTILINE)
_UNDERLINED = re.compile(r"^(?! {0,3}[#>|\-*+])(?P<title>\S.*)\n=+ *$", re.MULTILINE)


@reader("Markdown", suffixes=(".md", ".markdown", ".mdown", ".mkd"))
def read_markdown(data: bytes, name: str) -> tuple[Part, ...]:
    """Markdown, as it is."""
    text, notes = decoded(data)
    return (Part(text, title=_title(text), notes=notes),)


@reader("text", suffixes=(".txt",))
def read_text(data: bytes, name: str) -> tuple[Part, ...]:
    """Plain text, and whatever has no reader of its own."""
    text, notes = decoded(data)
    return (Part(text, ending=".txt", notes=notes),)


@reader("source code", suffixes=[suffix for suffix in SOURCE_SUFFIXES if suffix != ".json"])
def read_code(data: bytes, name: str) -> tuple[Part, ...]:
    """Source code, as it is."""
    text, notes = decoded(data)
    return (Part(text, ending=PurePosixPath(name).suffix, notes=notes),)


def _title(text: str) -> str | None:
    """The title in the front matter, or a heading that is underlined; one with ``#`` is found as it is loaded."""
    if front := _FRONT_MATTER.match(text):
        found = _FRONT_TITLE.search(front[1])
        if found:
            return found["title"]
    underlined = _UNDERLINED.search(text)
    return underlined["title"].strip() if underlined else None
