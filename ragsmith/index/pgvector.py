"""Vectors in PostgreSQL with its extension pgvector, by the URL of a database.

A table is named by the digest of texts and embedder, and used as it stands when all of its rows are there. The server
compares every vector, in single precision, and what it finds is scored again (`rescoring`): results are those of exact
search, ties included. No approximate index of pgvector is made: it would miss entries.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import MissingExtra, ModelUnavailable, UsageError
from ragsmith.index.rescoring import Fetched, search_rescored
from ragsmith.index.vector_store import Keys, MakeVectors, Positions, Scores

if TYPE_CHECKING:
    from psycopg import Connection, Cursor

PASSWORD_VARIABLE = "PGPASSWORD"
BATCH_ROWS = 4_096
TIMEOUT_SECONDS = 10
"""For a connection to be made."""
_SIGNATURE = b"PGCOPY\n\xff\r\n\0" + bytes(8)
_END = b"\xff\xff"


class PostgresVectors:
    """One table for the vectors of ``keys``; ``make`` is asked only for those that are not there.

    ``url`` is ``postgresql://user@host:port/database``; the password is read from ``PGPASSWORD``, or wherever else
    PostgreSQL's own clients find it. Threads take turns with the one connection.
    """

    def __init__(self, url: str, keys: Keys, make: MakeVectors) -> None:
        self._url, self._keys = url, keys
        self._turn = threading.RLock()
        self._connection: Connection | None = _connect(url)
        weakref.finalize(self, self._connection.close)
        if keys.count:
            self._complete(make)

    def close(self) -> None:
        """Search no more, and end the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

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
        found = []
        with self._asking() as cursor:
            for query in queries:
                cursor.execute(nearest, (_written(query), limit), binary=True)
                rows = cursor.fetchall()
                numbers = np.array([row[0] for row in rows], dtype=np.int64)
                vectors = np.frombuffer(b"".join([row[2][4:] for row in rows]), dtype=">f4").reshape(len(rows), -1)
                found.append(Fetched(numbers, vectors, -rows[-1][1]))
        return found

    @property
    def _table(self) -> Any:
        from psycopg.sql import Identifier  # noqa: PLC0415

        return Identifier(self._keys.name)

    def _complete(self, make: MakeVectors) -> None:
        """Put in what is missing: rows are put in in order, so those that are there come first."""
        from psycopg.sql import SQL  # noqa: PLC0415

        with self._asking() as cursor:
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

    @contextmanager
    def _asking(self) -> Iterator[Cursor]:
        """A cursor; an error says in one sentence what is wrong, without URL or password."""
        from psycopg import Error  # noqa: PLC0415

        if self._connection is None:
            raise UsageError("this vector store was closed: open it again")
        with self._turn, _said(Error), self._connection.cursor() as cursor:
            yield cursor

    def __reduce__(self) -> tuple[type[PostgresVectors], tuple[str, Keys, MakeVectors]]:
        return PostgresVectors, (self._url, self._keys, _all_there)


def _all_there(start: int, end: int) -> NDArray[np.floating]:
    raise ModelUnavailable(f"the PostgreSQL table lost rows while it was in use ({start} to {end}): run again")


@contextmanager
def _said(kind: type[Exception]) -> Iterator[None]:
    try:
        yield
    except kind as error:
        code = getattr(error, "sqlstate", None)
        said = f"answers with the error {code}" if code else "does not answer"
        raise ModelUnavailable(
            f"the PostgreSQL server {said}: check its URL, {PASSWORD_VARIABLE}, and that it is running"
        ) from None


def _connect(url: str) -> Connection:
    try:
        import psycopg  # noqa: PLC0415
    except ImportError:
        raise MissingExtra("psycopg", "postgres") from None
    with _said(psycopg.Error):
        return psycopg.connect(url, autocommit=True, connect_timeout=TIMEOUT_SECONDS)


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
