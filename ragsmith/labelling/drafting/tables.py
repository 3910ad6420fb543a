"""The tables of documents: those of table files, and those written in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragsmith.datasets.chunking.pieces import visible_lines
from ragsmith.datasets.kinds.tables import CELL_BORDER, NAME_BORDER
from ragsmith.text.markdown import Kind, blocks
from ragsmith.types import Document, Modality

_RULE = re.compile(r"[|:\s-]+")
_NUMBER = re.compile(r"[-(]?\s*(?:[A-Z]{1,3}|[$€£])?\s*(\d[\d,]*(?:\.\d+)?)\s*(?:%|per cent|[a-zµ/]{1,8})?\s*\)?")


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of a row by column, and where it stands in its document."""

    cells: dict[str, str]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Table:
    """A table of document ``doc`` under ``heading``; ``key`` is the column that names its rows, each otherwise."""

    doc: str
    heading: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def key(self) -> str | None:
        """The first column whose values are all there, all different, and no numbers; or all different at least."""
        for column in self.columns:
            values = [row.cells.get(column, "") for row in self.rows]
            if all(values) and len(set(values)) == len(values) and not all(map(is_number, values)):
                return column
        return None


def is_number(value: str) -> bool:
    """Whether a cell is a quantity."""
    return _NUMBER.fullmatch(value.strip()) is not None


def number(value: str) -> float | None:
    """The quantity of a cell, without its unit; in brackets it is negative, as accountants have it."""
    found = _NUMBER.fullmatch(value.strip())
    if found is None:
        return None
    return float(found[1].replace(",", "")) * (-1 if value.strip()[0] in "-(" else 1)


def tables_of(document: Document) -> list[Table]:
    """The tables of a document that have a header and two rows or more."""
    if document.modality is Modality.CODE:
        return []
    found = [_file(document)] if document.modality is Modality.TABLE else _written(document)
    return [table for table in found if len(table.rows) > 1 and len(table.columns) > 1]


def _file(document: Document) -> Table:
    rows = []
    for start, end in visible_lines(document.text, 0, len(document.text)):
        cells = (cell.partition(NAME_BORDER) for cell in document.text[start:end].split(CELL_BORDER))
        rows.append(Row({name: value.strip() for name, found, value in cells if found}, start, end))
    columns = dict.fromkeys(column for row in rows for column in row.cells)
    return Table(document.id, document.title, tuple(columns), tuple(rows))


def _written(document: Document) -> Iterator[Table]:
    heading = document.title
    for block in blocks(document.text):
        if block.kind is Kind.HEADING:
            heading = block.heading
        elif block.kind is Kind.TABLE:
            yield _markdown(document, heading, block.start, block.end)


def _markdown(document: Document, heading: str, first: int, last: int) -> Table:
    lines = list(visible_lines(document.text, first, last))
    rule = next((i for i, (start, end) in enumerate(lines) if _RULE.fullmatch(document.text[start:end])), None)
    if not rule:
        return Table(document.id, heading, (), ())
    header = _cells(document.text[slice(*lines[rule - 1])])
    columns = [name or ("" if i else "entry") for i, name in enumerate(header)]
    rows = []
    for start, end in lines[rule + 1 :]:
        cells = _cells(document.text[start:end])
        rows.append(Row({c: v for c, v in zip(columns, cells, strict=False) if c and v}, start, end))
    return Table(document.id, heading, tuple(c for c in dict.fromkeys(columns) if c), tuple(rows))


def _cells(line: str) -> Sequence[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]
