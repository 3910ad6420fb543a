"""Connections to the place of the store: an SQLite file of ours, or a PostgreSQL server.

A file is in WAL mode while it is in use and leaves it when the last process closes it. So a closed file is complete and
can be read from a read-only disk, and one in WAL mode without its log has lost work.
"""

from __future__ import annotations

import logging
import os
import random
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

from ragsmith.errors import MissingExtra, Notice, StoreError, WrongStore
from ragsmith.store.schema import APPLICATION_ID
from ragsmith.text.redaction import redacted, remember_secret

T = TypeVar("T")

PAUSE = 0.01
"""Seconds between two attempts to change the journal mode of a file, which does not wait by itself."""

SERVER_TIMES = 10
"""How many times as long as on a file to wait on a server for a lock or a connection: the queue may be long.

None are held for ever: a server ends the transaction of a process that is gone.
"""

TELL_SECONDS = 5.0
"""Of waiting for a connection before a warning."""

FULL = ("too many clients", "remaining connection slots", "too many connections", "no more connections")
"""The errors of a full server (PostgreSQL, PgBouncer); libpq passes no error code on."""


def parse_location(location: str | Path | URL) -> Path | URL:
    """A path, or the URL of a server; ``sqlite:///path`` is a path. Raises WrongStore for anything else."""
    if isinstance(location, URL):
        return location
    if isinstance(location, Path) or not ("://" in location or location.startswith(("postgresql:", "postgres:"))):
        path = Path(location)
    else:
        url: URL | None
        try:
            url = make_url(location)
        except (ArgumentError, ValueError):  # their messages may quote a password
            url = None
        if url is None:
            raise WrongStore("the cache's URL cannot be read: write postgresql://user@host/database")
        remember_secret(url.password or "")
        if url.get_backend_name() in ("postgresql", "postgres"):
            return url.set(drivername="postgresql+psycopg")
        if url.get_backend_name() != "sqlite" or url.query:
            raise WrongStore(f"{shown_url(url)} cannot hold the cache: name a file or a postgresql:// URL")
        path = Path(url.database or ":memory:")
    if str(path) in (":memory:", "."):
        raise WrongStore(f"{location!s} names no file, and the cache must outlive the process: name a file")
    return path


def shown_url(url: URL) -> str:
    """A URL without its password, before the host or among the options."""
    base = url.set(query={}).render_as_string(hide_password=True)
    return base + redacted(url.render_as_string(hide_password=True).removeprefix(base))


def server_engine(url: URL, *, timeout: float) -> Engine:
    """A connection to PostgreSQL, on which a statement waits `SERVER_TIMES` so many seconds for the locks of others.

    A server has a hundred in all by default: one stays open, and a second one is opened only while it is needed.

    Raises MissingExtra when its driver is not installed.
    """
    try:
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=True, pool_size=1, max_overflow=1)
    except ImportError as error:
        raise MissingExtra("psycopg", "postgres") from error

    _mute_interruptions(engine)

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: object, arguments: Any, named: Any) -> Any:
        refused = dialect.loaded_dbapi.OperationalError
        patience = SERVER_TIMES * timeout
        return _connect_when_free(shown_url(url), patience, refused, lambda: dialect.connect(*arguments, **named))

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        milliseconds = max(1, round(1000 * SERVER_TIMES * timeout))  # 0 is for ever
        connection.execute(f"SET lock_timeout = {milliseconds}")
        connection.commit()

    return engine


def _mute_interruptions(engine: Engine) -> None:
    """Keep the pool from logging a Ctrl-C during the return of a connection, which it raises all the same."""
    pool = type(engine.pool)
    logging.getLogger(f"{pool.__module__}.{pool.__qualname__}").addFilter(_is_error)


def _is_error(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return error is None or isinstance(error, Exception)


def _connect_when_free(name: str, patience: float, refused: type[Exception], connect: Callable[[], T]) -> T:
    """Call ``connect``, again for ``patience`` seconds while the server called ``name`` is full; return its result."""
    began = time.monotonic()
    pause = PAUSE
    warned = False
    while True:
        try:
            return connect()
        except refused as error:
            waited = time.monotonic() - began
            if waited > patience or not any(reason in str(error) for reason in FULL):
                raise
        if waited > TELL_SECONDS and not warned:
            warned = True
            warnings.warn(
                f"{name} has no connection left for this process: trying again for up to {patience:.0f} s.",
                Notice,
                stacklevel=2,
            )
        time.sleep(pause * random.uniform(0.5, 1.0))  # so that not all processes try at once again
        pause = min(2 * pause, 2.0)


def take_advisory_lock(connection: Connection, *what: str) -> None:
    """Take the lock named ``what`` until the end of the transaction.

    A lock on a row is not enough on a server: two transactions could both insert the first one. A file has one writer
    anyway.
    """
    if connection.dialect.name == "postgresql":
        number = int.from_bytes(blake2b("\0".join(what).encode(), digest_size=8).digest(), signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def file_engine(path: Path, *, timeout: float, options: str) -> Engine:
    """Connections to an SQLite file that exists; ``options`` are those of an SQLite URI (``mode=rw``).

    Transactions are begun here: the driver would begin them after the first read.
    """

    def create() -> sqlite3.Connection:
        connection = connect(path, timeout=timeout, options=options)
        connection.execute("PRAGMA synchronous = FULL")  # NORMAL may lose the latest commits when the power fails
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # has an effect on an empty file only
        return connection

    engine = create_engine(
        "sqlite://",
        creator=create,
        poolclass=QueuePool,
        pool_size=0,  # no limit: as many connections as threads use
        hide_parameters=True,
    )

    _mute_interruptions(engine)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


PAGE_BYTES = 16384
"""A result has 1.4 KB. Tables without row ids have at most a quarter of a page of a row in the tree: on pages of 4 KB
nearly every result would take another page of its own, two thirds of it empty (measured: 99 MB against 42 MB)."""


def connect(path: Path, *, timeout: float, options: str) -> sqlite3.Connection:
    """One connection in autocommit mode; damaged UTF-8 is replaced, and refused by the checksum of its row."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{options}",
        uri=True,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.text_factory = lambda raw: raw.decode(errors="replace")
    return connection


def create_file(path: Path) -> None:
    """Create an empty file that only its owner can read, unless it exists."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise WrongStore(
            f"{path} cannot be created ({error.strerror}): name a cache in a folder you can write"
        ) from error


def refuse_foreign(path: Path) -> None:
    """Raise WrongStore when ``path`` is not a cache, without touching it or its folder.

    The file is read through SQLite, as immutable: opening and closing it directly would release the locks that other
    connections of this process hold (https://sqlite.org/howtocorrupt.html, section 2.2).
    """
    if not path.is_file():
        raise WrongStore(f"{path} is not a regular file: name another cache")
    if path.stat().st_size == 0:
        return
    try:
        with closing(connect(path, timeout=0, options="mode=ro&immutable=1")) as connection:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT:
            return  # perhaps only caught while another process was writing: the locked read that follows decides
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_NOTADB:
            raise WrongStore(f"{path} is not a ragsmith cache and was left as it is: name another cache") from error
        raise WrongStore(f"{path} cannot be opened ({error}): make it readable or name another cache") from error
    if application != APPLICATION_ID:
        raise WrongStore(f"{path} is not a ragsmith cache and was left as it is: name another cache")


def log_of(path: Path) -> Path:
    """The write-ahead log of a file in WAL mode."""
    return path.with_name(path.name + "-wal")


def enter_wal(path: Path, *, timeout: float) -> None:
    """Switch to WAL mode, waiting for other connections; a file system without it keeps the rollback journal."""
    with closing(connect(path, timeout=0, options="mode=rw")) as connection:
        for _ in range(int(timeout / PAUSE)):
            if _unless_busy(connection, "PRAGMA journal_mode = WAL"):
                return
            time.sleep(PAUSE)
        connection.execute("PRAGMA journal_mode = WAL")


def leave_wal(path: Path) -> None:
    """Move the log into the file and leave WAL mode; while other processes use it, only move what they permit."""
    for _ in range(10):
        with closing(connect(path, timeout=0, options="mode=rw")) as connection:
            if _unless_busy(connection, "PRAGMA journal_mode = DELETE"):
                return
            _unless_busy(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        time.sleep(
            PAUSE
        )  # a thread may still be reading, or another process, which will close the file in the same way


def lacks_log(path: Path, *, timeout: float) -> bool:
    """Whether a file is in WAL mode without its log; to be called before the file is opened."""
    if log_of(path).exists():
        return False
    with closing(connect(path, timeout=timeout, options="mode=rw")) as connection:
        return bool(connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal")


def is_unused(path: Path) -> bool:
    """Whether a file in WAL mode has no open connection; it then leaves WAL mode."""
    with closing(connect(path, timeout=0, options="mode=rw")) as connection:
        return _unless_busy(connection, "PRAGMA journal_mode = DELETE")


def _unless_busy(connection: sqlite3.Connection, pragma: str) -> bool:
    """Execute a pragma; return False when another connection prevents it."""
    try:
        connection.execute(pragma)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Turn the errors of a driver into a StoreError of one sentence about ``name``."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(explain(name, str(error.orig))) from error
    except NoConnection as error:  # all connections that this process may open are in use
        raise StoreError(explain(name, "lock timeout")) from error
    except sqlite3.Error as error:
        raise StoreError(explain(name, str(error))) from error
    except UnicodeDecodeError as error:  # the driver, quoting a damaged schema in a message
        raise StoreError(explain(name, "malformed")) from error


def explain(name: str, message: str) -> str:
    """A sentence on what the message of a driver means, and what to do."""
    reasons = {
        "database is locked": "is held by another process: wait for it to end, then run the same command again",
        "lock timeout": "is held by another process: wait for it to end, then run the same command again",
        "disk I/O error": "cannot be written, the disk is full or failing: free some space and run the same command "
        "again; what was stored is safe",
        "database or disk is full": "cannot be written, the disk is full: free some space and run the same command "
        "again; what was stored is safe",
        "readonly database": "cannot be written: make the file and its folder writable or name another cache",
        "unable to open database file": "cannot be opened: check that the file and its folder exist and are writable",
        "malformed": "is damaged: move it away and run the same command again to compute its content anew",
        **dict.fromkeys(
            FULL,
            "has had no connection left for a long time: raise its max_connections, or run fewer commands at once, "
            "then run the same command again",
        ),
        "file is not a database": "is damaged: move it away and run the same command again to compute its content anew",
    }
    for part, reason in reasons.items():
        if part in message:
            return f"{name} {reason}"
    return f"{name} failed: {redacted(' '.join(message.split()))}"
