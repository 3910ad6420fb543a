"""Strict parsing of JSON and JSON Lines, and checks of fields."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ragsmith.text.files import FORBIDDEN, TextError, name_character, read_text, shorten
from ragsmith.text.strict_yaml import unknown_key_message

Record = Mapping[str, object]


def parse_json(text: str) -> object:
    """Parse JSON.

    Raises ``TextError``: with its line for malformed JSON; without one for duplicate keys, NaN and infinities, numbers
    of thousands of digits and excessive nesting.
    """
    try:
        return json.loads(text, object_pairs_hook=_reject_duplicates, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        what = error.msg.removesuffix(" at")
        raise TextError(f"not valid JSON: {what} at column {error.colno}; mend it", error.lineno) from None
    except RecursionError:
        raise TextError("the JSON is nested too deeply; flatten it") from None
    except ValueError:
        raise TextError("not valid JSON: a number has too many digits; shorten it") from None


def parse_record(line: str) -> dict[str, object]:
    """Parse a JSON object; raises ``TextError`` for other values and as `parse_json` does."""
    record = parse_json(line)
    if not isinstance(record, dict):
        raise TextError(f"expected a JSON object, found {name_type(record)}; write {{...}}")
    return record


def iter_records(text: str) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield the 1-based number and the object of each line that is not blank; raises ``TextError`` with the line."""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                yield number, parse_record(line)
            except TextError as error:
                raise TextError(error.reason, number) from None


@dataclass(frozen=True, slots=True)
class JsonLines:
    """The ``text`` of a file, its objects by 1-based line number, and a message for each invalid line."""

    text: str
    records: Mapping[int, dict[str, object]]
    mistakes: Mapping[int, str]


def read_json_lines(path: Path, limit: int) -> JsonLines:
    """Read a file of at most ``limit`` bytes; a missing file is empty.

    A problem with the whole file is a mistake of line 0.
    """
    if not path.exists() and not path.is_symlink():
        return JsonLines("", {}, {})
    try:
        text = read_text(path, limit=limit)
    except TextError as error:
        return JsonLines("", {}, {0: error.at(path.name)})
    return parse_json_lines(text, path.name)


def parse_json_lines(text: str, name: str) -> JsonLines:
    """Parse the text of the file ``name``; lines that are blank are left out."""
    records: dict[int, dict[str, object]] = {}
    mistakes: dict[int, str] = {}
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            try:
                records[number] = parse_record(line)
            except TextError as error:
                mistakes[number] = f"{name}:{number}: {error.reason}"
    return JsonLines(text, records, mistakes)


def json_lines(records: Iterable[Record]) -> str:
    """Serialise ``records`` as JSON Lines."""
    return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in records)


def key_problems(record: Record, *, required: Sequence[str], optional: Sequence[str] = ()) -> Iterator[str]:
    """Yield a message for each missing and each unknown key."""
    known = (*required, *optional)
    yield from (f"the key {key!r} is missing; add it" for key in required if key not in record)
    yield from (unknown_key_message(key, known) for key in record if key not in known)


def text_problems(record: Record, keys: Sequence[str]) -> Iterator[str]:
    """Yield a message for each of ``keys`` that has a value other than text with a visible character."""
    for key in keys:
        if key not in record:
            continue
        value = record[key]
        if not isinstance(value, str):
            yield f"{key!r} must be text, not {name_type(value)}"
        elif not value.strip():
            yield f"{key!r} is blank; write it"
        elif found := FORBIDDEN.search(value):
            yield f"{key!r} has a {name_character(found.group())}; remove it"


def name_type(value: object) -> str:
    """Return the name of the JSON type of a value, with its article."""
    names = {
        str: "a text",
        bool: "a boolean",
        int: "an integer",
        float: "a fraction",
        list: "a list",
        dict: "an object",
    }
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")


def _reject_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    record: dict[str, object] = {}
    for key, value in pairs:
        if key in record:
            raise TextError(f"the key {shorten(key)} is given twice; keep one of them")
        record[key] = value
    return record


def _reject_constant(name: str) -> object:
    raise TextError(f"not valid JSON: {name} is not a number; write a finite one")
