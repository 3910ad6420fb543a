"""The user's own ledger of looks: so that another folder or another cache does not forget what was tested before.

It is a small SQLite file, ``looks.sqlite``, where programs of this user keep data: in ``$XDG_DATA_HOME/ragsmith``, or
else in ``~/.local/share/ragsmith``, on macOS in ``~/Library/Application Support/ragsmith``, on Windows in
``%LOCALAPPDATA%\\ragsmith``. ``RAGSMITH_LEDGER`` names another file, and ``RAGSMITH_LEDGER=off`` none. It holds
digests, numbers and dates: no text of any question, and no path. Where it cannot be read or written, that is said, and
nothing else happens.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ragsmith.errors import Notice
from ragsmith.store.store import TIMEOUT

VARIABLE = "RAGSMITH_LEDGER"
OFF = ("off", "0", "none", "")
FILE = "looks.sqlite"
FORMAT = 1
WAIT_SECONDS = 2 * TIMEOUT
"""How long to wait for another process that is writing: longer than it waits for its cache meanwhile."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS look (look TEXT PRIMARY KEY, number INTEGER NOT NULL, fresh INTEGER NOT NULL,"
    " day TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS question (question TEXT, look TEXT, PRIMARY KEY (question, look)) WITHOUT ROWID",
)
_BATCH = 500


class LedgerError(Exception):
    """The ledger cannot be read or written; it says why."""


@dataclass(frozen=True, slots=True)
class PreviousUses:
    """A look as it was numbered, and how many of its questions nobody had looked at before."""

    number: int
    fresh: int


class LedgerPage:
    """What the ledger says about looks at some questions, in one transaction; ``note`` adds a look to it."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def seen(self, look: str) -> PreviousUses | None:
        """The look under this key, if it was noted."""
        with _usable():
            row = self._connection.execute("SELECT number, fresh FROM look WHERE look = ?", (look,)).fetchone()
        return None if row is None else PreviousUses(int(row[0]), int(row[1]))

    def looks(self, questions: Collection[str]) -> dict[str, set[str]]:
        """The keys of the looks at each of the ``questions`` that was looked at."""
        found: dict[str, set[str]] = {}
        each = sorted(questions)
        for start in range(0, len(each), _BATCH):
            part = each[start : start + _BATCH]
            marks = ",".join("?" * len(part))
            asked = f"SELECT question, look FROM question WHERE question IN ({marks})"
            with _usable():
                rows = self._connection.execute(asked, part).fetchall()
            for question, look in rows:
                found.setdefault(question, set()).add(look)
        return found

    def note(self, look: str, questions: Collection[str], seen: PreviousUses, day: str) -> None:
        """Add a look, and bring its number up to date where another place had it higher."""
        rows = [(question, look) for question in sorted(questions)]
        with _usable():
            self._connection.execute(
                "INSERT OR REPLACE INTO look VALUES (?, ?, ?, ?)", (look, seen.number, seen.fresh, day)
            )
            self._connection.executemany("INSERT OR IGNORE INTO question VALUES (?, ?)", rows)


def place() -> Path | None:
    """Where the ledger lies; None where the user wants none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return None if named.strip().lower() in OFF else Path(named).expanduser()
    return _data_folder() / "ragsmith" / FILE


def _data_folder() -> Path:
    if folder := os.environ.get("XDG_DATA_HOME"):
        return Path(folder)
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    return Path.home() / ".local" / "share"


@contextmanager
def _usable() -> Iterator[None]:
    """What fails in here is the ledger, and nothing that is done beside it."""
    try:
        yield
    except (sqlite3.Error, OSError, RuntimeError) as error:  # RuntimeError: there is no home
        raise LedgerError(str(error)) from error


@contextmanager
def _opened(path: Path) -> Iterator[LedgerPage]:
    """The ledger in a transaction of its own, which no other process can come between."""
    with _usable():
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)
    with closing(connection):
        with _usable():
            connection.execute("BEGIN IMMEDIATE")
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version not in (0, FORMAT):
                raise sqlite3.DatabaseError(f"it has format {version}, and this version reads format {FORMAT}")
            for table in _TABLES:
                connection.execute(table)
            connection.execute(f"PRAGMA user_version = {FORMAT}")
        yield LedgerPage(connection)
        with _usable():
            connection.execute("COMMIT")


def with_ledger(decide: Callable[[LedgerPage | None], PreviousUses]) -> tuple[PreviousUses, bool]:
    """What ``decide`` says with the ledger at hand, which stays locked meanwhile; and whether there was one.

    ``decide`` is called again, without a ledger, where it could not be read or written: so it has to come to the same
    if it is called twice. What else fails in it is raised.
    """
    try:
        with _usable():
            path = place()
        if path is not None:
            with _opened(path) as page:
                return decide(page), True
    except LedgerError as error:
        warnings.warn(
            f"earlier looks at these test questions from other caches are not counted, as the ledger "
            f"{place_name()} cannot be used: {error}; name another file with {VARIABLE}, or none with {VARIABLE}=off",
            Notice,
            stacklevel=3,
        )
    return decide(None), False


def place_name() -> str:
    """The ledger's place in words, whatever is wrong with it."""
    try:
        return str(place())
    except RuntimeError:
        return FILE


def most(looks: dict[str, set[str]], others: dict[str, set[str]], questions: Collection[str], own: str) -> PreviousUses:
    """The number of a new look ``own`` at ``questions``, given the looks at each that two places know of."""
    counted: Counter[str] = Counter()
    for question in questions:
        counted[question] = len((looks.get(question, set()) | others.get(question, set())) - {own})
    return PreviousUses(1 + max(counted.values(), default=0), sum(not count for count in counted.values()))


def after(
    here: PreviousUses, looks: dict[str, set[str]], others: dict[str, set[str]], questions: Collection[str]
) -> PreviousUses:
    """A look that was numbered ``here`` by ``looks`` alone, once those that only ``others`` know of count, too."""
    further = [len(others.get(question, set()) - looks.get(question, set())) for question in questions]
    return PreviousUses(here.number + max(further, default=0), min(here.fresh, sum(not count for count in further)))
