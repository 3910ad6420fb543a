"""Split tables: rows stay whole; a row longer than the size is split between its cells."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ragsmith.datasets.chunking.pieces import ChunkSlice, Extent, TextSlice, grouped, level, visible_lines, within
from ragsmith.datasets.document_types.tables import CELL_BORDER
from ragsmith.types import Modality

_CELL = re.compile(rf"\S.*?(?:{CELL_BORDER.rstrip()}(?=\s)|$)", re.DOTALL)


def cut_table(text: str, size: int) -> Iterator[ChunkSlice]:
    """Yield the chunks of a table, which has a row a line: ``column: value; column: value``."""
    for group in grouped(_rows(text, size), size, apart=True):
        yield ChunkSlice(group[0].start, group[-1].end, 0, (), Modality.TABLE)


def _rows(text: str, size: int) -> Iterator[TextSlice]:
    for at, end in visible_lines(text, 0, len(text)):
        start = end - len(text[at:end].lstrip())
        if end - start <= size:
            yield TextSlice(start, end)
        else:
            parts = level(within(text, _cells(text, start, end), size), end, size)
            yield from (TextSlice(*part, whole=False) for part in parts)


def _cells(text: str, start: int, end: int) -> Iterator[Extent]:
    return (match.span() for match in _CELL.finditer(text, start, end))
