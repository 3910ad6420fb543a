"""Locate places in a document by heading, page, rows or lines.

Numbers start at 1, and ranges include both ends. Spans exclude surrounding white space. A section ends before the next
heading of its level or above.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate

from ragsmith.text.files import TextError, get_line_number, shorten
from ragsmith.text.jsonl import name_type
from ragsmith.text.markdown import BlockType, parse_blocks
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Document, Modality, Span

PATH_SEPARATOR = " > "
"""Separator of a heading and its parent heading, for ambiguous headings: ``Leave > Carrying over``."""


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """The text ``[start, end)`` below a heading; ``path`` ends with the heading and begins with its ancestors."""

    path: tuple[str, ...]
    start: int
    end: int


def locate_place(document: Document, key: str, value: object) -> Span:
    """Return the span of the ``heading``, ``page``, ``rows`` or ``lines`` with this ``value`` in ``document``.

    Raises ``TextError`` if the value is invalid, or there is no such place or no text in it.
    """
    start, end = PLACES[key](document, value)
    span = strip_span(document, start, end)
    if span.start >= span.end:
        raise TextError(f"{key} {shorten(value)} of document {document.id!r} has no text; name another place")
    return span


def whole_document_span(document: Document) -> Span:
    """Return the span of the whole text of ``document``, without white space at its ends."""
    return strip_span(document, 0, len(document.text))


def strip_span(document: Document, start: int, end: int) -> Span:
    """Return the span ``[start, end)`` without white space at its ends."""
    part = document.text[start:end]
    start += len(part) - len(part.lstrip())
    return Span(document.id, start, max(start, start + len(part.strip())))


def find_sections(document: Document) -> list[DocumentSection]:
    """Return the sections of a document, in order; only prose has headings."""
    if document.modality is not Modality.PROSE:
        return []
    headings = [block for block in parse_blocks(document.text) if block.kind is BlockType.HEADING]
    sections: list[DocumentSection] = []
    above: list[tuple[int, str]] = []
    for number, heading in enumerate(headings):
        above = [(level, name) for level, name in above if level < heading.level] + [(heading.level, heading.heading)]
        end = next((h.start for h in headings[number + 1 :] if h.level <= heading.level), len(document.text))
        sections.append(DocumentSection(tuple(name for _, name in above), heading.end, end))
    return sections


def _locate_heading(document: Document, value: object) -> tuple[int, int]:
    if not isinstance(value, str):
        raise TextError(f"'heading' must be text, not {name_type(value)}")
    sections = find_sections(document)
    if not sections:
        raise TextError(f"document {document.id!r} has no headings; give 'lines', or 'text'")
    heading = _normalize_heading(value)
    path = tuple(_normalize_heading(part) for part in value.split(PATH_SEPARATOR))
    matches = [section for section in sections if _normalize_heading(section.path[-1]) == heading]
    matches = matches or [
        section for section in sections if tuple(map(_normalize_heading, section.path))[-len(path) :] == path
    ]
    if not matches:
        names = {section.path[-1] for section in sections}
        raise TextError(f"document {document.id!r} has no heading {shorten(value)}; {did_you_mean(value, names)}")
    if len(matches) > 1:
        paths = list(dict.fromkeys(PATH_SEPARATOR.join(section.path) for section in matches))
        if len(paths) > 1:
            advice = f"give the headings above it, too: {', '.join(map(shorten, paths[:5]))}"
        else:
            advice = f"give 'lines': they are {', '.join(_format_lines(document, section) for section in matches[:5])}"
        raise TextError(f"document {document.id!r} has the heading {shorten(value)} {len(matches)} times; {advice}")
    return matches[0].start, matches[0].end


def _format_lines(document: Document, section: DocumentSection) -> str:
    below = strip_span(document, section.start, section.end)
    return f"[{get_line_number(document.text, below.start)}, {get_line_number(document.text, below.end)}]"


def _locate_page(document: Document, value: object) -> tuple[int, int]:
    if type(value) is not int:
        raise TextError(f"'page' must be an integer, not {name_type(value)}")
    starts = document.pages
    if not starts:
        raise TextError(f"document {document.id!r} has no pages, as a PDF has; give 'heading' or 'lines'")
    if not 1 <= value <= len(starts):
        raise TextError(f"document {document.id!r} has no page {value}; its pages are 1 to {len(starts)}")
    return starts[value - 1], starts[value] if value < len(starts) else len(document.text)


def _locate_rows(document: Document, value: object) -> tuple[int, int]:
    if document.modality is not Modality.TABLE:
        raise TextError(f"document {document.id!r} is not a table, so it has no rows; give 'lines'")
    return _locate_range("rows", document, value)


def _locate_range(key: str, document: Document, value: object) -> tuple[int, int]:
    if not isinstance(value, list) or len(value) != 2 or any(type(number) is not int for number in value):
        raise TextError(f"{key!r} must be a list of two integers, the first and the last, not {shorten(value)}")
    first, last = value
    ends = list(accumulate(map(len, document.text.split("\n")), lambda end, length: end + 1 + length))
    count = len(ends) - document.text.endswith("\n")
    if not 1 <= first <= last <= count:
        valid = f"its {key} are 1 to {count}, and the first goes first"
        raise TextError(f"document {document.id!r} has no {key} {shorten(value)}; {valid}")
    return (ends[first - 2] + 1 if first > 1 else 0), ends[last - 1]


PLACES: Mapping[str, Callable[[Document, object], tuple[int, int]]] = {
    "heading": _locate_heading,
    "page": _locate_page,
    "rows": _locate_rows,
    "lines": partial(_locate_range, "lines"),
}
"""Functions by key that return the offsets of a place, or raise ``TextError``."""


def _normalize_heading(heading: str) -> str:
    return " ".join(heading.casefold().split())
