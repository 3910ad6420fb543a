"""Vectors in PostgreSQL with its extension pgvector, by the URL of a database.

A table is named by the digest of texts and embedder, and used as it stands when all of its rows are there. The server
compares every vector, in single precision, and what it finds is scored again (`rescoring`): results are those of exact
search, ties included. No approximate index of pgvector is made: it would miss entries.
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
from ragsmith.index.rescoring import Fetched, search_rescored
from ragsmith.index.vector_store import Keys, MakeVectors, Positions, Scores
from ragsmith.models.vector_stores import vector_store

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

PASSWORD_VARIABLE = "PGPASSWORD"
BATCH_ROWS = 4_096
HOW: dict[str, Any] = {
    "connect_timeout": 10,
    "keepalives": 1,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
"""How a connection is made where its URL says nothing else: a server that is gone is noticed within a minute."""
_ENDED = "57P"
"""How the codes begin that say that the server ended the connection: it is stopped, or somebody told it to."""
_FULL = re.compile(r"too many (clients|connections)|connection slots")
"""What a server says that has no connection left: the error of a connection that was never made has no code."""
_SENTENCES = {
    "42501": "has no right for this user to do that: grant CREATE and USAGE on the schema, or name another user",
    "42P01": "has the table of these vectors no more: run the same command again to fill it anew",
    "53100": "has a full disk: make room there, and run the same command again to go on",
    "53300": "has no connection left, and every worker process needs one: use fewer, or raise its max_connections",
}
"""What is to be done, by the code of the error."""
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"

T = TypeVar("T")


class _DatabaseConnection:
    """The connection of this process to one database: made with the first question, and again when it is lost."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._turn = threading.RLock()
        self._held: list[Connection] = []
        weakref.finalize(self, _close, self._held)

    def ask(self, question: Callable[[Cursor], T]) -> T:
        """What ``question`` finds; asked once more if the connection turns out to be lost."""
        from psycopg import Error, OperationalError  # noqa: PLC0415

        with self._turn, _said(Error):
            connection = self._connected()
            try:
                with connection.cursor() as cursor:
                    return question(cursor)
            except OperationalError as error:
                if not (connection.closed or (error.sqlstate or "").startswith(_ENDED)):
                    raise
            _close(self._held)
            with self._connected().cursor() as cursor:
                return question(cursor)

    def _connected(self) -> Connection:
        if self._held and self._held[0].closed:
            _close(self._held)
        if not self._held:
            self._held.append(_connect(self._url))
        return self._held[0]


def _close(held: list[Connection]) -> None:
    while held:
        held.pop().close()


_servers: weakref.WeakValueDictionary[str, _DatabaseConnection] = weakref.WeakValueDictionary()
"""Those of this process, by URL: all tables of a database need one connection."""
_choosing = threading.Lock()


def _server(url: str) -> _DatabaseConnection:
    with _choosing:
        found = _servers.get(url)
        if found is None:
            found = _servers[url] = _DatabaseConnection(url)
        return found


class PostgresVectors:
    """One table for the vectors of ``keys``; ``make`` is asked only for those that are not there.

    ``url`` is ``postgresql://user@host:port/database``; the password is read from ``PGPASSWORD``, or wherever else
    PostgreSQL's own clients find it. All tables of a database share one connection in a process, and its threads take
    turns with it; what is missing is put in by a connection of its own. Without ``make``, in a process that somebody
    handed the store to, all is there, and nothing is asked before the first search.
    """

    def __init__(self, url: str, keys: Keys, make: MakeVectors | None) -> None:
        self._url, self._keys = url, keys
        _need_psycopg()
        self._server: _DatabaseConnection | None = _server(url)
        if make is not None and keys.count and self._server.ask(self._count) != keys.count:
            self._complete(make)

    def close(self) -> None:
        """Search no more; the last table of a database to be closed ends the connection."""
        self._server = None

    def search(self, query_vectors: NDArray[np.floating], k: int) -> tuple[Positions, Scores]:
        """See `VectorStore.search`.

        Raises:
            ModelUnavailable: the server is down or refuses.
        """
        return search_rescored(self._keys, query_vectors, k, self._fetch)

    def _fetch(self, queries: NDArray[np.floating], limit: int) -> list[Fetched]:
        from psycopg.sql import SQL  # noqa: PLC0415

        # ordered by an expression that no index has, so that all vectors are compared, whatever somebody made
        compared = "SELECT id, vector, (vector <#> %s::vector) + 0 AS near FROM {}"
        nearest = SQL(
            f"SELECT id, near, vector_send(vector) FROM ({compared}) AS compared ORDER BY near LIMIT %s"
        ).format(self._table)

        def fetch(cursor: Cursor, query: NDArray[np.floating]) -> Fetched:
            rows = cursor.execute(nearest, (_written(query), limit), binary=True).fetchall()
            numbers = np.array([row[0] for row in rows], dtype=np.int64)
            vectors = np.frombuffer(b"".join([row[2][4:] for row in rows]), dtype=">f4")
            return Fetched(numbers, vectors.reshape(len(rows), len(query)), -rows[-1][1] if rows else 0.0)

        if self._server is None:
            raise UsageError("this vector store was closed: open it again")
        return [self._server.ask(partial(fetch, query=query)) for query in queries]

    @property
    def _table(self) -> Any:
        from psycopg.sql import Identifier  # noqa: PLC0415

        return Identifier(self._keys.name)

    def _complete(self, make: MakeVectors) -> None:
        """Put in what is missing: rows are put in in order, so those that are there come first."""
        from psycopg import Error  # noqa: PLC0415
        from psycopg.sql import SQL  # noqa: PLC0415

        with _said(Error), closing(_connect(self._url)) as connection, connection.cursor() as cursor:
            self._have_extension(cursor)
            cursor.execute("SELECT pg_advisory_lock(hashtext(%s))", (self._keys.name,))  # one process fills it
            try:
                there = self._count(cursor)
                if there == self._keys.count:
                    return
                if there > self._keys.count:  # somebody put others in
                    cursor.execute(SQL("DROP TABLE {}").format(self._table))
                    there = 0
                self._put(cursor, make, there)
                if self._count(cursor) != self._keys.count:  # or took some out
                    cursor.execute(SQL("DROP TABLE {}").format(self._table))
                    self._put(cursor, make, 0)
            finally:
                if not cursor.connection.broken:
                    cursor.execute("SELECT pg_advisory_unlock(hashtext(%s))", (self._keys.name,))

    def _have_extension(self, cursor: Cursor) -> None:
        from psycopg import Error, OperationalError  # noqa: PLC0415

        if cursor.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone():
            return
        try:
            cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        except OperationalError:
            raise
        except Error as error:
            raise UsageError(
                f"the PostgreSQL database lacks the extension vector, which cannot be created ({error.sqlstate}): "
                "install pgvector on the server, and run  CREATE EXTENSION vector  as an administrator"
            ) from None

    def _count(self, cursor: Cursor) -> int:
        """How many of the first rows are there in their order; more than all if there are others."""
        from psycopg.sql import SQL  # noqa: PLC0415

        if not cursor.execute("SELECT to_regclass(quote_ident(%s)) IS NOT NULL", (self._keys.name,)).fetchone()[0]:
            return 0
        count, last = cursor.execute(
            SQL("SELECT count(*), coalesce(max(id), -1) FROM {}").format(self._table)
        ).fetchone() or (0, -1)
        return int(count) if last == count - 1 else self._keys.count + 1

    def _put(self, cursor: Cursor, make: MakeVectors, first: int) -> None:
        from psycopg.sql import SQL, Literal  # noqa: PLC0415

        for start in range(first, self._keys.count, BATCH_ROWS):
            vectors = make(start, min(start + BATCH_ROWS, self._keys.count))
            if not start:
                create = SQL("CREATE TABLE IF NOT EXISTS {} (id integer PRIMARY KEY, vector vector({}) NOT NULL)")
                cursor.execute(create.format(self._table, Literal(vectors.shape[1])))
            with cursor.copy(SQL("COPY {} (id, vector) FROM STDIN (FORMAT BINARY)").format(self._table)) as copy:
                copy.write(_copied(vectors, start))

    def __reduce__(self) -> tuple[type[PostgresVectors], tuple[str, Keys, None]]:
        return PostgresVectors, (self._url, self._keys, None)


@contextmanager
def _said(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind as error:
        code = getattr(error, "sqlstate", None) or ("53300" if _FULL.search(str(error)) else None)
        if code in _SENTENCES:
            raise ModelUnavailable(f"the PostgreSQL server {_SENTENCES[code]} (error {code})") from None
        said = f"answers with the error {code}" if code else "does not answer"
        raise ModelUnavailable(
            f"the PostgreSQL server {said}: check its URL, {PASSWORD_VARIABLE}, and that it is running"
        ) from None


def _need_psycopg() -> None:
    try:
        import psycopg  # noqa: F401, PLC0415
    except ImportError:
        raise MissingExtra("psycopg", "postgres") from None


def _connect(url: str) -> Connection:
    import psycopg  # noqa: PLC0415
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    return psycopg.connect(**{**HOW, **conninfo_to_dict(url)}, autocommit=True)


def _written(vector: NDArray[np.floating]) -> str:
    """A vector as pgvector reads it, each number by its shortest exact form."""
    return f"[{','.join(map(str, vector.astype(np.float32)))}]"


def _copied(vectors: NDArray[np.floating], first: int) -> bytes:
    """Rows for a binary COPY: the number ``first`` and the ones after it, each with a vector."""
    size = 4 + 4 * vectors.shape[1]
    row = [("fields", ">i2"), ("four", ">i4"), ("id", ">i4"), ("size", ">i4"), ("dimensions", ">i2"), ("zero", ">i2")]
    rows = np.zeros(len(vectors), dtype=[*row, ("vector", ">f4", (vectors.shape[1],))])
    rows["fields"], rows["four"], rows["id"] = 2, 4, np.arange(first, first + len(vectors))
    rows["size"], rows["dimensions"], rows["vector"] = size, vectors.shape[1], vectors
    return _SIGNATURE + rows.tobytes() + _END


@vector_store("postgresql", form="postgresql://USER@HOST/DATABASE", package=Package("psycopg", "psycopg", "postgres"))
def postgresql(address: str, keys: Keys, make: MakeVectors) -> PostgresVectors:
    """A PostgreSQL database with the extension pgvector."""
    return PostgresVectors(f"postgresql:{address}", keys, make)
