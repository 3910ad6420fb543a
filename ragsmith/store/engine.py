"""Connecting to where the store lies: an SQLite file of ours, or a PostgreSQL server.

A file is kept in WAL mode while it is in use and leaves it when the last process closes it. So a closed file is
complete by itself and can be read from a read-only disk, and one in WAL mode without its log beside it has lost work.
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
"""Seconds between two attempts to change a file's journal mode, which waits for nobody by itself."""

SERVER_TIMES = 10
"""How much longer than for a file to wait on a server, for a lock or a connection: many may be in front of us.

Nobody holds them for ever: a server ends the transaction of a process that is gone.
"""

TELL_SECONDS = 5.0
"""After how long it is said."""

FULL = ("too many clients", "remaining connection slots", "too many connections", "no more connections")
"""What such a server says (PostgreSQL, and PgBouncer before it); libpq passes no error code on here."""


def parse_location(location: str | Path | URL) -> Path | URL:
    """A path, or the URL of a server; ``sqlite:///path`` is a path. Raises StoreError for what can be neither."""
    if isinstance(location, URL):
        return location
    if isinstance(location, Path) or not ("://" in location or location.startswith(("postgresql:", "postgres:"))):
        path = Path(location)
    else:
        url: URL | None
        try:
            url = make_url(location)
        except (ArgumentError, ValueError):  # what they quote may be a password
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

    A server has a hundred by default, for everybody: one is kept, and a second one opened only while it is needed.

    Raises MissingExtra when its driver is not installed.
    """
    try:
        engine = create_engine(url, hide_parameters=True, pool_pre_ping=True, pool_size=1, max_overflow=1)
    except ImportError as error:
        raise MissingExtra("psycopg", "postgres") from error

    _keep_interruptions_quiet(engine)

    @event.listens_for(engine, "do_connect")
    def connect(dialect: Any, _record: object, arguments: Any, named: Any) -> Any:
        refused = dialect.loaded_dbapi.OperationalError
        patience = SERVER_TIMES * timeout
        return _when_there_is_room(shown_url(url), patience, refused, lambda: dialect.connect(*arguments, **named))

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _record: object) -> None:
        milliseconds = max(1, round(1000 * SERVER_TIMES * timeout))  # 0 is for ever
        connection.execute(f"SET lock_timeout = {milliseconds}")
        connection.commit()

    return engine


def _keep_interruptions_quiet(engine: Engine) -> None:
    """Have the pool not log a Ctrl-C that meets it while it takes a connection back: it raises it all the same."""
    pool = type(engine.pool)
    logging.getLogger(f"{pool.__module__}.{pool.__qualname__}").addFilter(_is_no_interruption)


def _is_no_interruption(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return error is None or isinstance(error, Exception)


def _when_there_is_room(name: str, patience: float, refused: type[Exception], connect: Callable[[], T]) -> T:
    """What ``connect`` returns, tried again for ``patience`` seconds while the server called ``name`` is full."""
    began = time.monotonic()
    pause = PAUSE
    told = False
    while True:
        try:
            return connect()
        except refused as error:
            waited = time.monotonic() - began
            if waited > patience or not any(said in str(error) for said in FULL):
                raise
        if waited > TELL_SECONDS and not told:
            told = True
            warnings.warn(
                f"{name} has no connection left for this process: trying again for up to {patience:.0f} s.",
                Notice,
                stacklevel=2,
            )
        time.sleep(pause * random.uniform(0.5, 1.0))  # not all at once again
        pause = min(2 * pause, 2.0)


def take_advisory_lock(connection: Connection, *what: str) -> None:
    """Wait until no other transaction holds ``what``, and hold it to the end of ours.

    A lock on a row is not enough on a server: of a row that is not there yet, two transactions would both be the first.
    The writer of a file is alone already.
    """
    if connection.dialect.name == "postgresql":
        number = int.from_bytes(blake2b("\0".join(what).encode(), digest_size=8).digest(), signed=True)
        connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": number})


def file_engine(path: Path, *, timeout: float, options: str) -> Engine:
    """Connections to an SQLite file that exists; ``options`` are those of an SQLite URI (``mode=rw``).

    Transactions are ours: the driver would begin them too late to keep a read-then-write whole.
    """

    def create() -> sqlite3.Connection:
        connection = connect(path, timeout=timeout, options=options)
        connection.execute("PRAGMA synchronous = FULL")  # NORMAL may lose the latest commits when the power fails
        connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")  # heeded by an empty file only
        return connection

    engine = create_engine(
        "sqlite://",
        creator=create,
        poolclass=QueuePool,
        pool_size=0,  # no bound: as many connections as threads that are at it
        hide_parameters=True,
    )

    _keep_interruptions_quiet(engine)

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


PAGE_BYTES = 16384
"""A result has 1.4 KB. Tables without row ids keep a quarter of a page of each row in the tree: on pages of 4 KB nearly
every result would take another page of its own, two thirds of it empty (measured: 99 MB against 42 MB)."""


def connect(path: Path, *, timeout: float, options: str) -> sqlite3.Connection:
    """One connection in autocommit mode; text that is no longer UTF-8 is read for its checksum to refuse."""
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
    """Make an empty file that only its owner can read, unless there is one already."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return
    except OSError as error:
        raise WrongStore(
            f"{path} cannot be created ({error.strerror}): name a cache in a folder you can write"
        ) from error


def refuse_foreign(path: Path) -> None:
    """Raise StoreError when ``path`` holds something that is not a cache, without touching it or its folder.

    The file is read through SQLite, as immutable: opening and closing it by hand would release the locks that other
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
    """The write-ahead log beside a file in WAL mode."""
    return path.with_name(path.name + "-wal")


def enter_wal(path: Path, *, timeout: float) -> None:
    """Switch to WAL mode, waiting for others to let us; a file system that cannot do it keeps its rollback journal."""
    with closing(connect(path, timeout=0, options="mode=rw")) as connection:
        for _ in range(int(timeout / PAUSE)):
            if _unless_busy(connection, "PRAGMA journal_mode = WAL"):
                return
            time.sleep(PAUSE)
        connection.execute("PRAGMA journal_mode = WAL")


def leave_wal(path: Path) -> None:
    """Move the log into the file and leave WAL mode; while other processes use it, the former as far as they let."""
    for _ in range(10):
        with closing(connect(path, timeout=0, options="mode=rw")) as connection:
            if _unless_busy(connection, "PRAGMA journal_mode = DELETE"):
                return
            _unless_busy(connection, "PRAGMA wal_checkpoint(TRUNCATE)")
        time.sleep(PAUSE)  # another thread may be reading to the end, or another process, which will close it as we did


def lacks_log(path: Path, *, timeout: float) -> bool:
    """Whether a file is in WAL mode and has no log beside it; to be asked before anything else opens it."""
    if log_of(path).exists():
        return False
    with closing(connect(path, timeout=timeout, options="mode=rw")) as connection:
        return bool(connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal")


def is_unused(path: Path) -> bool:
    """Whether no connection is open to a file in WAL mode, which then leaves it."""
    with closing(connect(path, timeout=0, options="mode=rw")) as connection:
        return _unless_busy(connection, "PRAGMA journal_mode = DELETE")


def _unless_busy(connection: sqlite3.Connection, pragma: str) -> bool:
    """Whether the pragma was carried out; False when another connection was in the way."""
    try:
        connection.execute(pragma)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
            raise
        return False
    return True


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Turn what a driver raises into one sentence about ``name``."""
    try:
        yield
    except DBAPIError as error:
        raise StoreError(explain(name, str(error.orig))) from error
    except NoConnection as error:  # all that this process may open are in use
        raise StoreError(explain(name, "lock timeout")) from error
    except sqlite3.Error as error:
        raise StoreError(explain(name, str(error))) from error
    except UnicodeDecodeError as error:  # the driver, quoting a damaged schema in a message
        raise StoreError(explain(name, "malformed")) from error


def explain(name: str, message: str) -> str:
    """What a driver's message means to the person who reads it, and what to do."""
    reasons = {
        "database is locked": "is held by another process: wait for it to end, then run the same command again",
        "lock timeout": "is held by another process: wait for it to end, then run the same command again",
        "disk I/O error": "cannot be written, the disk is full or failing: free some space and run the same command "
        "again; what was stored is kept",
        "database or disk is full": "cannot be written, the disk is full: free some space and run the same command "
        "again; what was stored is kept",
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
