"""Convert tables to text with one line per row: ``column: value; column: value``."""

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from pathlib import PurePath

from ragsmith.datasets.fields import RawFields
from ragsmith.text.files import MIB, TextError, format_size, shorten
from ragsmith.text.table import write_csv

CELL_SEPARATOR = "; "
NAME_SEPARATOR = ": "
MAX_CHARACTERS = 64 * MIB
"""Maximum length of the text of a table, in characters."""

MAX_COLUMNS = 4096
"""Maximum number of columns of a reconstructed table."""

Row = Mapping[str, str]
"""The cells of a row that are not empty, by column."""


def cell_separator(file: str | PurePath) -> str:
    """Return the cell separator of a file by its suffix."""
    return "\t" if PurePath(file).suffix.lower() == ".tsv" else ","


def render_table(source: str, delimiter: str) -> str:
    """Return the table in ``source`` as text, with a line for each row that is not empty.

    Empty cells are omitted; line breaks in cells become spaces. Raises ``TextError`` with the line unless the header
    has a unique name for every column, and every row has as many cells as the header.
    """
    lines: list[str] = []
    length = 0
    rows = iter_csv_rows(source, delimiter)
    columns = _parse_header(*next(rows, (1, [])), delimiter)
    for number, row in rows:
        if len(row) != len(columns):
            cells, expected = _format_count(len(row), "cell"), _format_count(len(columns), "column")
            raise TextError(
                f"the row has {cells}, the header {expected}; quote a cell that contains a separator", number
            )
        named_cells = zip(columns, map(_collapse_whitespace, row), strict=True)
        line = CELL_SEPARATOR.join(f"{column}{NAME_SEPARATOR}{value}" for column, value in named_cells if value)
        length += len(line) + 1
        if length > MAX_CHARACTERS:  # names repeat in every row: a small file can give a very large text
            raise TextError(
                f"as text, the rows up to here are larger than the limit of {format_size(MAX_CHARACTERS)}; split it",
                number,
            )
        lines.extend([line] if line else [])
    if not lines:
        raise TextError("has a header but no rows; add rows or remove the file")
    return "".join(f"{line}\n" for line in lines)


def read_columns(source: str, delimiter: str) -> RawFields:
    """Return the columns of a table that `render_table` accepts: their distinct values, a text if there is one."""
    (_, header), *rows = iter_csv_rows(source, delimiter)
    columns = zip(header, *(row for _, row in rows), strict=True)
    distinct = {name.strip(): tuple(dict.fromkeys(map(_collapse_whitespace, cells))) for name, *cells in columns}
    return {name: values if len(values) > 1 else values[0] for name, values in distinct.items() if any(values)}


def reconstruct_source(text: str, delimiter: str) -> str | None:
    """Return the source of a table that `render_table` converts to exactly ``text``, or None.

    The columns may differ from the original ones if a cell looks like several cells.
    """
    for parse in (_parse_cells, _parse_single_cell):
        rows = [parse(line) for line in text.split("\n")[:-1]]
        columns = _order_columns([row for row in rows if row])
        if columns is None or None in rows:
            continue
        cells = ([row.get(column, "") for column in columns] for row in rows if row)
        source = write_csv([columns, *cells], delimiter)
        try:
            if render_table(source, delimiter) == text:
                return source
        except TextError:
            continue
    return None


def iter_csv_rows(source: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each row that is not empty, with the number of its first line. Raises ``TextError`` with the line."""
    reader = csv.reader(io.StringIO(source, newline=""), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1
        try:
            row = next(reader, None)
        except csv.Error as error:
            advice = "quote a cell that contains a separator, a quote or a line break, and double its quotes"
            raise TextError(f"the row that begins here is not valid CSV ({error}); {advice}", number) from None
        if row is None:
            return
        if row:
            yield number, row


def _parse_header(number: int, header: Sequence[str], delimiter: str) -> list[str]:
    columns = [_collapse_whitespace(cell) for cell in header]
    if len(columns) == 1 and (other := _find_separator(columns[0].replace(delimiter, ""))):
        raise TextError(f"the cells seem to be separated by {other!r}; separate them by {delimiter!r}", number)
    for position, column in enumerate(columns, start=1):
        if not column:
            raise TextError(f"column {position} has no name in the header; give it one", number)
        if column.startswith(NAME_SEPARATOR[0]):
            raise TextError(f"the header names a column {shorten(column)}; names must not begin with a colon", number)
    for column, count in Counter(columns).items():
        if count > 1:
            raise TextError(f"the header names the column {shorten(column)} {count} times; rename all but one", number)
    return columns


def _find_separator(column: str) -> str | None:
    """Return a character in the name of the only column that may be the cell separator."""
    return next((mark for mark in ",;\t" if mark in column), None)


def _format_count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _collapse_whitespace(cell: str) -> str:
    return " ".join(stripped for line in cell.splitlines() if (stripped := line.strip()))


def _parse_cells(line: str) -> Row | None:
    """Parse a line; every text that looks like a new column begins a cell."""
    row: dict[str, str] = {}
    last = ""
    for part in line.split(CELL_SEPARATOR):
        name, border, value = part.partition(NAME_SEPARATOR)
        if border and name and name not in row:
            row[name] = value
            last = name
        elif last:
            row[last] += CELL_SEPARATOR + part
        else:
            return None
    return row


def _parse_single_cell(line: str) -> Row | None:
    """Parse a line as a single cell, which is always possible, but loses the separation of cells."""
    name, border, value = line.partition(NAME_SEPARATOR)
    return {name: value} if border and name else None


def _order_columns(rows: Sequence[Row]) -> list[str] | None:
    """Return the columns in an order that agrees with every row."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for row in rows:
        for before, after in pairwise((None, *row)):
            sorter.add(str(after), *([] if before is None else [before]))
    try:
        columns = list(sorter.static_order())
    except CycleError:
        return None
    if len(columns) > MAX_COLUMNS:
        return None
    return [*columns, f"{columns[0]}_"] if len(columns) == 1 and _find_separator(columns[0]) else columns
