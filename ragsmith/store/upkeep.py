"""Looking after the store: how much is in it, what is damaged, what may go."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypedDict

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Delete,
    LargeBinary,
    Table,
    cast,
    delete,
    func,
    literal,
    select,
)

from ragsmith.store.database import Database
from ragsmith.store.rows import label, unseal
from ragsmith.store.schema import DATASET, EVALUATION, FIT, MODEL_CALL, PROPOSAL, RESULT, RUN, TABLES


class TableSize(TypedDict):
    """How much a table holds; ``bytes`` of JSON, without keys and indexes."""

    rows: int
    bytes: int


class Statistics(TypedDict):
    """How much the store holds; ``file_bytes`` is None for a server, ``damaged`` only what was met so far."""

    tables: dict[str, TableSize]
    file_bytes: int | None
    damaged: list[str]


def statistics(database: Database) -> Statistics:
    """Count everything in one consistent view."""
    with database.reading() as connection:
        tables = {table.name: _size(connection, table) for table in TABLES}
    return {"tables": tables, "file_bytes": database.file_bytes(), "damaged": list(database.damaged)}


def damaged_rows(database: Database) -> list[str]:
    """Read every row and return ``table:key`` of those that are not what was written."""
    found = []
    with database.reading() as connection:
        for table in TABLES:
            for row in connection.execution_options(yield_per=1000).execute(select(table)):
                if unseal(table, tuple(row)) is None:
                    found.append(label(table, tuple(row)))
    database.damaged.update(dict.fromkeys(found))
    return found


def delete_others(
    database: Database, keep_datasets: Collection[str] | None, keep_models: Collection[str] | None
) -> dict[str, int]:
    """Delete what belongs to other data sets and other models; how many rows went, by table."""
    with database.writing() as connection:
        deleted = {
            table.name: connection.execute(statement).rowcount
            for table, statement in _deletions(keep_datasets, keep_models)
        }
    database.compact()
    return deleted


def _deletions(
    keep_datasets: Collection[str] | None, keep_models: Collection[str] | None
) -> list[tuple[Table, Delete]]:
    """What hangs on a row goes before the row."""
    statements: list[tuple[Table, Delete]] = []
    if keep_datasets is not None:
        evaluations = select(EVALUATION.c.key).where(_other(EVALUATION.c.dataset, keep_datasets))
        runs = select(RUN.c.key).where(_other(RUN.c.dataset, keep_datasets))
        statements += [
            (RESULT, delete(RESULT).where(RESULT.c.evaluation.in_(evaluations))),
            (PROPOSAL, delete(PROPOSAL).where(PROPOSAL.c.run.in_(runs))),
            (FIT, delete(FIT).where(_other(FIT.c.dataset, keep_datasets))),
            (EVALUATION, delete(EVALUATION).where(_other(EVALUATION.c.dataset, keep_datasets))),
            (RUN, delete(RUN).where(_other(RUN.c.dataset, keep_datasets))),
            (DATASET, delete(DATASET).where(_other(DATASET.c.digest, keep_datasets))),
        ]
    if keep_models is not None:
        statements.append((MODEL_CALL, delete(MODEL_CALL).where(_other(MODEL_CALL.c.model, keep_models))))
    return statements


def _other(column: Column[Any], keep: Collection[str]) -> ColumnElement[bool]:
    return column.not_in(sorted(keep))


def _size(connection: Connection, table: Table) -> TableSize:
    sqlite = connection.dialect.name == "sqlite"  # octet_length is too new there, and length counts characters
    texts = [column for column in table.columns if "json" in column.info]
    lengths = [func.length(cast(text, LargeBinary)) if sqlite else func.octet_length(text) for text in texts]
    size = func.coalesce(func.sum(sum(lengths[1:], lengths[0])), 0) if lengths else literal(0)
    rows, size_in_bytes = connection.execute(select(func.count(), size).select_from(table)).one()
    return {"rows": int(rows), "bytes": int(size_in_bytes)}
