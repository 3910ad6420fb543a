"""A database connection with transactions and checksummed rows."""

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Self

from sqlalchemy import Connection, Engine, Select, Table, select
from sqlalchemy.engine import URL
from sqlalchemy.exc import OperationalError

from ragsmith.errors import StoreError, WrongStore
from ragsmith.models.calls import Json
from ragsmith.store.engine import (
    check_is_cache,
    create_file,
    enter_wal,
    file_engine,
    lacks_log,
    leave_wal,
    leave_wal_if_unused,
    log_path,
    parse_location,
    redacted_url,
    server_engine,
    take_advisory_lock,
    translate_errors,
)
from ragsmith.store.rows import Value, add_checksum, batches, row_label, upsert, verify_checksum
from ragsmith.store.schema import APPLICATION_ID, VALIDATORS, create_tables, refuse_other_format, stored_format

BATCH = 500
"""Maximum number of keys in a statement."""

URGENT_SECONDS = 2.0
"""Seconds that an urgent write waits for other threads before it opens a second connection, if the server has one."""


class _ThreadConnection(threading.local):
    """The connection of the current thread."""

    connection: Connection | None = None

    @contextmanager
    def using(self, connection: Connection) -> Iterator[None]:
        previous, self.connection = self.connection, connection
        try:
            yield
        finally:
            self.connection = previous


class Database:
    """An open database of the store; messages refer to it by ``name``.

    A file that cannot be written is opened as ``read_only``, so that what it holds can be used.
    ``path`` is None for a server; the keys of ``damaged`` are the labels of the damaged rows read so far.
    ``is_log_missing`` is whether the file was not closed properly and its log was missing when it was opened.
    """

    def __init__(
        self,
        engine: Engine,
        name: str,
        *,
        path: Path | None = None,
        read_only: bool = False,
    ) -> None:
        self.name = name
        self.path = path
        self.read_only = read_only
        self.is_log_missing = False
        self.damaged: dict[str, None] = {}
        self._engine = engine
        self._writer = engine.execution_options(immediate=True)
        server = engine.dialect.name != "sqlite"  # its default isolation level takes a snapshot per statement
        self._reader = engine.execution_options(isolation_level="REPEATABLE READ") if server else engine
        self._lock = threading.Lock()
        # connections of a server are limited, so the threads of a process share one
        self._connection_lock = self._lock if server else nullcontext()
        self._current = _ThreadConnection()
        self.closed = False

    @classmethod
    def open(cls, location: str | Path | URL, *, read_only: bool, timeout: float) -> Self:
        """Open or create a database; ``timeout`` is the time in seconds to wait for another writer."""
        parsed = parse_location(location)
        if isinstance(parsed, URL):
            engine = server_engine(parsed, timeout=timeout)
            database = cls(engine, redacted_url(parsed), read_only=read_only)
        else:
            with translate_errors(str(parsed)):
                database = cls._open_file(parsed, read_only, timeout)
        with ExitStack() as on_error:
            on_error.callback(database._engine.dispose)
            database._prepare_tables()
            if database.path and not database.read_only:
                database._begin_log(database.path, timeout)
            on_error.pop_all()
        return database

    @classmethod
    def _open_file(cls, path: Path, read_only: bool, timeout: float) -> Self:
        if not path.exists():
            if read_only:
                raise WrongStore(f"there is no cache at {path}: run a search first or name another cache")
            create_file(path)
        check_is_cache(path)
        read_only = read_only or not _is_writable(path)
        is_log_missing = not read_only and lacks_log(path, timeout=timeout)
        engine = (
            _read_only_engine(path, timeout) if read_only else file_engine(path, timeout=timeout, options="mode=rw")
        )
        database = cls(engine, str(path), path=path, read_only=read_only)
        database.is_log_missing = is_log_missing
        return database

    def _prepare_tables(self) -> None:
        with self.reading() as connection:
            version = stored_format(connection)
        refuse_other_format(version, self.name)
        if version:
            return
        if self.read_only:
            raise WrongStore(f"{self.name} holds no cache: run a search first or name another cache")
        with self.writing() as connection:
            _check_content_is_cache(connection, self.name)
            create_tables(connection, self.name)

    def _begin_log(self, path: Path, timeout: float) -> None:
        with translate_errors(self.name):
            if self.is_log_missing:  # unless another process has created one meanwhile
                self._engine.dispose()
                self.is_log_missing = leave_wal_if_unused(path)
            enter_wal(path, timeout=timeout)
        with self.reading() as connection:
            stored_format(connection)  # a read creates the log, which marks the file as in use

    @property
    def location(self) -> Path | URL:
        """The file, or the URL of the server with its password."""
        return self.path or self._engine.url

    @property
    def dialect(self) -> str:
        """``sqlite`` or ``postgresql``."""
        return self._engine.dialect.name

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """Provide a connection with a consistent snapshot, or the connection of this thread's open transaction."""
        self._check_open()
        if self._current.connection is not None:
            yield self._current.connection
            return
        with (
            self._connection_lock,
            translate_errors(self.name),
            self._reader.connect() as connection,
            self._current.using(connection),
        ):
            yield connection

    @contextmanager
    def writing(self, *, urgent: bool = False) -> Iterator[Connection]:
        """Begin a transaction that is committed on exit and rolled back on an exception.

        Other writers of a file wait; on a server, only transactions of `writing_exclusively` with the same name do.
        An ``urgent`` transaction waits at most `URGENT_SECONDS` for other threads of this process and then, on a
        server, opens a second connection, as a transaction within `reading` does.
        """
        self._check_open()
        if self.read_only:
            raise WrongStore(
                f"{self.name} can only be read, so a new reply or result cannot be stored in it: make the file and its "
                "folder writable or name another cache"
            )
        holds_lock = self._current.connection is not None and self._connection_lock is self._lock
        with (
            nullcontext() if holds_lock else self._write_lock(URGENT_SECONDS if urgent else None),
            translate_errors(self.name),
            self._writer.begin() as connection,
            self._current.using(connection),
        ):
            yield connection

    @contextmanager
    def _write_lock(self, timeout: float | None) -> Iterator[None]:
        """Hold the lock of writers, or continue without it after ``timeout`` seconds."""
        acquired = self._lock.acquire(timeout=-1 if timeout is None else timeout)
        try:
            yield
        finally:
            if acquired:
                self._lock.release()

    @contextmanager
    def writing_exclusively(self, *name: str) -> Iterator[Connection]:
        """Begin a transaction that excludes other transactions with the same ``name``."""
        with self.writing() as connection:
            take_advisory_lock(connection, *name)
            yield connection

    def fetch(self, connection: Connection, table: Table, statement: Select[Any]) -> Iterator[list[Json]]:
        """Yield the decoded columns of intact rows, and add the labels of damaged ones to ``damaged``."""
        for row in connection.execute(statement).all():
            values = self.intact(table, tuple(row))
            if values is None:
                self.damaged.setdefault(row_label(table, tuple(row)))
            else:
                yield values

    def intact(self, table: Table, row: Sequence[Any]) -> list[Json] | None:
        """Return the decoded columns of a row, or None if its checksum or structure is invalid."""
        values = verify_checksum(table, row)
        is_valid = VALIDATORS.get(table.name)
        return values if values is not None and (is_valid is None or is_valid(values)) else None

    def fetch_keyed(
        self, connection: Connection, table: Table, keys: Iterable[str], *, column: str = "key"
    ) -> Iterator[list[Json]]:
        """`fetch` the rows of ``table`` whose ``column`` is in ``keys``."""
        for batch in batches(list(dict.fromkeys(keys)), BATCH):
            yield from self.fetch(connection, table, select(table).where(table.c[column].in_(batch)))

    def put(
        self,
        connection: Connection,
        table: Table,
        rows: Iterable[Sequence[object]],
        *,
        replacing: bool = False,
        final: tuple[str, str] | None = None,
    ) -> int:
        """Insert rows and return their number; rows with the key of a stored row replace it only with ``replacing``.

        A stored row whose column ``final[0]`` has the value ``final[1]`` is never replaced, a damaged one always. Rows
        are written in the order of their keys, so that concurrent writers of the same rows cannot deadlock.
        """
        regular: list[dict[str, Value]] = []
        repairs: list[dict[str, Value]] = []
        for row in sorted(rows, key=lambda row: tuple(row[: len(table.primary_key)])):
            (repairs if self.damaged and row_label(table, row) in self.damaged else regular).append(
                add_checksum(table, row)
            )
        written = 0
        if regular:
            statement = upsert(table, self.dialect, replacing=replacing, final=final)
            written += connection.execute(statement, regular).rowcount
        if repairs:
            written += connection.execute(upsert(table, self.dialect, replacing=True), repairs).rowcount
        return written

    def file_bytes(self) -> int | None:
        """Return the size of the file and its log in bytes, or None for a server."""
        if self.path is None:
            return None
        return sum(file.stat().st_size for file in (self.path, log_path(self.path)) if file.exists())

    def close(self) -> None:
        """Close all connections; the last process to close a file checkpoints its log."""
        with self._lock:
            if self.closed:
                return
            self.closed = True
            self._engine.dispose()
            if self.path and not self.read_only:
                with translate_errors(self.name):
                    leave_wal(self.path)

    def _check_open(self) -> None:
        if self.closed:
            raise StoreError(f"{self.name} is closed: open it again to use it")


def _is_writable(path: Path) -> bool:
    """Return whether this process may write a file and create its log, which is in the same folder."""
    effective = os.access in os.supports_effective_ids
    return all(os.access(place, os.W_OK, effective_ids=effective) for place in (path, path.absolute().parent))


def _read_only_engine(path: Path, timeout: float) -> Engine:
    """Create an engine of read-only connections; in a read-only folder the file is opened as immutable."""
    engine = file_engine(path, timeout=timeout, options="mode=ro")
    try:
        with engine.connect() as connection:
            stored_format(connection)
    except OperationalError:
        engine.dispose()
        log = log_path(path)
        if log.exists() and log.stat().st_size > 0:
            raise StoreError(
                f"{path} has rows in its log {log.name} that cannot be read from a read-only folder: copy both files "
                "to a folder you can write"
            ) from None
        return file_engine(path, timeout=timeout, options="mode=ro&immutable=1")
    return engine


def _check_content_is_cache(connection: Connection, name: str) -> None:
    """Repeat the check of `check_is_cache` within a write transaction."""
    if connection.dialect.name != "sqlite":
        return
    application = connection.exec_driver_sql("PRAGMA application_id").scalar_one()
    tables = connection.exec_driver_sql("SELECT count(*) FROM sqlite_master").scalar_one()
    if application != APPLICATION_ID and (application or tables):
        raise WrongStore(f"{name} is not a ragsmith cache and was left as it is: name another cache")
