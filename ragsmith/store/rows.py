"""Dataclasses of the rows of the store, and their checksums.

SQLite does not detect flipped bits in values, so every row has a checksum over the name of the table and all columns.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from sqlalchemy import BigInteger, Double, Table
from sqlalchemy.dialects import sqlite

from ragsmith.digest import MAX_NUMBER, to_canonical_json
from ragsmith.errors import WrongStore
from ragsmith.models.calls import Json

if TYPE_CHECKING:  # only imported for servers
    from sqlalchemy.dialects import postgresql

Value: TypeAlias = str | int | float | None
"""The value of a column."""

Insert: TypeAlias = "sqlite.Insert | postgresql.Insert"

N = TypeVar("N", int, float)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A data set with stored evaluations, and its latest name."""

    digest: str
    name: str
    value: Json


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """The configuration of a candidate that is evaluated on a data set; ``dataset`` is its digest."""

    key: str
    dataset: str
    configuration: Json


@dataclass(frozen=True, slots=True)
class ResultRow:
    """The result of a question of an evaluation; a stored row counts all ``attempts``, a new one only its own."""

    evaluation: str
    question: str
    state: Literal["ok", "failed"]
    value: Json
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """The latency of a pipeline for a question on a kind of machine; ``value`` is in seconds, or a failure."""

    evaluation: str
    machine: str
    question: str
    state: Literal["ok", "failed"]
    value: Json


@dataclass(frozen=True, slots=True)
class DiagnosisRow:
    """The diagnosis of a question of an evaluation."""

    evaluation: str
    question: str
    value: Json


@dataclass(frozen=True, slots=True)
class LookRow:
    """A use of test questions for a verdict.

    ``fresh`` is the number of questions not used before, and ``questions`` are the digests of all.
    """

    look: str
    number: int
    fresh: int
    day: str
    questions: Json


RunState: TypeAlias = Literal["running", "finished", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A search and its settings; times are ISO 8601 in UTC."""

    key: str
    dataset: str
    state: RunState
    value: Json
    started: str | None = None
    finished: str | None = None


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """The candidate at the 0-based ``position`` of a run, and the step of the strategy that proposed it."""

    position: int
    step: int
    genome: Json
    evaluation: str
    value: Json

    @property
    def fitness(self) -> float | None:
        """The fitness on the search questions; None if too many of them failed."""
        return cast("float | None", self.value["fitness"])

    @property
    def dropped(self) -> int | None:
        """The number of questions after which a race pruned the candidate, or None."""
        return cast("int | None", self.value.get("dropped"))


def newer_result(old: ResultRow | None, new: ResultRow) -> ResultRow | None:
    """Return the row that replaces ``old``, or None if ``old`` is an ok result, which is never replaced."""
    if old is None:
        return new
    return None if old.state == "ok" else replace(new, attempts=old.attempts + new.attempts)


def add_checksum(table: Table, row: Sequence[object]) -> dict[str, Value]:
    """Return the columns of ``row`` with its checksum, as they are stored.

    Raises:
        TypeError, ValueError: a value has no canonical JSON form.
    """
    values = [convert(value) for value, convert in zip(row, _converters(table, to_canonical_json), strict=True)]
    return dict(zip(_names(table), [*values, _checksum(table.name, values)], strict=True))


MAX_COUNT = 2**53
"""Maximum value of an integer column, up to which floats have no gaps."""


def _parse_integer(digits: str) -> int:
    if len(digits) > len(f"-{MAX_NUMBER:.0f}"):  # before the conversion, which takes quadratic time
        raise ValueError(f"an integer has {len(digits)} digits")
    return _check_size(int(digits))


def _parse_float(digits: str) -> float:
    return _check_size(float(digits))


def _check_size(number: N) -> N:
    if not -MAX_NUMBER <= number <= MAX_NUMBER:
        raise ValueError(f"{number} is too large")
    return number


_decode_json = json.JSONDecoder(parse_int=_parse_integer, parse_float=_parse_float, parse_constant=_parse_float).decode


def verify_checksum(table: Table, row: Sequence[Value]) -> list[Json] | None:
    """Return the decoded columns of a stored row, or None if the checksum or the type of a column is wrong."""
    *values, checksum = row
    try:
        if _checksum(table.name, values) != checksum:
            return None
        return [decode(value) for value, decode in zip(values, _converters(table, _decode_json), strict=True)]
    except (TypeError, ValueError, RecursionError):  # a flipped bit can turn text into bytes or a number into infinity
        return None


def row_label(table: Table, row: Sequence[object]) -> str:
    """Return ``table:key``, the label of a row in messages."""
    return f"{table.name}:{'/'.join(map(str, row[: len(table.primary_key)]))}"


def column_values(row: object) -> tuple[object, ...]:
    """Return the fields of a row dataclass in order."""
    row_type: Any = type(row)
    return tuple([getattr(row, name) for name in _fields(row_type)])


@cache
def _fields(row_type: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(row_type))


@cache
def upsert(table: Table, dialect: str, *, replacing: bool, final: tuple[str, str] | None = None) -> Insert:
    """Return an insert statement that keeps or replaces an existing row with the same key.

    A row whose column ``final[0]`` has the value ``final[1]`` is never replaced.
    """
    if dialect not in ("sqlite", "postgresql"):
        raise WrongStore(f"a {dialect} database cannot hold the cache: use a file or postgresql://")
    insert = _insert_into_server(table) if dialect == "postgresql" else sqlite.insert(table)
    key = list(table.primary_key)
    if not replacing:
        return insert.on_conflict_do_nothing(index_elements=key)
    others = {column.name: insert.excluded[column.name] for column in table.columns if not column.primary_key}
    where = None if final is None else table.columns[final[0]] != final[1]
    return insert.on_conflict_do_update(index_elements=key, set_=others, where=where)


def _insert_into_server(table: Table) -> postgresql.Insert:
    from sqlalchemy.dialects import postgresql  # noqa: PLC0415  as above

    return postgresql.insert(table)


def batches(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Yield consecutive slices of ``size`` items, as databases limit the number of parameters of a statement."""
    return (items[start : start + size] for start in range(0, len(items), size))


def _as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{value!r} is a {type(value).__name__}, and the column holds text")


def _as_count(value: Any) -> int:
    count = operator.index(value)
    if not 0 <= count <= MAX_COUNT:
        raise ValueError(f"{count} is no count from 0 to {MAX_COUNT}")
    return count


def _as_double(value: object) -> float:
    """Return a number as SQLite returns it: integers become floats, and -0.0 becomes 0.0."""
    if isinstance(value, float | int) and 0 <= value <= MAX_NUMBER:
        return value + 0.0
    raise ValueError(f"{value!r} is not a finite number from 0 up, and the column holds one")


def _checksum(table: str, values: Sequence[Value]) -> str:
    texts = [value if isinstance(value, str) else repr(value) for value in values]
    kinds = ",".join([f"{type(value).__name__}:{len(text)}" for value, text in zip(values, texts, strict=True)])
    whole = f"{table}/{kinds}/{''.join(texts)}"  # the prefix of types and lengths makes the text unique
    return blake2b(whole.encode(errors="surrogatepass"), digest_size=16).hexdigest()


@cache
def _names(table: Table) -> tuple[str, ...]:
    return tuple(table.columns.keys())


@cache
def _converters(table: Table, convert_json: Callable[[Any], Any]) -> tuple[Callable[[Any], Any], ...]:
    """Return the converter of each column except the checksum: ``convert_json``, or the check of its type."""
    kinds = {BigInteger: _as_count, Double: _as_double}
    return tuple(
        convert_json if "json" in column.info else kinds.get(type(column.type), _as_text)
        for column in list(table.columns)[:-1]
    )
