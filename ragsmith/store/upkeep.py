"""Looking after the store: how much is in it, what is damaged, what may go."""

from __future__ import annotations

from typing import TypedDict

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
from ragsmith.store.rows import label, unseal
from ragsmith.store.schema import TABLES


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


def _size(connection: Connection, table: Table) -> TableSize:
    sqlite = connection.dialect.name == "sqlite"  # octet_length is too new there, and length counts characters
    texts = [column for column in table.columns if "json" in column.info]
    lengths = [func.length(cast(text, LargeBinary)) if sqlite else func.octet_length(text) for text in texts]
    size = func.coalesce(func.sum(sum(lengths[1:], lengths[0])), 0) if lengths else literal(0)
    rows, size_in_bytes = connection.execute(select(func.count(), size).select_from(table)).one()
    return {"rows": int(rows), "bytes": int(size_in_bytes)}
