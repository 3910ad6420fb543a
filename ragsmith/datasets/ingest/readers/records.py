"""JSON and JSON Lines: records as a table, or as sections if they have long texts; other JSON is code."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from ragsmith.datasets.ingest.decoding import decode_text
from ragsmith.datasets.ingest.readers.grid import table
from ragsmith.datasets.ingest.readers.part import FilePart, reader
from ragsmith.text.files import TextError
from ragsmith.text.jsonl import parse_json, parse_record

LONG = 400
"""Most characters of a cell; longer values and those of several lines are texts."""

LONGEST_LINE = 2_000
"""JSON with a longer line is reformatted for readability."""

TITLES = ("title", "name", "heading", "subject", "question", "id")


@reader("JSON", suffixes=(".json",))
def read_json(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Records in JSON: a section each."""
    text, notes = decode_text(data)
    try:
        value = parse_json(text)
    except TextError as error:
        return (FilePart(text, ".json", notes=(*notes, f"is kept as it is: {error}")),)
    if isinstance(value, list) and len(value) > 1 and all(isinstance(record, dict) for record in value):
        return _records(value, notes)
    if max(map(len, text.split("\n")), default=0) > LONGEST_LINE:
        text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
        notes = (*notes, "was written on one line, and is indented now")
    return (FilePart(text, ".json", notes=notes),)


@reader("JSON Lines", suffixes=(".jsonl", ".ndjson"))
def read_lines(data: bytes, name: str) -> tuple[FilePart, ...]:
    """Records in JSON Lines: a section each."""
    text, notes = decode_text(data)
    records: list[Mapping[str, object]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        try:
            records.extend([parse_record(line)] if line.strip() else [])
        except TextError as error:
            raise TextError(error.reason, number) from None
    return _records(records, notes)


def _records(records: Sequence[Mapping[str, object]], notes: tuple[str, ...]) -> tuple[FilePart, ...]:
    flat = [dict(_flattened(record)) for record in records]
    if any(_is_long(value) for record in flat for value in record.values()):
        return (FilePart("\n".join(_section(record, n) for n, record in enumerate(flat, start=1)), notes=notes),)
    columns = list(dict.fromkeys(key for record in flat for key in record))
    made = table([columns, *([record.get(column, "") for column in columns] for record in flat)])
    if made is None:
        raise TextError("has no records with a value in them; remove the file")
    return (FilePart(made[0], ".csv", notes=(*notes, *made[1])),)


def _section(record: Mapping[str, str], number: int) -> str:
    """Return a record as a section: a heading, a line for each short value, a paragraph for each long one."""
    named = next((key for key in TITLES if record.get(key) and not _is_long(record[key])), None)
    short = [f"{key}: {value}" for key, value in record.items() if value and key != named and not _is_long(value)]
    long = [value.strip() for value in record.values() if _is_long(value)]
    head = f"## {record[named]}" if named else f"## Record {number}"
    return "\n\n".join(block for block in (head, "\n".join(short), *long) if block) + "\n"


def _flattened(record: Mapping[str, object], above: str = "") -> Iterator[tuple[str, str]]:
    for key, value in record.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _flattened(value, f"{name}.")
        elif isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
            yield name, ", ".join(map(_written, value))
        else:
            yield name, _written(value)


def _written(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case str():
            return value
    return json.dumps(value, ensure_ascii=False)


def _is_long(value: str) -> bool:
    return len(value) > LONG or "\n" in value.strip()
