"""The rows of the store: what callers see of them, and the checksum that each one carries on disk.

SQLite does not notice a flipped bit in a value, so a row is believed only when its checksum, over the name of the
table and every column, agrees.
"""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

from sqlalchemy import BigInteger, Double, Table
from sqlalchemy.dialects import sqlite

from ragsmith.digest import canonical
from ragsmith.errors import WrongStore
from ragsmith.models.calls import Json

if TYPE_CHECKING:  # most caches are files: the dialect of a server is imported where there is one
    from sqlalchemy.dialects import postgresql

Value: TypeAlias = str | int | float | None
"""What a column holds."""

Insert: TypeAlias = "sqlite.Insert | postgresql.Insert"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A data set that was evaluated on; the last name it was given."""

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
    """One question of an evaluation. ``attempts`` counts this one, and once stored all that led to it."""

    evaluation: str
    question: str
    state: Literal["ok", "failed"]
    value: Json
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """How long a pipeline takes for a question on one kind of machine: ``value`` is in seconds, or says what failed."""

    evaluation: str
    machine: str
    question: str
    state: Literal["ok", "failed"]
    value: Json


@dataclass(frozen=True, slots=True)
class DiagnosisRow:
    """Why one question of an evaluation went as it did."""

    evaluation: str
    question: str
    value: Json


@dataclass(frozen=True, slots=True)
class LookRow:
    """A look at test questions: its number, how many of them nobody had looked at, the day, and their digests."""

    look: str
    number: int
    fresh: int
    day: str
    questions: Json


RunState: TypeAlias = Literal["running", "finished", "interrupted", "failed"]


@dataclass(frozen=True, slots=True)
class RunRow:
    """A search as it was asked for. Times are whatever text the caller passed, by custom
    ISO 8601 in UTC."""

    key: str
    dataset: str
    state: RunState
    value: Json
    started: str | None = None
    finished: str | None = None


@dataclass(frozen=True, slots=True)
class ProposalRow:
    """The candidate at ``position`` (0-based) of a run, and the step of the strategy that asked for it."""

    position: int
    step: int
    genome: Json
    evaluation: str
    value: Json

    @property
    def fitness(self) -> float | None:
        """What it is ranked by on the search questions; None where it failed on more of them than it may."""
        found: float | None = self.value["fitness"]
        return found

    @property
    def dropped(self) -> int | None:
        """After how many questions it dropped out of a race; None where it did not."""
        found: int | None = self.value.get("dropped")
        return found


def newer_result(old: ResultRow | None, new: ResultRow) -> ResultRow | None:
    """What to store when ``new`` meets ``old``; None keeps the old row: a result that is there is never undone."""
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
    """The columns of a row as read, checked and decoded; None when it is not what was written."""
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
    """``table:key``, how a row is named to people."""
    return f"{table.name}:{'/'.join(map(str, row[: len(table.primary_key)]))}"


def columns_of(row: object) -> tuple[object, ...]:
    """The fields of a row dataclass, in order and not copied."""
    kind: Any = type(row)
    return tuple([getattr(row, name) for name in _fields(kind)])


@cache
def _fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def upsert(table: Table, dialect: str, *, replacing: bool, final: tuple[str, str] | None = None) -> Insert:
    """An insert that keeps the row already under that key, or replaces it.

    ``final`` is a column and the value that makes a row immune against being replaced.
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
    """Consecutive slices: databases bound the number of parameters of a statement."""
    return (items[start : start + size] for start in range(0, len(items), size))


def _as_text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    raise TypeError(f"{value!r} is a {type(value).__name__}, and the column holds text")


def _as_double(value: object) -> float:
    """The float as SQLite gives it back: whole numbers become floats, and -0.0 becomes 0.0."""
    if isinstance(value, float | int) and math.isfinite(value):
        return value + 0.0
    raise ValueError(f"{value!r} is not a finite number, and the column holds one")


def _checksum(table: str, values: Sequence[Value]) -> str:
    texts = [value if isinstance(value, str) else repr(value) for value in values]
    kinds = ",".join([f"{type(value).__name__}:{len(text)}" for value, text in zip(values, texts, strict=True)])
    whole = f"{table}/{kinds}/{''.join(texts)}"  # with kinds and lengths in front, no two rows read alike
    return blake2b(whole.encode(errors="surrogatepass"), digest_size=16).hexdigest()


@cache
def _names(table: Table) -> tuple[str, ...]:
    return tuple(table.columns.keys())


@cache
def _json_columns(table: Table) -> tuple[bool, ...]:
    """For every column but the checksum: does it hold JSON."""
    return tuple("json" in column.info for column in table.columns)[:-1]


@cache
def _converters(table: Table) -> tuple[Callable[[Any], Value], ...]:
    """For every column but the checksum: from a Python value to what is stored."""
    kinds = {BigInteger: operator.index, Double: _as_double}
    return tuple(
        canonical if as_json else kinds.get(type(column.type), _as_text)
        for column, as_json in zip(table.columns, _json_columns(table), strict=False)
    )
