"""Split texts into pieces and merge pieces up to a size."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragsmith.text.words import sentences
from ragsmith.types import Modality

Extent = tuple[int, int]
"""Offsets ``[start, end)``."""

FRAGMENT_DIVISOR = 8
"""A piece smaller than 1 / `FRAGMENT_DIVISOR` of the size is a fragment, which is merged with unrelated text."""

_INLINE_HEADING = re.compile(r"(={2,6}) .+ \1")
_LINE = re.compile(r"[^\r\n]+")
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class TextSlice:
    """A slice that is not split further; ``whole`` unless the slice is part of a longer unit."""

    start: int
    end: int
    modality: Modality = Modality.PROSE
    path: tuple[str, ...] = ()
    whole: bool = True


@dataclass(frozen=True, slots=True)
class ChunkSlice:
    """The offsets of a chunk, the number of its section, its headings and its most frequent modality."""

    start: int
    end: int
    section: int
    headings: tuple[str, ...]
    modality: Modality


def group_slices(pieces: Iterable[TextSlice], size: int, *, apart: bool = False) -> Iterator[list[TextSlice]]:
    """Merge neighbours greedily up to ``size`` characters.

    With ``apart``, parts of a long unit are merged with pieces of another path only if one is a fragment.
    """
    group: list[TextSlice] = []
    for piece in pieces:
        fits = bool(group) and piece.end - group[0].start <= size
        if fits and not (apart and _is_separate(group, piece, size)):
            group.append(piece)
            continue
        if group:
            yield group
        group = [piece]
    if group:
        yield group


def majority_modality(pieces: Iterable[TextSlice]) -> Modality:
    """Return the modality with most characters; ties go to the earlier of `Modality`."""
    counts: Counter[Modality] = Counter()
    for piece in pieces:
        counts[piece.modality] += piece.end - piece.start
    return max(Modality, key=lambda modality: counts[modality])


def common_path(pieces: Sequence[TextSlice]) -> tuple[str, ...]:
    """Return the common headings of all pieces."""
    first, last = min(piece.path for piece in pieces), max(piece.path for piece in pieces)
    length = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), min(len(first), len(last)))
    return first[:length]


def split_prose(text: str, start: int, end: int, size: int) -> Iterator[Extent]:
    """Split a paragraph at sentence ends, then at spaces, then anywhere, into pieces of similar length."""
    return balance_units(split_long_units(text, _iter_sentences(text, start, end), size), end, size)


def split_lines(text: str, start: int, end: int, size: int) -> Iterator[Extent]:
    """Split a block at line ends, and long lines as prose, into pieces of similar length."""
    return balance_units(split_long_units(text, _iter_lines(text, start, end, size), size), end, size)


def split_code(text: str, start: int, end: int, size: int) -> Iterator[Extent]:
    """Split source code at blank lines, then at line ends, then at spaces, then anywhere; keep indentation."""
    return pack_extents(
        (extent for run in _iter_line_runs(text, start, end) for extent in _split_run(text, run, size)), size
    )


def balance_units(units: Iterable[Extent], last: int, size: int) -> Iterator[Extent]:
    """Merge units up to ``last`` to pieces of similar length, without a small remainder."""
    current: Extent | None = None
    target = 0.0
    for start, end in units:
        if current is not None:
            short, long = current[1] - current[0], end - current[0]
            if long <= size and long - target < target - short:
                current = (current[0], end)
                continue
            yield current
        current = (start, end)
        target = (last - start) / -(-(last - start) // size)
    if current is not None:
        yield current


def split_long_units(text: str, units: Iterable[Extent], size: int) -> Iterator[Extent]:
    """Split long units at spaces, and long words after ``size`` characters."""
    for start, end in units:
        if end - start <= size:
            yield start, end
            continue
        words = (word.span() for word in _WORD.finditer(text, start, end))
        yield from pack_extents(
            ((at, min(at + size, last)) for first, last in words for at in range(first, last, size)), size
        )


def pack_extents(extents: Iterable[Extent], size: int) -> Iterator[Extent]:
    """Merge neighbours greedily up to ``size`` characters."""
    for group in group_slices((TextSlice(start, end) for start, end in extents), size):
        yield group[0].start, group[-1].end


def visible_lines(text: str, start: int, end: int) -> Iterator[Extent]:
    """Yield the lines that are not blank, without trailing white space."""
    for line in _LINE.finditer(text, start, end):
        if visible := line.group().rstrip():
            yield line.start(), line.start() + len(visible)


def _is_separate(group: Sequence[TextSlice], piece: TextSlice, size: int) -> bool:
    if (group[-1].whole and piece.whole) or (piece.path and piece.path == group[-1].path):
        return False
    return min(group[-1].end - group[0].start, piece.end - piece.start) * FRAGMENT_DIVISOR > size


def _iter_lines(text: str, first: int, last: int, size: int) -> Iterator[Extent]:
    for at, end in visible_lines(text, first, last):
        start = end - len(text[at:end].lstrip())
        yield from [(start, end)] if end - start <= size else _iter_sentences(text, start, end)


def _iter_sentences(text: str, first: int, last: int) -> Iterator[Extent]:
    """Yield the extents of sentences; an inline heading (``== So ==``) belongs to the next sentence."""
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


def _iter_line_runs(text: str, start: int, end: int) -> Iterator[list[Extent]]:
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


def _split_run(text: str, run: Sequence[Extent], size: int) -> Iterable[Extent]:
    first, last = run[0][0], run[-1][1]
    return [(first, last)] if last - first <= size else balance_units(split_long_units(text, run, size), last, size)
