"""Split source code: definitions that fit stay whole, small neighbours are merged, long definitions are split."""

from collections.abc import Iterator, Sequence

from ragsmith.datasets.chunking.definitions import CodeLine, Definition, find_definitions, parse_lines
from ragsmith.datasets.chunking.pieces import ChunkSlice, TextSlice, common_path, group_slices, split_code
from ragsmith.types import Modality


def cut_source(text: str, size: int, suffix: str) -> Iterator[ChunkSlice]:
    """Yield the chunks of a source file with this suffix.

    A unit is a top-level definition with the comments directly above, or a run of other lines up to a blank line. The
    headings of a chunk are the names of its enclosing definitions, its section the number of a group of merged units.
    """
    for number, group in enumerate(_iter_groups(text, size, suffix)):
        for pieces in group_slices(group, size, apart=True):
            yield ChunkSlice(pieces[0].start, pieces[-1].end, number, _headings(text, pieces), Modality.CODE)


def _headings(text: str, pieces: Sequence[TextSlice]) -> tuple[str, ...]:
    """Return the common path of the pieces with words, so that a closing brace does not shorten the path."""
    worded = [piece for piece in pieces if any(character.isalnum() for character in text[piece.start : piece.end])]
    return common_path(worded or pieces)


def _iter_groups(text: str, size: int, suffix: str) -> Iterator[list[TextSlice]]:
    """Yield groups of units that fit into ``size``; each long unit is a group."""
    group: list[TextSlice] = []
    for unit in _iter_units(text, size, suffix):
        if group and (len(unit) > 1 or not unit[0].whole or unit[0].end - group[0].start > size):
            yield group
            group = []
        group.extend(unit)
        if len(unit) > 1:
            yield group
            group = []
    if group:
        yield group


def _iter_units(text: str, size: int, suffix: str) -> Iterator[list[TextSlice]]:
    lines = parse_lines(text)
    at = 0
    for definition in find_definitions(text, lines, suffix):
        yield from _iter_runs(text, lines[at : definition.first], (), size, indented=False)
        yield list(_iter_pieces(text, lines, definition, (), size))
        at = definition.last
    yield from _iter_runs(text, lines[at:], (), size, indented=False)


def _iter_pieces(
    text: str, lines: Sequence[CodeLine], definition: Definition, above: tuple[str, ...], size: int
) -> Iterator[TextSlice]:
    path = (*above, definition.name)
    start, end = lines[definition.first].start, lines[definition.last - 1].end
    if end - start <= size:
        yield TextSlice(start, end, Modality.CODE, path)
        return
    at = definition.first
    for inner in definition.inner:
        for run in _iter_runs(text, lines[at : inner.first], path, size, indented=True):
            yield from run
        yield from _iter_pieces(text, lines, inner, path, size)
        at = inner.last
    for run in _iter_runs(text, lines[at : definition.last], path, size, indented=True):
        yield from run


def _iter_runs(
    text: str, lines: Sequence[CodeLine], path: tuple[str, ...], size: int, *, indented: bool
) -> Iterator[list[TextSlice]]:
    """Yield runs of lines outside definitions, split at blank lines, at top level only before unindented lines."""
    run: list[CodeLine] = []
    blank = False
    for line in lines:
        if not line.text:
            blank = True
            continue
        if run and blank and (indented or line.indent == 0):
            yield _slice_run(text, run, path, size)
            run = []
        run.append(line)
        blank = False
    if run:
        yield _slice_run(text, run, path, size)


def _slice_run(text: str, run: Sequence[CodeLine], path: tuple[str, ...], size: int) -> list[TextSlice]:
    start, end = run[0].start, run[-1].end
    if end - start <= size:
        return [TextSlice(start, end, Modality.CODE, path)]
    return [TextSlice(*part, Modality.CODE, path, whole=False) for part in split_code(text, start, end, size)]
