"""Vectors in PostgreSQL with its extension pgvector, by the URL of a database.

A table is named by the digest of texts and embedder and reused if it is complete. The server compares every vector in
single precision, and its results are rescored (`rescoring`), so that they equal exact search, including ties. No
approximate index is created, as it would miss entries.
"""

from __future__ import annotations

import re
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import MissingExtra, ModelUnavailable, UsageError
from ragsmith.extensions import Package
from ragsmith.index.rescoring import FetchedKeys, ServedVectors, fill_collection, get_connection
from ragsmith.index.vector_store import Keys, MakeVectors, Positions
from ragsmith.models.vector_stores import vector_store

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

PASSWORD_VARIABLE = "PGPASSWORD"
"""Environment variable with the password of a PostgreSQL server."""
BATCH_ROWS = 4_096
"""Number of rows per COPY."""
CONNECTION_DEFAULTS: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""Default connection options, with which an unreachable server is detected within a minute."""
_DISCONNECTED_PREFIX = "57P"
"""Prefix of the error codes of a connection ended by the server."""
_NO_CONNECTION_LEFT = re.compile(r"too many (clients|connections)|connection slots")
"""Messages of a server at its connection limit; a failed connection has no error code."""
_ERROR_MESSAGES = {
    "42501": "denies this user the operation: grant CREATE and USAGE on the schema, or name another user",
    "42P01": "no longer has the table of these vectors: run the same command again to fill it",
    "53100": "has a full disk: free space there, and run the same command again to continue",
    "53300": "has no connection left, and every worker process needs one: use fewer, or raise its max_connections",
}
"""Explanations and remedies by error code."""
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_TRAILER = b"\xff\xff"

T = TypeVar("T")


class DatabaseConnection:
    """The connection of this process to a database, opened with the first query and reopened when lost."""

    def __init__(self, url: str) -> None:
        _import_psycopg()
        self.url = url
        self._turn = threading.RLock()
        self._connection: Connection | None = None

    def ask(self, query: Callable[[Cursor], T]) -> T:
        """Return the result of ``query``, which is retried once if the connection is lost."""
        with self._turn, _translate_errors():
            connection = self._connected()
            try:
                with connection.cursor() as cursor:
                    return query(cursor)
            except _import_psycopg().OperationalError as error:
                if not (connection.closed or (error.sqlstate or "").startswith(_DISCONNECTED_PREFIX)):
                    raise
            connection.close()
            with self._connected().cursor() as cursor:
                return query(cursor)

    def _connected(self) -> Connection:
        if self._connection is None or self._connection.closed:
            self._connection = _connect(self.url)
            weakref.finalize(self, self._connection.close)
        return self._connection


class PostgresVectors(ServedVectors[DatabaseConnection]):
    """A table with the vectors of ``keys``; ``make`` is only called for missing ones.

    ``url`` is ``postgresql://user@host:port/database``; the password is read from ``PGPASSWORD``, or as PostgreSQL's
    own clients do. All tables of a database share one connection per process, which its threads use in turn; missing
    vectors are inserted by a separate connection. Without ``make``, in a copy of the store for another process, the
    table is assumed to be complete, and nothing is queried before the first search.
    """

    def __init__(self, url: str, keys: Keys, make: MakeVectors | None) -> None:
        super().__init__(keys, get_connection(url, lambda: DatabaseConnection(url)))
        self._url = url
        if make is not None and keys.count and self.connection.ask(self._count) != keys.count:
            self._complete(make)

    def fetch(self, queries: NDArray[np.floating], limit: int, among: Positions | None = None) -> list[FetchedKeys]:
        """See `ServedVectors.fetch`."""
        # ordering by an expression that no index has compares all vectors
        where = "" if among is None else " WHERE id = ANY(%s)"
        compared = f"SELECT id, vector, (vector <#> %s::vector) + 0 AS near FROM {{}}{where}"
        nearest = self._sql(
            f"SELECT id, near, vector_send(vector) FROM ({compared}) AS compared ORDER BY near LIMIT %s"
        )

        def read(cursor: Cursor, query: NDArray[np.floating]) -> FetchedKeys:
            rows = cursor.execute(
                nearest, (_format_vector(query), *([] if among is None else [among.tolist()]), limit), binary=True
            ).fetchall()
            numbers = np.array([row[0] for row in rows], dtype=np.int64)
            vectors = np.frombuffer(b"".join([row[2][4:] for row in rows]), dtype=">f4")
            return FetchedKeys(numbers, vectors.reshape(len(rows), len(query)), -rows[-1][1] if rows else 0.0)

        return [self.connection.ask(partial(read, query=query)) for query in queries]

    def _sql(self, statement: str, *more: Any) -> Any:
        """Format a statement with the table and ``more``."""
        sql = _import_psycopg().sql
        return sql.SQL(statement).format(sql.Identifier(self.keys.name), *more)

    def _complete(self, make: MakeVectors) -> None:
        name = (self.keys.name,)
        with _translate_errors(), closing(_connect(self._url)) as connection, connection.cursor() as cursor:
            _create_extension(cursor)
            cursor.execute("SELECT pg_advisory_lock(hashtext(%s))", name)  # one process fills it
            try:
                drop = partial(cursor.execute, self._sql("DROP TABLE {}"))
                fill_collection(self.keys, partial(self._count, cursor), partial(self._put, cursor, make), drop)
            finally:
                if not connection.broken:
                    cursor.execute("SELECT pg_advisory_unlock(hashtext(%s))", name)

    def _count(self, cursor: Cursor) -> int:
        """Return the number of stored rows, or more than ``keys.count`` if they are not the first ones."""
        if not cursor.execute("SELECT to_regclass(quote_ident(%s)) IS NOT NULL", (self.keys.name,)).fetchone()[0]:
            return 0
        rows = cursor.execute(self._sql("SELECT count(*), coalesce(max(id), -1) FROM {}")).fetchone()
        count, last = rows or (0, -1)
        return int(count) if last == count - 1 else self.keys.count + 1

    def _put(self, cursor: Cursor, make: MakeVectors, first: int) -> None:
        for start in range(first, self.keys.count, BATCH_ROWS):
            vectors = make(start, min(start + BATCH_ROWS, self.keys.count))
            if not start:
                create = "CREATE TABLE IF NOT EXISTS {} (id integer PRIMARY KEY, vector vector({}) NOT NULL)"
                cursor.execute(self._sql(create, _import_psycopg().sql.Literal(vectors.shape[1])))
            with cursor.copy(self._sql("COPY {} (id, vector) FROM STDIN (FORMAT BINARY)")) as copy:
                copy.write(_encode_rows(vectors, start))

    def __reduce__(self) -> tuple[type[PostgresVectors], tuple[str, Keys, None]]:
        return PostgresVectors, (self._url, self.keys, None)


def _create_extension(cursor: Cursor) -> None:
    if cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
        return
    try:
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
    except _import_psycopg().OperationalError:
        raise
    except _import_psycopg().Error as error:
        raise UsageError(
            f"the PostgreSQL database lacks the extension vector, which cannot be created ({error.sqlstate}): "
            "install pgvector on the server, and run  CREATE EXTENSION vector  as an administrator"
        ) from None


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Convert errors of the server into messages without its URL."""
    try:
        yield
    except _import_psycopg().Error as error:
        code = error.sqlstate or ("53300" if _NO_CONNECTION_LEFT.search(str(error)) else None)
        if code in _ERROR_MESSAGES:
            raise ModelUnavailable(f"the PostgreSQL server {_ERROR_MESSAGES[code]} (error {code})") from None
        said = f"answers with the error {code}" if code else "does not answer"
        raise ModelUnavailable(
            f"the PostgreSQL server {said}: check its URL, {PASSWORD_VARIABLE}, and that it is running"
        ) from None


def _import_psycopg() -> Any:
    try:
        import psycopg.sql  # noqa: PLC0415  in the extra postgres
    except ImportError:
        raise MissingExtra("psycopg", "postgres") from None
    return psycopg


def _connect(url: str) -> Connection:
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    connection: Connection = _import_psycopg().connect(
        **{**CONNECTION_DEFAULTS, **conninfo_to_dict(url)}, autocommit=True
    )
    return connection


def _format_vector(vector: NDArray[np.floating]) -> str:
    """Return a vector in the text format of pgvector."""
    return f"[{','.join(map(str, vector.astype(np.float32)))}]"


def _encode_rows(vectors: NDArray[np.floating], first: int) -> bytes:
    """Encode rows with ids from ``first`` on for a binary COPY."""
    size = 4 + 4 * vectors.shape[1]
    row = [("fields", ">i2"), ("four", ">i4"), ("id", ">i4"), ("size", ">i4"), ("dimensions", ">i2"), ("zero", ">i2")]
    rows = np.zeros(len(vectors), dtype=[*row, ("vector", ">f4", (vectors.shape[1],))])
    rows["fields"], rows["four"], rows["id"] = 2, 4, np.arange(first, first + len(vectors))
    rows["size"], rows["dimensions"], rows["vector"] = size, vectors.shape[1], vectors
    return _SIGNATURE + rows.tobytes() + _TRAILER


@vector_store("postgresql", form="postgresql://USER@HOST/DATABASE", package=Package("psycopg", "psycopg", "postgres"))
def postgresql(address: str, keys: Keys, make: MakeVectors) -> PostgresVectors:
    """A PostgreSQL database with the extension pgvector."""
    return PostgresVectors(f"postgresql:{address}", keys, make)
