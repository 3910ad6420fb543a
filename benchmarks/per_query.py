"""Measures by question, as a study hands them over: a file with a line for each question and system.

A JSONL line is ``{"query": "q1", "system": "full", "split": "test", "ndcg_10": 0.63, "success_10": 1}``; in a CSV file
the same names head the columns. What is not one of the first three is a measure. An empty cell, a null or a key that is
not there says that the question has no such value: never 0.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.files import TextError
from ragsmith.text.jsonl import Record, name_type, parse_record, text_problems

COLUMNS = ("query", "system", "split")
SPLITS = ("dev", "test")

MOST_MISTAKES = 20
"""Mistakes that are listed; of more their number is said."""

Line = tuple[int, Record]


@dataclass(frozen=True)
class PerQuery:
    """A value for each measure, system, split and question: ``values[system, split][measure][question]``.

    ``measures`` are in the order in which they first stand.
    """

    values: Mapping[tuple[str, str], Mapping[str, Mapping[str, float]]]
    measures: tuple[str, ...]

    @property
    def systems(self) -> tuple[str, ...]:
        """Their names, in the order in which they first stand."""
        return tuple(dict.fromkeys(system for system, _ in self.values))

    def of(self, system: str, split: str, measure: str) -> Mapping[str, float]:
        """What the questions of a split have, by question; empty where there is nothing."""
        return self.values.get((system, split), {}).get(measure, {})


def read_per_query(path: str | Path) -> PerQuery:
    """Read a ``.csv`` or ``.jsonl`` file.

    Raises:
        UsageError: there is no such file, or it is of another kind.
        DatasetError: it is wrong; every mistake is listed with its line.
    """
    path = Path(path)
    reader = {".csv": _csv_lines, ".jsonl": _jsonl_lines}.get(path.suffix.lower())
    if reader is None:
        raise UsageError(f"{path}: numbers by question are read from a .csv or a .jsonl file")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 (byte {error.start}); save it as that") from None
    mistakes: list[str] = []
    found = _collected(reader(text, mistakes), mistakes)
    if not mistakes and not found.measures:
        mistakes.append(f"it has no values: give a line for each question with {', '.join(COLUMNS)} and measures")
    if mistakes:
        rest = len(mistakes) - MOST_MISTAKES
        shown = [*mistakes[:MOST_MISTAKES], *([f"and {rest:,} more mistakes"] if rest > 0 else [])]
        raise DatasetError([f"{path}: {mistake}" for mistake in shown])
    return found


def _jsonl_lines(text: str, mistakes: list[str]) -> Iterator[Line]:
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, parse_record(line)
        except TextError as error:
            mistakes.append(f"line {number}: {error.reason}")


def _csv_lines(text: str, mistakes: list[str]) -> Iterator[Line]:
    rows = csv.reader(text.splitlines(keepends=True))
    head = [name.strip() for name in next(rows, [])]
    missing = [name for name in COLUMNS if name not in head]
    twice = sorted({name for name in head if head.count(name) > 1})
    mistakes += [f"line 1: there is no column {name!r}" for name in missing]
    mistakes += [f"line 1: the column {name!r} is there twice" for name in twice]
    if missing or twice:
        return
    for cells in rows:
        if not any(cells):
            continue
        if len(cells) != len(head):
            mistakes.append(f"line {rows.line_num}: has {len(cells)} cells, and the head has {len(head)}")
            continue
        yield rows.line_num, {name: _cell(name, cell) for name, cell in zip(head, cells, strict=True)}


def _cell(name: str, cell: str) -> object:
    """A cell as JSON has it: a number where a measure is one, and nothing where it is empty."""
    if name in COLUMNS:
        return cell
    if not cell.strip():
        return None
    try:
        return float(cell)
    except ValueError:
        return cell


def _collected(lines: Iterable[Line], mistakes: list[str]) -> PerQuery:
    values: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    measures: dict[str, None] = {}
    seen: dict[tuple[str, str, str], int] = {}
    for number, record in lines:
        problems = list(_problems(record))
        if not problems:
            query, system, split = (str(record[name]) for name in COLUMNS)
            if (first := seen.setdefault((query, system, split), number)) != number:
                problems.append(f"{query} of {system} on {split} stands in line {first} already")
        mistakes += [f"line {number}: {problem}" for problem in problems]
        if problems:
            continue
        for name, value in record.items():
            if name not in COLUMNS:
                measures[name] = None
                if value is not None:
                    values.setdefault((system, split), {}).setdefault(name, {})[query] = float(str(value))
    return PerQuery(values, tuple(measures))


def _problems(record: Record) -> Iterator[str]:
    yield from (f"{name!r} is missing" for name in COLUMNS if name not in record)
    yield from text_problems(record, COLUMNS)
    if isinstance(split := record.get("split"), str) and split.strip() and split not in SPLITS:
        yield f"the split is {split!r}: it is {' or '.join(SPLITS)}"
    for name, value in record.items():
        if name in COLUMNS or value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            said = repr(value) if isinstance(value, str) else name_type(value)
            yield f"{name!r} is {said}: a measure is a number, or nothing"
        elif not math.isfinite(value):
            yield f"{name!r} is {value}: a measure is a finite number, or nothing"
