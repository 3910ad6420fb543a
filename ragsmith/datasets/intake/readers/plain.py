"""Markdown, plain text and source code: kept as they are, but for their encoding and line ends."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from ragsmith.datasets.intake.decoding import decoded
from ragsmith.datasets.intake.readers.part import Part, Reader

_FRONT_MATTER = re.compile(r"---\n(.*?\n)---\n", re.DOTALL)
_FRONT_TITLE = re.compile(r"""^title: *(["']?)(?P<title>.+?)\1 *$""", re.MULTILINE)
_UNDERLINED = re.compile(r"^(?! {0,3}[#>|\-*+])(?P<title>\S.*)\n=+ *$", re.MULTILINE)


def _markdown(data: bytes, name: str) -> tuple[Part, ...]:
    text, notes = decoded(data)
    return (Part(text, title=_title(text), notes=notes),)


def _text(data: bytes, name: str) -> tuple[Part, ...]:
    text, notes = decoded(data)
    return (Part(text, ending=".txt", notes=notes),)


def _code(data: bytes, name: str) -> tuple[Part, ...]:
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


MARKDOWN = Reader("Markdown", _markdown)
TEXT = Reader("text", _text)
CODE = Reader("source code", _code)
