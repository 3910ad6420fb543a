"""Read the rows of a CSV, TSV, JSON, JSONL or XLSX file by column names.

As spreadsheets write them, a byte order mark, semicolons and blank rows are accepted.
"""

import csv
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ragsmith.datasets.ingest.readers.delimited import LONGEST_CELL
from ragsmith.datasets.ingest.readers.office import filled_rows
from ragsmith.datasets.ingest.readers.part import DAMAGED, opened
from ragsmith.errors import DatasetError, MissingExtra
from ragsmith.text.files import FORBIDDEN, MIB, TextError, control, decode, read_bytes, shown
from ragsmith.text.jsonl import kind, parse_json, parse_record

MAX_BYTES = 256 * MIB

Row = tuple[int, Mapping[str, object]]
"""The line in the file (or the number of the row), and values by column."""


def read_rows(path: Path) -> list[Row]:
    """Return the rows of the file at ``path`` that are not blank; its suffix determines the format.

    Raises:
        DatasetError: the file is not a list of that format.
        MissingExtra: the package that reads XLSX is not installed.
    """
    reader = FORMATS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(FORMATS)
        raise DatasetError([f"{path}: is not a list of questions; give a file that ends in one of {known}"])
    try:
        rows = [(number, row) for number, row in reader(path) if any(map(_has_value, row.values()))]
    except TextError as error:
        raise DatasetError([error.at(path.name)]) from None
    if not rows:
        raise DatasetError([f"{path.name}: has no rows; write one question a row, under the names of the columns"])
    return rows


def _has_value(value: object) -> bool:
    return value is not None and value != [] and bool(str(value).strip())


def _text(path: Path) -> str:
    data = read_bytes(path, limit=MAX_BYTES, links=True)
    return decode(data.removeprefix(b"\xef\xbb\xbf"))


def _csv(path: Path) -> Iterator[Row]:
    text = _text(path)
    first = text.split("\n", 1)[0]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;\t", key=first.count)
    csv.field_size_limit(LONGEST_CELL)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows: list[tuple[int, list[str]]] = []
    line = 1
    try:
        for cells in reader:
            rows.append((line, cells))
            line = reader.line_num + 1
    except csv.Error as error:
        raise TextError(f"the row that begins here is not valid CSV ({error}); fix its quotes", line) from None
    yield from _rows_by_column(rows)


def _rows_by_column(rows: Sequence[tuple[int, Sequence[object]]]) -> Iterator[Row]:
    """Yield the rows below the first one that is not blank, which has the column names."""
    given = [(line, cells) for line, cells in rows if any(map(_has_value, cells))]
    if not given:
        return
    line, head = given[0]
    names = ["" if name is None else str(name).strip() for name in head]
    if twice := sorted({name for name in names if name and names.count(name) > 1}):
        raise TextError(f"the column {shown(twice[0])} occurs {names.count(twice[0])} times; rename one", line)
    for number, cells in given[1:]:
        if any(map(_has_value, cells[len(names) :])):
            said = f"the row has {len(cells)} cells, the header {len(names)}; quote a cell that contains a separator"
            raise TextError(said, number)
        filled = [*cells, *[""] * (len(names) - len(cells))]
        yield number, {name: cell for name, cell in zip(names, filled, strict=False) if name}


def _jsonl(path: Path) -> Iterator[Row]:
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if line.strip():
            try:
                yield number, parse_record(line)
            except TextError as error:
                raise TextError(error.reason, number) from None


def _json(path: Path) -> Iterator[Row]:
    content = parse_json(_text(path))
    lists = [value for value in content.values() if isinstance(value, list)] if isinstance(content, dict) else [content]
    if len(lists) != 1 or not isinstance(lists[0], list):
        raise TextError(f"{kind(content)} stands here instead of a list of questions; write [{{...}}, ...]")
    for number, record in enumerate(lists[0], start=1):
        if not isinstance(record, dict):
            raise TextError(f"entry {number} is {kind(record)}, not an object; write {{...}}")
        yield number, record


def _xlsx(path: Path) -> Iterator[Row]:
    try:
        import openpyxl  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("openpyxl", "documents") from None
    data = read_bytes(path, limit=MAX_BYTES, links=True)
    opened(data).close()
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
        rows = list(enumerate(filled_rows(book.worksheets[0], lambda cell: _cell_text(cell.value)), start=1))
        book.close()
    except DAMAGED as error:
        raise TextError(f"is no XLSX workbook that can be read ({error}); save it again, or as CSV") from None
    for number, cells in rows:
        if found := next((m for cell in cells if (m := FORBIDDEN.search(cell))), None):
            raise TextError(f"{control(found.group())}; remove it", number)
    yield from _rows_by_column(rows)


def _cell_text(cell: object) -> str:
    """Return a cell as displayed: whole numbers without a decimal point, dates without a time."""
    if cell is None:
        return ""
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))
    return str(cell).removesuffix(" 00:00:00")


FORMATS: Mapping[str, Callable[[Path], Iterator[Row]]] = MappingProxyType(
    {".csv": _csv, ".tsv": _csv, ".jsonl": _jsonl, ".json": _json, ".xlsx": _xlsx}
)
