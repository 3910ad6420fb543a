"""Tables of values, whose columns format them.

The HTML page, Markdown and the terminal show `Table.cells`; `to_csv` writes the values of records.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

from ragsmith.errors import MissingExtra
from ragsmith.text.terminal import aligned

if TYPE_CHECKING:
    from pandas import DataFrame

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n")
"""First characters of a cell that a spreadsheet may evaluate as a formula."""

DECIMALS = 6
"""Number of decimals in CSV and JSON."""

_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?(e[+-]?\d+)?")

ColumnPath = str | tuple[str, ...]
"""Attributes or keys that lead from a record to a value: ``"worth.fitness.mean"``, or a tuple of their names."""


def write_text(value: Any) -> str:
    """Format a value as text, integers with thousands separators; None is empty."""
    if value is None:
        return ""
    return f"{value:,}" if isinstance(value, int) else str(value)


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its heading, with its unit, and the format of its values.

    Numbers are aligned to the right. ``wide`` columns contain prose and should not be narrowed.
    """

    name: str
    format: Callable[[Any], str] = write_text
    number: bool = False
    wide: bool = False

    def write(self, value: Any) -> str:
        """Format a value; text is unchanged."""
        return value if isinstance(value, str) else self.format(value)


@dataclass(frozen=True, slots=True)
class Table:
    """A table by rows. ``marks`` has the kind of each row: winner, baseline, inert or none."""

    caption: str
    columns: tuple[Column, ...]
    rows: Sequence[Sequence[Any]]
    marks: Sequence[str] = ()

    @property
    def cells(self) -> list[list[str]]:
        """The rows as formatted text."""
        return [[column.write(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(column.name)}</th>" for column in self.columns)
        rows = (f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in self.cells)
        return (
            f"<table><caption>{escape(self.caption)}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{''.join(rows)}</tbody></table>"
        )

    def __str__(self) -> str:
        right = {place for place, column in enumerate(self.columns) if column.number}
        return "\n".join([self.caption, *aligned([[column.name for column in self.columns], *self.cells], right)])

    def mark(self, place: int) -> str:
        """Return the kind of a row."""
        return self.marks[place] if place < len(self.marks) else ""


def texts(*names: str) -> tuple[Column, ...]:
    """Return columns of short text."""
    return tuple(map(Column, names))


def prose(*names: str) -> tuple[Column, ...]:
    """Return columns of long text."""
    return tuple(Column(name, wide=True) for name in names)


def figures(format: Callable[[Any], str], *names: str) -> tuple[Column, ...]:  # noqa: A002  the word of the field
    """Return columns of numbers with the same ``format``."""
    return tuple(Column(name, format, number=True) for name in names)


def counts(*names: str) -> tuple[Column, ...]:
    """Return columns of integers."""
    return figures(write_text, *names)


def to_csv(records: Iterable[Any], columns: Mapping[str, ColumnPath]) -> str:
    """Return CSV that is safe to open in a spreadsheet: a line per record, a column per heading and path."""
    paths = [tuple(path.split(".")) if isinstance(path, str) else path for path in columns.values()]
    return write_csv([columns, *([escape_cell(_look_up(record, path)) for path in paths] for record in records)])


def write_csv(rows: Iterable[Iterable[str]], delimiter: str = ",") -> str:
    """Return rows as CSV, a line each."""
    out = io.StringIO(newline="")
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return out.getvalue()


def _look_up(value: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        if value is None:
            return None
        value = value.get(name) if isinstance(value, Mapping) else getattr(value, name)
    return value


def escape_cell(cell: Any) -> str:
    """Return the text of a cell; an apostrophe is prepended to text that a spreadsheet would evaluate as a formula."""
    if cell is None or isinstance(cell, bool):
        return "" if cell is None else str(cell).lower()
    if isinstance(cell, tuple):
        cell = "; ".join(cell)
    text = str(round_values(cell))
    return f"'{text}" if text.startswith(FORMULA_STARTS) and not _NUMBER.fullmatch(text) else text


def round_values(value: Any) -> Any:
    """Return plain data with floats rounded to six decimals, without -0.0."""
    if isinstance(value, float):
        return round(value, DECIMALS) + 0.0
    if isinstance(value, Mapping):
        return {str(key): round_values(item) for key, item in value.items()}
    return [round_values(item) for item in value] if isinstance(value, list | tuple) else value


def to_data_frame(records: Iterable[Mapping[str, Any]]) -> "DataFrame":
    """Return records as a data frame of pandas.

    Raises:
        MissingExtra: pandas is not installed.
    """
    try:
        from pandas import DataFrame  # noqa: PLC0415  it is optional, and slow to import
    except ImportError as error:
        raise MissingExtra("pandas", "pandas") from error
    return DataFrame(list(records))
