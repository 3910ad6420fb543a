"""Maintenance of the store: table sizes and damaged rows."""

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any, TypedDict

from sqlalchemy import (
    Connection,
    LargeBinary,
    Table,
    cast,
    func,
    literal,
    select,
)

from ragsmith.store.database import Database
from ragsmith.store.rows import row_label
from ragsmith.store.schema import DATASET, EVALUATION, MODEL_CALL, RUN, TABLES, VECTOR_TASKS


class TableSize(TypedDict):
    """The number of rows of a table and the size of its JSON columns in bytes."""

    rows: int
    bytes: int


class Statistics(TypedDict):
    """The size of the store; ``file_bytes`` is None for a server, ``damaged`` has the damaged rows read so far."""

    tables: dict[str, TableSize]
    file_bytes: int | None
    damaged: list[str]


def statistics(database: Database) -> Statistics:
    """Return the size of every table, in a consistent snapshot."""
    with database.reading() as connection:
        tables = {table.name: _size(connection, table) for table in TABLES}
    return {"tables": tables, "file_bytes": database.file_bytes(), "damaged": list(database.damaged)}


@dataclass(frozen=True, slots=True)
class Damage:
    """A damaged row: its label ``table:key``, its description ``what``, and ``cost``, the consequence of its loss."""

    row: str
    what: str
    cost: str


ROW_DESCRIPTIONS = {
    "model_call": "reply of {model} to {task}",
    "dataset": "data set {name}",
    "evaluation": "description of evaluation {key} on data set {dataset}",
    "result": "question {question} of evaluation {evaluation} on data set {dataset}",
    "run": "record of run {key} on data set {dataset}",
    "proposal": "candidate {position} of run {run} on data set {dataset}",
    "fit": "numbers that techniques learned on data set {dataset}",
    "spending": "spending of run {run}",
    "latency": "latency of evaluation {evaluation} for question {question}",
    "finding": "{kind} on data set {dataset}",
    "diagnosis": "diagnosis of question {question} of evaluation {evaluation}",
    "look": "look number {number} at test questions, of {day}",
    "looked": "a look at a test question",
    "traits": "capabilities of the model {model}",
    "failed_call": "failure of a request to {model}",
    "claim": "claim on a call that is being made",
    "lease": "a process that makes calls",
}
"""Templates of row descriptions by table; ``dataset`` is the name of the data set."""

LOSS_CONSEQUENCES = {
    "model_call": "requested again where it is needed: {calls:.0f} calls, {tokens:,.0f} tokens",
    "dataset": "no report on it before the next search on it",
    "evaluation": "missing in reports, and not to be exported, before the same search runs again",
    "result": "computed again by the same search",
    "run": "no report of it before the same search runs again",
    "proposal": "missing in reports before the same search runs again",
    "fit": "learned again where it is needed",
    "spending": "that run requires confirmation before it sends further requests",
    "latency": "measured again by the same search, which may then propose other pipelines",
    "finding": "not shown before the same command computes it again",
    "diagnosis": "missing in reports before the same search runs again",
    "look": "given a new number when it is repeated",
    "looked": "counted only in the ledger of the user, not here",
    "traits": "learned again with the next requests",
    "failed_call": "requested once more where it is needed",
}
"""Consequences of the loss of a row by table; none for other tables."""

MAX_CHARACTERS = 60
"""Maximum number of characters of a column in a description."""


def damaged_rows(database: Database) -> list[Damage]:
    """Read every row and return the damaged ones."""
    damaged: list[tuple[Table, tuple[Any, ...]]] = []
    datasets: dict[str, str] = {}
    totals = Counter[str]()
    lengths: dict[str, Counter[int]] = defaultdict(Counter)
    vectors: list[tuple[str, int, tuple[Any, ...]]] = []
    with database.reading() as connection:
        for table in TABLES:
            for row in map(tuple, connection.execution_options(yield_per=1000).execute(select(table))):
                if database.intact(table, row) is None:
                    damaged.append((table, row))
                elif table is MODEL_CALL:
                    totals.update(rows=1, calls=row[4], tokens=row[5] + row[6])
                    if row[2] in VECTOR_TASKS and row[3].startswith('"'):
                        lengths[row[1]][len(row[3])] += 1
                        vectors.append((row[1], len(row[3]), row[:4]))
                elif table in (DATASET, EVALUATION, RUN):
                    datasets[row[0]] = str(row[1])
    damaged += [(MODEL_CALL, row) for model, length, row in vectors if length != lengths[model].most_common(1)[0][0]]
    mean = {name: totals[name] / max(1, totals["rows"]) for name in ("calls", "tokens")}
    damage = [_describe_damage(table, row, datasets, mean) for table, row in damaged]
    database.damaged.update(dict.fromkeys(row.row for row in damage))
    return damage


def _describe_damage(table: Table, row: tuple[Any, ...], datasets: dict[str, str], mean: dict[str, float]) -> Damage:
    columns = dict(zip(table.columns.keys(), row, strict=False))
    owner = next((columns[name] for name in ("evaluation", "run", "key") if name in columns), "")
    digest = str(columns.get("dataset") or datasets.get(str(owner), ""))
    columns["dataset"] = datasets.get(digest, digest or "unknown")
    shown = {name: str(value)[:MAX_CHARACTERS] for name, value in columns.items()}
    what = ROW_DESCRIPTIONS.get(table.name, "a row of {table}").format(**{"table": table.name, **shown})
    return Damage(row_label(table, row), what, LOSS_CONSEQUENCES.get(table.name, "nothing").format(**mean))


def _size(connection: Connection, table: Table) -> TableSize:
    sqlite = connection.dialect.name == "sqlite"  # old versions lack octet_length, and length counts characters
    texts = [column for column in table.columns if "json" in column.info]
    lengths = [func.length(cast(text, LargeBinary)) if sqlite else func.octet_length(text) for text in texts]
    size = func.coalesce(func.sum(sum(lengths[1:], lengths[0])), 0) if lengths else literal(0)
    rows, size_in_bytes = connection.execute(select(func.count(), size).select_from(table)).one()
    return {"rows": int(rows), "bytes": int(size_in_bytes)}
