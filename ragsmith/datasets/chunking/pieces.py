"""Pieces of a text, and how they are cut smaller and put together again up to a size."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragsmith.text.words import sentences
from ragsmith.types import Modality

Extent = tuple[int, int]
"""The characters ``[start, end)``."""

CRUMB = 8
"""A part below this share (one in ...) of the size is better off beside something it does not belong to."""

_INLINE_HEADING = re.compile(r"(={2,6}) .+ \1")
_LINE = re.compile(r"[^\r\n]+")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class TextSlice:
    """A slice that is not cut further; ``whole`` unless it is a part of something that was too long."""

    start: int
    end: int
    modality: Modality = Modality.PROSE
    path: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class ChunkSlice:
    """What becomes a chunk: a slice, the number of its section, the headings above it, and what most of it is."""

    start: int
    end: int
    section: int
    headings: tuple[str, ...]
    modality: Modality


def grouped(pieces: Iterable[TextSlice], size: int, *, apart: bool = False) -> Iterator[list[TextSlice]]:
    """Join neighbours greedily while they fit into ``size`` characters together.

    With ``apart``, parts of something long are joined with what is not under the same path only where one is a crumb.
    """
    group: list[TextSlice] = []
    for piece in pieces:
        fits = bool(group) and piece.end - group[0].start <= size
        if fits and not (apart and _better_apart(group, piece, size)):
            group.append(piece)
            continue
        if group:
            yield group
        group = [piece]
    if group:
        yield group


def majority(pieces: Iterable[TextSlice]) -> Modality:
    """Return the modality with most characters; the earlier of `Modality` where two have as many."""
    counts: Counter[Modality] = Counter()
    for piece in pieces:
        counts[piece.modality] += piece.end - piece.start
    return max(Modality, key=lambda modality: counts[modality])


def common_path(pieces: Sequence[TextSlice]) -> tuple[str, ...]:
    """Return the headings that all pieces lie under."""
    first, last = min(piece.path for piece in pieces), max(piece.path for piece in pieces)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:length]


def prose(text: str, start: int, end: int, size: int) -> Iterator[Extent]:
    """Cut a paragraph at the ends of sentences, then at spaces, then anywhere, into pieces of about equal length."""
    return level(within(text, _sentences(text, start, end), size), end, size)


def lines(text: str, start: int, end: int, size: int) -> Iterator[Extent]:
    """Cut a block at the ends of lines, and a line that is too long as prose, into pieces of about equal length."""
    return level(within(text, _lines(text, start, end, size), size), end, size)


def code(text: str, start: int, end: int, size: int) -> Iterator[Extent]:
    """Cut source code at blank lines, then at line ends, then at spaces, then anywhere; keep lines' indentation."""
    return packed((extent for run in _runs(text, start, end) for extent in _shortened(text, run, size)), size)


def level(units: Iterable[Extent], last: int, size: int) -> Iterator[Extent]:
    """Join units to pieces of about equal length up to ``last``: a block just over the size leaves no crumb."""
    current: Extent | None = None
    aim = 0.0
    for start, end in units:
        if current is not None:
            short, long = current[1] - current[0], end - current[0]
            if long <= size and long - aim < aim - short:
                current = (current[0], end)
                continue
            yield current
        current = (start, end)
        aim = (last - start) / -(-(last - start) // size)
    if current is not None:
        yield current


def within(text: str, units: Iterable[Extent], size: int) -> Iterator[Extent]:
    """Cut units that are too long at spaces, and words that are too long after ``size`` characters."""
    for start, end in units:
        if end - start <= size:
            yield start, end
            continue
        words = (word.span() for word in _WORD.finditer(text, start, end))
        yield from packed(
            ((at, min(at + size, last)) for first, last in words for at in range(first, last, size)), size
        )


def packed(extents: Iterable[Extent], size: int) -> Iterator[Extent]:
    """Join neighbours greedily while they fit."""
    for group in grouped((TextSlice(start, end) for start, end in extents), size):
        yield group[0].start, group[-1].end


def visible_lines(text: str, start: int, end: int) -> Iterator[Extent]:
    """Yield the lines that are not blank, from their first character to their last visible one."""
    for line in _LINE.finditer(text, start, end):
        if visible := line.group().rstrip():
            yield line.start(), line.start() + len(visible)


def _better_apart(group: Sequence[TextSlice], piece: TextSlice, size: int) -> bool:
    if (group[-1].whole and piece.whole) or (piece.path and piece.path == group[-1].path):
        return False
    return min(group[-1].end - group[0].start, piece.end - piece.start) * CRUMB > size


def _lines(text: str, first: int, last: int, size: int) -> Iterator[Extent]:
    for at, end in visible_lines(text, first, last):
        start = end - len(text[at:end].lstrip())
        yield from [(start, end)] if end - start <= size else _sentences(text, start, end)


def _sentences(text: str, first: int, last: int) -> Iterator[Extent]:
    """Yield the sentences; a heading inside the line (``== So ==``) goes with the sentence after it."""
    heading: int | None = None
    for start, end in sentences(text[first:last]):
        begin = first + start if heading is None else heading
        if _INLINE_HEADING.fullmatch(text, first + start, first + end):
            heading = begin
            continue
        yield begin, first + end
        heading = None
    if heading is not None:
        yield heading, last


def _runs(text: str, start: int, end: int) -> Iterator[list[Extent]]:
    """Yield the lines between blank lines."""
    run: list[Extent] = []
    for line in visible_lines(text, start, end):
        gap = text[run[-1][1] : line[0]] if run else ""
        if gap.count("\n") > 1 or (gap.count("\r") > 1 and "\n" not in gap):
            yield run
            run = []
        run.append(line)
    if run:
        yield run


def _shortened(text: str, run: Sequence[Extent], size: int) -> Iterable[Extent]:
    first, last = run[0][0], run[-1][1]
    return [(first, last)] if last - first <= size else level(within(text, run, size), last, size)
