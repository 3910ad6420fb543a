"""XLSX as tables: one or several for each sheet."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, time
from io import BytesIO
from typing import Any

from ragsmith.datasets.ingest.readers.grid import table
from ragsmith.datasets.ingest.readers.packages import DAMAGED, core_title, opened
from ragsmith.datasets.ingest.readers.part import FilePart, reader
from ragsmith.text.files import TextError

MAX_CELLS = 5_000_000
"""Most cells with a value in a sheet."""

MAX_ROWS = 1_048_576
"""Most rows of a sheet, including empty ones, as in Excel."""


@reader("XLSX", member="xl/workbook.xml", binary=True, needs=("openpyxl",))
def read_workbook(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Workbooks: the tables of each sheet."""
    from openpyxl import load_workbook  # noqa: PLC0415
    from openpyxl.utils.exceptions import InvalidFileException  # noqa: PLC0415

    archive = opened(data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about features other than cells
            book = load_workbook(BytesIO(data), read_only=True, data_only=True)
            found = [part for sheet in book.worksheets for part in _sheet(sheet)]
            book.close()
    except (*DAMAGED, InvalidFileException) as error:
        raise TextError(f"is not an XLSX file that can be read ({type(error).__name__}); save it again") from error
    if title := core_title(archive):
        return tuple(replace(part, title=f"{title}: {part.title or part.name}") for part in found)
    return tuple(found)


def _sheet(sheet: Any) -> Iterator[FilePart]:
    """Yield the tables of a sheet. One begins after an empty row with column names; rows of one cell are captions."""
    rows = list(filled_rows(sheet, _written))
    hidden = ("the sheet is hidden in the workbook",) if sheet.sheet_state != "visible" else ()
    tables = list(_tables(rows))
    for number, (captions, inner) in enumerate(tables, start=1):
        made = table(inner)
        if made is None:
            continue
        text, notes = made
        said = tuple(f"has the line {caption!r} above it" for caption in captions)
        name = sheet.title + (f" {number}" if number > 1 else "")
        yield FilePart(text, ".csv", " ".join(captions) or None, name, notes=(*hidden, *said, *notes))


def filled_rows(sheet: Any, written: Callable[[Any], str]) -> Iterator[list[str]]:
    """The rows of a sheet of openpyxl, each up to its last cell that has a value, as ``written`` has it.

    Raises ``TextError`` where they are more than the limit.
    """
    sheet.reset_dimensions()  # else every row is filled up to the rightmost cell of the sheet that has a format
    cells = 0
    for number, row in enumerate(sheet.iter_rows(), start=1):
        found = [written(cell) for cell in row]
        while found and not found[-1]:
            found.pop()
        cells += sum(map(bool, found))
        if cells > MAX_CELLS or number > MAX_ROWS:
            most = f"{MAX_CELLS:,} cells" if cells > MAX_CELLS else f"{MAX_ROWS:,} rows"
            raise TextError(f"has more than {most} in the sheet {sheet.title!r}; split it")
        yield found


def _tables(rows: Sequence[list[str]]) -> Iterator[tuple[list[str], list[list[str]]]]:
    wide = _width(rows) > 1
    captions: list[str] = []
    current: list[list[str]] = []
    after_gap = True
    for row in rows:
        filled = [cell for cell in row if cell]
        if not filled:
            after_gap = True
            continue
        if len(filled) == 1 and after_gap and wide:
            if current:
                yield captions, current
                captions, current = [], []
            captions.append(filled[0])
            continue
        if current and after_gap and _names_columns(row):
            yield captions, current
            captions, current = [], []
        current.append(row)
        after_gap = False
    if current:
        yield captions, current


def _width(rows: Sequence[list[str]]) -> int:
    return max((sum(map(bool, row)) for row in rows), default=0)


def _names_columns(row: Sequence[str]) -> bool:
    filled = [cell for cell in row if cell]
    return len(set(filled)) == len(filled) and not any(any(map(str.isdigit, cell)) for cell in filled)


def _written(cell: Any) -> str:
    """Return a cell as displayed: no time at midnight, no ``.0``, per cent where formatted so."""
    value = cell.value
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return f"{value * 100:.10g}%" if "%" in (cell.number_format or "") else f"{value:.15g}"
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time() else value.isoformat(" ")
    return "" if value is None else str(value)
