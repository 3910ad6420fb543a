"""The rows of the store: their dataclasses, and the checksum that each one has on disk.

SQLite does not detect a flipped bit in a value, so a row counts only if its checksum, over the name of the table and
every column, is right.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast

from sqlalchemy import BigInteger, Double, Table
from sqlalchemy.dialects import sqlite

from ragsmith.digest import canonical
from ragsmith.errors import WrongStore
from ragsmith.models.calls import Json

if TYPE_CHECKING:  # imported for a server only, as most caches are files
    from sqlalchemy.dialects import postgresql

Value: TypeAlias = str | int | float | None
"""The value of a column."""

Insert: TypeAlias = "sqlite.Insert | postgresql.Insert"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A data set that was evaluated on, with its last name."""

    digest: str
    name: str
    value: Json


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """One candidate on one data set (by its digest)."""

    key: str
    dataset: str
    configuration: Json


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One question of an evaluation. ``attempts`` counts this one and, once stored, all before it."""

    evaluation: str
    question: str
    state: Literal["ok", "failed"]
    value: Json
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """The latency of a pipeline for a question on one kind of machine: ``value`` is in seconds, or a failure."""

    evaluation: str
    machine: str
    question: str
    state: Literal["ok", "failed"]
    value: Json


@dataclass(frozen=True, slots=True)
class DiagnosisRow:
    """The diagnosis of one question of an evaluation."""

    evaluation: str
    question: str
    value: Json


@dataclass(frozen=True, slots=True)
class LookRow:
    """A use of test questions: its number, how many were not used before, the day, and the digests of all."""

    look: str
    number: int
    fresh: int
    day: str
    questions: Json


RunState: TypeAlias = Literal["running", "finished", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A search and its settings. Times are text, by convention ISO 8601 in UTC."""

    key: str
    dataset: str
    state: RunState
    value: Json
    started: str | None = None
    finished: str | None = None


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """The candidate at ``position`` (0-based) of a run, and the step of the strategy that proposed it."""

    position: int
    step: int
    genome: Json
    evaluation: str
    value: Json

    @property
    def fitness(self) -> float | None:
        """The fitness on the search questions; None where it failed on too many of them."""
        return cast("float | None", self.value["fitness"])

    @property
    def dropped(self) -> int | None:
        """The number of questions after which it was pruned in a race; None where it was not."""
        return cast("int | None", self.value.get("dropped"))


def newer_result(old: ResultRow | None, new: ResultRow) -> ResultRow | None:
    """The row to store for ``new`` where ``old`` is stored; None where the old one stays, as an ok result does."""
    if old is None:
        return new
    if old.state == "ok":
        return None
    return replace(new, attempts=old.attempts + new.attempts)


def add_checksum(table: Table, row: Sequence[object]) -> dict[str, Value]:
    """The columns of ``row``, in the order of the table, ready to be written.

    Raises TypeError or ValueError, naming the place, for a value that has no canonical JSON form.
    """
    values = [convert(value) for value, convert in zip(row, _converters(table), strict=True)]
    return dict(zip(_names(table), [*values, _checksum(table.name, values)], strict=True))


def verify_checksum(table: Table, row: Sequence[Value]) -> list[Json] | None:
    """The decoded columns of a row as read; None where the checksum is wrong."""
    *values, checksum = row
    try:
        if _checksum(table.name, values) != checksum:
            return None
    except (TypeError, ValueError):  # a flipped bit can turn text into bytes or a number into infinity
        return None
    return [
        json.loads(value) if as_json else value  # type: ignore[arg-type]
        for value, as_json in zip(values, _json_columns(table), strict=True)
    ]


def row_label(table: Table, row: Sequence[object]) -> str:
    """``table:key``, the name of a row in messages."""
    return f"{table.name}:{'/'.join(map(str, row[: len(table.primary_key)]))}"


def columns_of(row: object) -> tuple[object, ...]:
    """The fields of a row dataclass, in their order."""
    kind: Any = type(row)
    return tuple([getattr(row, name) for name in _fields(kind)])


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def upsert(table: Table, dialect: str, *, replacing: bool, final: tuple[str, str] | None = None) -> Insert:
    """An insert that keeps a row under the same key, or replaces it.

    ``final`` is a column and a value; a row with that is never replaced.
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
    """Consecutive slices: databases limit the parameters of a statement."""
    return (items[start : start + size] for start in range(0, len(items), size))


def _as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{value!r} is a {type(value).__name__}, and the column holds text")


def _as_double(value: object) -> float:
    """The float as SQLite returns it: integers become floats, and -0.0 becomes 0.0."""
    if isinstance(value, float | int) and math.isfinite(value):
        return value + 0.0
    raise ValueError(f"{value!r} is not a finite number, and the column holds one")


def _checksum(table: str, values: Sequence[Value]) -> str:
    texts = [value if isinstance(value, str) else repr(value) for value in values]
    kinds = ",".join([f"{type(value).__name__}:{len(text)}" for value, text in zip(values, texts, strict=True)])
    whole = f"{table}/{kinds}/{''.join(texts)}"  # with types and lengths in front, no two rows have the same text
    return blake2b(whole.encode(errors="surrogatepass"), digest_size=16).hexdigest()


@cache
def _names(table: Table) -> tuple[str, ...]:
    return tuple(table.columns.keys())


@cache
def _json_columns(table: Table) -> tuple[bool, ...]:
    """For every column but the checksum: whether it is JSON."""
    return tuple("json" in column.info for column in table.columns)[:-1]


@cache
def _converters(table: Table) -> tuple[Callable[[Any], Value], ...]:
    """For every column but the checksum: the conversion of a Python value to the stored one."""
    kinds = {BigInteger: operator.index, Double: _as_double}
    return tuple(
        canonical if as_json else kinds.get(type(column.type), _as_text)
        for column, as_json in zip(table.columns, _json_columns(table), strict=False)
    )
