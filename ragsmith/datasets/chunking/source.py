"""Cut source code: definitions stay whole while they fit, small neighbours are packed, long ones are cut within."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ragsmith.datasets.chunking.definitions import CodeLine, Definition, definitions, lines_of
from ragsmith.datasets.chunking.pieces import ChunkSlice, TextSlice, code, common_path, grouped
from ragsmith.types import Modality


def cut_source(text: str, size: int, suffix: str) -> Iterator[ChunkSlice]:
    """Yield the parts of a source file with this ending.

    A unit is a top-level definition with what stands right above it, or other lines up to a blank one. A part's
    headings name the definitions that it lies in, and its section numbers the units that were packed together.
    """
    for number, group in enumerate(_groups(text, size, suffix)):
        for pieces in grouped(group, size, apart=True):
            yield ChunkSlice(pieces[0].start, pieces[-1].end, number, _headings(text, pieces), Modality.CODE)


def _headings(text: str, pieces: Sequence[TextSlice]) -> tuple[str, ...]:
    """The path to what has words: a brace that closes what is around a method does not make it less of that method."""
    worded = [piece for piece in pieces if any(character.isalnum() for character in text[piece.start : piece.end])]
    return common_path(worded or pieces)


def _groups(text: str, size: int, suffix: str) -> Iterator[list[TextSlice]]:
    """Yield the units that fit together into ``size``, each long one by itself."""
    group: list[TextSlice] = []
    for unit in _units(text, size, suffix):
        if group and (len(unit) > 1 or not unit[0].whole or unit[0].end - group[0].start > size):
            yield group
            group = []
        group.extend(unit)
        if len(unit) > 1:
            yield group
            group = []
    if group:
        yield group


def _units(text: str, size: int, suffix: str) -> Iterator[list[TextSlice]]:
    lines = lines_of(text)
    at = 0
    for definition in definitions(text, lines, suffix):
        yield from _loose(text, lines[at : definition.first], (), size, indented=False)
        yield list(_pieces(text, lines, definition, (), size))
        at = definition.last
    yield from _loose(text, lines[at:], (), size, indented=False)


def _pieces(
    text: str, lines: Sequence[CodeLine], definition: Definition, above: tuple[str, ...], size: int
) -> Iterator[TextSlice]:
    path = (*above, definition.name)
    start, end = lines[definition.first].start, lines[definition.last - 1].end
    if end - start <= size:
        yield TextSlice(start, end, Modality.CODE, path)
        return
    at = definition.first
    for inner in definition.inner:
        for run in _loose(text, lines[at : inner.first], path, size, indented=True):
            yield from run
        yield from _pieces(text, lines, inner, path, size)
        at = inner.last
    for run in _loose(text, lines[at : definition.last], path, size, indented=True):
        yield from run


def _loose(
    text: str, lines: Sequence[CodeLine], path: tuple[str, ...], size: int, *, indented: bool
) -> Iterator[list[TextSlice]]:
    """Yield the runs of lines that define nothing: up to a blank one, outside definitions before an unindented."""
    run: list[CodeLine] = []
    blank = False
    for line in lines:
        if not line.text:
            blank = True
            continue
        if run and blank and (indented or line.indent == 0):
            yield _run(text, run, path, size)
            run = []
        run.append(line)
        blank = False
    if run:
        yield _run(text, run, path, size)


def _run(text: str, run: Sequence[CodeLine], path: tuple[str, ...], size: int) -> list[TextSlice]:
    start, end = run[0].start, run[-1].end
    if end - start <= size:
        return [TextSlice(start, end, Modality.CODE, path)]
    return [TextSlice(*part, Modality.CODE, path, whole=False) for part in code(text, start, end, size)]
