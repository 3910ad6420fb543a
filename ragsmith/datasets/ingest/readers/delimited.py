"""CSV and TSV with any separator, and records in JSON, as CSV with unique column names.

Records with long texts become sections; other JSON is kept as code.
"""

import csv
import io
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count

from ragsmith.datasets.document_types.tables import render_table
from ragsmith.datasets.ingest.decoding import decode_text
from ragsmith.datasets.ingest.readers.part import FilePart, reader
from ragsmith.text.files import FORBIDDEN, TextError
from ragsmith.text.jsonl import iter_records, parse_json
from ragsmith.text.table import write_csv

Row = Sequence[str]


def markdown_table(rows: Sequence[Row]) -> str:
    """Return rows as a Markdown table with the first row as header."""
    width = max(map(len, rows), default=0)
    cells = [[" ".join(cell.replace("|", "\\|").split()) for cell in row] for row in rows]
    lines = [f"| {' | '.join([*row, *[''] * (width - len(row))])} |" for row in cells]
    return "\n".join([lines[0], f"|{' --- |' * width}", *lines[1:]]) if lines else ""


def table_to_csv(rows: Sequence[Row]) -> tuple[str, tuple[str, ...]] | None:
    """Return rows as CSV with unique column names, and notes on renamed columns.

    Empty rows and empty columns are omitted. Return None if there is no row below the header.
    """
    cleaned = [[" ".join(FORBIDDEN.sub("", cell).split()) for cell in row] for row in rows]
    filled = [row for row in cleaned if any(row)]
    width = max(map(len, filled), default=0)
    padded = [[*row, *[""] * (width - len(row))] for row in filled]
    columns = [at for at in range(width) if any(row[at] for row in padded)]
    padded = [[row[at] for at in columns] for row in padded]
    if len(padded) < 2:
        return None
    header, notes = _name_columns(padded[0])
    return write_csv([header, *padded[1:]]), notes


def _name_columns(row: Row) -> tuple[list[str], tuple[str, ...]]:
    """Return unique column names: ``column 3`` if missing, ``price 2`` for a second ``price``."""
    names: list[str] = []
    for at, cell in enumerate(row, start=1):
        label = cell.lstrip(":").strip() or f"column {at}"
        numbered = (f"{label} {number}" for number in count(2))
        names.append(next(name for name in chain([label], numbered) if name not in names))
    if len(names) == 1 and any(mark in names[0] for mark in ",;\t"):
        names[0] = names[0].translate(dict.fromkeys(map(ord, ",;\t"), " "))
    changed = [
        f"column {at} is called {name!r}"
        for at, (name, cell) in enumerate(zip(names, row, strict=True), 1)
        if name != cell
    ]
    return names, tuple(changed[:3]) + (
        (f"and {len(changed) - 3} more columns were named",) if len(changed) > 3 else ()
    )


SEPARATORS = ",;\t|"
"""Candidate separators of cells."""

SAMPLED_LINES = 50
"""Number of lines from which the separator is detected."""

MAX_CELL_CHARACTERS = 1 << 27
"""Maximum length of a cell, in characters; the default of the module `csv` is 131,072."""


@reader("tables", suffixes=(".csv", ".tsv", ".tab"))
def read_delimited(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Tables of values separated by commas, tabs, semicolons or pipes."""
    text, notes = decode_text(data)
    separator = _detect_separator(text)
    if separator == ",":
        try:
            render_table(text, separator)
        except TextError:
            pass
        else:
            return (FilePart(text, ".csv", notes=notes),)
    rows = _parse_rows(text, separator)
    uneven = len(rows) - max(Counter(map(len, rows)).values(), default=0)
    table = table_to_csv(rows)
    if table is None:
        raise TextError("has no rows below its header; remove the file")
    warning = (f"of {len(rows)} rows {uneven} have another number of cells than the others",) if uneven else ()
    return (FilePart(table[0], ".csv", notes=(*notes, *warning, *table[1])),)


def _parse_rows(text: str, separator: str) -> list[list[str]]:
    csv.field_size_limit(MAX_CELL_CHARACTERS)
    try:
        return list(csv.reader(io.StringIO(text, newline=""), delimiter=separator))
    except csv.Error as error:
        raise TextError(f"is not valid CSV ({error}); save it again from the original program") from None


def _detect_separator(text: str) -> str:
    """Return the separator that splits most of the first lines into the same number of cells; a comma by default."""
    lines = [line for line in text.split("\n")[:SAMPLED_LINES] if line.strip()]

    def score(separator: str) -> tuple[int, int]:
        rows = _parse_rows("\n".join(lines), separator) if lines else []
        counts = Counter(len(row) for row in rows if len(row) > 1)
        if not counts:
            return 0, 0
        width, agreeing = max(counts.items(), key=lambda item: (item[1], item[0]))
        return agreeing, width

    return max(SEPARATORS, key=score)


MAX_VALUE_CHARACTERS = 400
"""Maximum length of a value in a table, in characters; longer values and those with several lines are paragraphs."""

MAX_LINE_CHARACTERS = 2_000
"""Maximum length of a line of JSON, in characters; JSON with a longer line is indented."""

TITLE_KEYS = ("title", "name", "heading", "subject", "question", "id")
"""Keys of a record whose value may be the heading of its section, in order of precedence."""


@reader("JSON", suffixes=(".json",))
def read_json(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Records in JSON: a section for each record."""
    text, notes = decode_text(data)
    try:
        value = parse_json(text)
    except TextError as error:
        return (FilePart(text, ".json", notes=(*notes, f"was not converted: {error}")),)
    if isinstance(value, list) and len(value) > 1 and all(isinstance(record, dict) for record in value):
        return _convert_records(value, notes)
    if max(map(len, text.split("\n")), default=0) > MAX_LINE_CHARACTERS:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        notes = (*notes, "was written on one line, and is indented now")
    return (FilePart(text, ".json", notes=notes),)


@reader("JSON Lines", suffixes=(".jsonl", ".ndjson"))
def read_lines(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Records in JSON Lines: a section for each record."""
    text, notes = decode_text(data)
    return _convert_records([record for _, record in iter_records(text)], notes)


def _convert_records(records: Sequence[Mapping[str, object]], notes: tuple[str, ...]) -> tuple[FilePart, ...]:
    flat = [dict(_flatten(record)) for record in records]
    if any(_is_long(value) for record in flat for value in record.values()):
        return (FilePart("\n".join(_format_section(record, n) for n, record in enumerate(flat, start=1)), notes=notes),)
    columns = list(dict.fromkeys(key for record in flat for key in record))
    table = table_to_csv([columns, *([record.get(column, "") for column in columns] for record in flat)])
    if table is None:
        raise TextError("has no records with a value in them; remove the file")
    return (FilePart(table[0], ".csv", notes=(*notes, *table[1])),)


def _format_section(record: Mapping[str, str], number: int) -> str:
    """Return a record as a section: a heading, a line for each short value, a paragraph for each long one."""
    named = next((key for key in TITLE_KEYS if record.get(key) and not _is_long(record[key])), None)
    short = [f"{key}: {value}" for key, value in record.items() if value and key != named and not _is_long(value)]
    long = [value.strip() for value in record.values() if _is_long(value)]
    head = f"## {record[named]}" if named else f"## Record {number}"
    return "\n\n".join(block for block in (head, "\n".join(short), *long) if block) + "\n"


def _flatten(record: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of a record and of the objects in it, with dotted keys."""
    for key, value in record.items():
        name = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{name}.")
        elif isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
            yield name, ", ".join(map(_format_value, value))
        else:
            yield name, _format_value(value)


def _format_value(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str():
            return value
    return json.dumps(value, ensure_ascii=False)


def _is_long(value: str) -> bool:
    return len(value) > MAX_VALUE_CHARACTERS or "\n" in value.strip()
