"""Engines for the databases of the store: SQLite files and PostgreSQL servers.

A file is in WAL mode while it is open, and the last process to close it leaves WAL mode. A closed file is therefore
complete and readable on a read-only disk, and a file in WAL mode without its log has lost commits.
"""

import logging
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, QueuePool, create_engine, event, make_url, text
from sqlalchemy.engine import URL
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import TimeoutError as NoConnection

from ragsmith.errors import MissingExtra, StoreError, WrongStore, warn_caller
from ragsmith.store.schema import APPLICATION_ID
from ragsmith.text.redaction import redacted, remember_secret

T = TypeVar("T")

PAUSE_SECONDS = 0.01
"""Seconds between attempts to change the journal mode of a file; the busy timeout does not apply to them."""

SERVER_TIMEOUT_FACTOR = 10
"""Factor by which timeouts for locks and connections are longer on a server, whose queues may be long.

A server releases the locks of a process that has ended, as it aborts its transaction.
"""

WARN_SECONDS = 5.0
"""Seconds of waiting for a connection after which a warning is issued."""

CONNECTION_LIMIT_ERRORS = (
    "too many clients",
    "remaining connection slots",
    "too many connections",
    "no more connections",
)
"""Messages of servers at their connection limit (PostgreSQL, PgBouncer); libpq does not report the error code."""


def parse_location(location: str | Path | URL) -> Path | URL:
    """Parse ``location`` to a path or a server URL; ``sqlite:///path`` is a path.

    Raises:
        WrongStore: ``location`` is neither.
    """
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
            raise WrongStore(f"{redacted_url(url)} cannot hold the cache: name a file or a postgresql:// URL")
        path = Path(url.database or ":memory:")
    if str(path) in (":memory:", "."):
        raise WrongStore(f"{location!s} names no file, and the cache must outlive the process: name a file")
    return path


def redacted_url(url: URL) -> str:
    """Return a URL without the password in its authority or query."""
    base = url.set(query={}).render_as_string(hide_password=True)
    return base + redacted(url.render_as_string(hide_password=True).removeprefix(base))


def server_engine(url: URL, *, timeout: float) -> Engine:
    """Create an engine for PostgreSQL whose lock timeout is `SERVER_TIMEOUT_FACTOR` times ``timeout`` seconds.

    A server allows 100 connections by default: one stays open, and a second one is opened only while needed.

    Raises:
        MissingExtra: the driver is not installed.
    """
    try:
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=True, pool_size=1, max_overflow=1)
    except ImportError as error:
        raise MissingExtra("psycopg", "postgres") from error

    _mute_interruptions(engine)

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: object, arguments: Any, options: Any) -> Any:
        error_type = dialect.loaded_dbapi.OperationalError
        patience = SERVER_TIMEOUT_FACTOR * timeout
        return _connect_when_free(
            redacted_url(url), patience, error_type, lambda: dialect.connect(*arguments, **options)
        )

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        milliseconds = max(1, round(1000 * SERVER_TIMEOUT_FACTOR * timeout))  # 0 disables the timeout
        connection.execute(f"SET lock_timeout = {milliseconds}")
        connection.commit()

    return engine


def _mute_interruptions(engine: Engine) -> None:
    """Suppress the log message of a KeyboardInterrupt during the return of a connection; it is raised anyway."""
    pool = type(engine.pool)
    logging.getLogger(f"{pool.__module__}.{pool.__qualname__}").addFilter(_is_error)


def _is_error(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return error is None or isinstance(error, Exception)


def _connect_when_free(name: str, patience: float, error_type: type[Exception], connect: Callable[[], T]) -> T:
    """Call ``connect`` and retry for up to ``patience`` seconds while the server is at its connection limit."""
    started = time.monotonic()
    pause = PAUSE_SECONDS
    warned = False
    while True:
        try:
            return connect()
        except error_type as error:
            waited = time.monotonic() - started
            if waited > patience or not any(reason in str(error) for reason in CONNECTION_LIMIT_ERRORS):
                raise
        if waited > WARN_SECONDS and not warned:
            warned = True
            warn_caller(f"{name} has no connection left for this process: trying again for up to {patience:.0f} s.")
        time.sleep(pause * random.uniform(0.5, 1.0))  # jitter spreads the retries of processes
        pause = min(2 * pause, 2.0)


def take_advisory_lock(connection: Connection, *name: str) -> None:
    """Take the advisory lock ``name`` until the end of the transaction.

    On a server, row locks would not prevent two transactions from inserting the same row. Files need no lock, as they
    have a single writer.
    """
    if connection.dialect.name == "postgresql":
        number = int.from_bytes(blake2b("\0".join(name).encode(), digest_size=8).digest(), signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def file_engine(path: Path, *, timeout: float, options: str) -> Engine:
    """Create an engine for an existing SQLite file; ``options`` are those of an SQLite URI (``mode=rw``).

    Transactions are begun explicitly, as the driver would begin them after the first read.
    """

    def create() -> sqlite3.Connection:
        connection = connect(path, timeout=timeout, options=options)
        connection.execute("PRAGMA synchronous = FULL")  # NORMAL may lose the latest commits when the power fails
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # only affects an empty file
        return connection

    engine = create_engine(
        "sqlite://",
        creator=create,
        poolclass=QueuePool,
        pool_size=0,  # no limit
        hide_parameters=True,
    )

    _mute_interruptions(engine)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


PAGE_BYTES = 16384
"""Page size of files in bytes. A table without row ids stores rows of up to a quarter of a page in the B-tree: with
pages of 4 KB, most results, of 1.4 KB, would each need an overflow page, two thirds empty (99 MB instead of 42 MB)."""


def connect(path: Path, *, timeout: float, options: str) -> sqlite3.Connection:
    """Open a connection in autocommit mode; invalid UTF-8 is replaced, which the checksum of the row then detects."""
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
            f"{path} cannot be created ({error.strerror}): name a cache in a folder that exists and can be written"
        ) from error


def check_is_cache(path: Path) -> None:
    """Raise WrongStore if ``path`` is not a cache, without changing the file or its folder.

    The file is read through SQLite as immutable, as opening and closing it directly would release the locks of other
    connections of this process (https://sqlite.org/howtocorrupt.html, section 2.2).
    """
    if not path.is_file():
        kind = "a folder" if path.is_dir() else "not a regular file"
        raise WrongStore(f"{path} is {kind}: name a file as the cache")
    if path.stat().st_size == 0:
        return
    try:
        with closing(connect(path, timeout=0, options="mode=ro&immutable=1")) as connection:
            application = connection.execute("PRAGMA application_id").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_CORRUPT:
            return  # another process may be writing; the check is repeated under a lock
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_NOTADB:
            raise WrongStore(f"{path} is not a ragsmith cache and was left as it is: name another cache") from error
        raise WrongStore(f"{path} cannot be opened ({error}): make it readable or name another cache") from error
    if application != APPLICATION_ID:
        raise WrongStore(f"{path} is not a ragsmith cache and was left as it is: name another cache")


def log_path(path: Path) -> Path:
    """Return the path of the write-ahead log of a file."""
    return path.with_name(path.name + "-wal")


def enter_wal(path: Path, *, timeout: float) -> None:
    """Switch to WAL mode after waiting for other connections; file systems without support use a rollback journal."""
    with closing(connect(path, timeout=0, options="mode=rw")) as connection:
        for _ in range(int(timeout / PAUSE_SECONDS)):
            if _execute_unless_busy(connection, "PRAGMA journal_mode = WAL"):
                return
            time.sleep(PAUSE_SECONDS)
        connection.execute("PRAGMA journal_mode = WAL")


def leave_wal(path: Path) -> None:
    """Checkpoint the log and leave WAL mode; while other processes use the file, checkpoint as much as possible."""
    for _ in range(10):
        with closing(connect(path, timeout=0, options="mode=rw")) as connection:
            if _execute_unless_busy(connection, "PRAGMA journal_mode = DELETE"):
                return
            _execute_unless_busy(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        time.sleep(PAUSE_SECONDS)  # a thread may still be reading, or another process, which leaves WAL mode itself


def lacks_log(path: Path, *, timeout: float) -> bool:
    """Return whether a file that is not yet open is in WAL mode without its log."""
    if log_path(path).exists():
        return False
    with closing(connect(path, timeout=timeout, options="mode=rw")) as connection:
        return bool(connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal")


def leave_wal_if_unused(path: Path) -> bool:
    """Leave WAL mode and return True if a file has no other open connection, otherwise return False."""
    with closing(connect(path, timeout=0, options="mode=rw")) as connection:
        return _execute_unless_busy(connection, "PRAGMA journal_mode = DELETE")


def _execute_unless_busy(connection: sqlite3.Connection, pragma: str) -> bool:
    """Execute a pragma and return True, or return False if the database is busy."""
    try:
        connection.execute(pragma)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Convert the errors of drivers into a StoreError about the database ``name``."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(explain_error(name, str(error.orig))) from error
    except NoConnection as error:  # the pool is exhausted
        raise StoreError(explain_error(name, "lock timeout")) from error
    except sqlite3.Error as error:
        raise StoreError(explain_error(name, str(error))) from error
    except UnicodeDecodeError as error:  # raised by the driver for a damaged schema
        raise StoreError(explain_error(name, "malformed")) from error


def explain_error(name: str, message: str) -> str:
    """Explain the error message of a driver and its remedy in a sentence about the database ``name``."""
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
            CONNECTION_LIMIT_ERRORS,
            "has had no connection left for a long time: raise its max_connections, or run fewer commands at once, "
            "then run the same command again",
        ),
        "file is not a database": "is damaged: move it away and run the same command again to compute its content anew",
    }
    for part, reason in reasons.items():
        if part in message:
            return f"{name} {reason}"
    return f"{name} failed: {redacted(' '.join(message.split()))}"
