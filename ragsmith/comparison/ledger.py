"""Count the uses of test questions for verdicts ("looks"), in the cache and in the user's ledger.

The ledger counts them across caches. It is a small SQLite file, ``looks.sqlite``, in the user's data folder:
``$XDG_DATA_HOME/ragsmith`` or ``~/.local/share/ragsmith``, on macOS ``~/Library/Application Support/ragsmith``, on
Windows ``%LOCALAPPDATA%\\ragsmith``. ``RAGSMITH_LEDGER`` names another file, and ``RAGSMITH_LEDGER=off`` none. It has
digests, numbers and dates, and no text or path. If it cannot be used, a warning is issued.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ragsmith.comparison.ledger_location import ENVIRONMENT_VARIABLE, FILE, ledger_path
from ragsmith.comparison.questions import HoldoutUse
from ragsmith.digest import digest
from ragsmith.errors import BudgetExhausted, warn_caller
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.pipelines.genes import N_FAMILIES, Candidate, configuration
from ragsmith.store.store import TIMEOUT_SECONDS, LookRow, Looks, Store

T = TypeVar("T")
FORMAT = 1
WAIT_SECONDS = 2 * TIMEOUT_SECONDS
"""Seconds to wait for another process that writes, which may itself wait for its cache."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS look (look TEXT PRIMARY KEY, number INTEGER NOT NULL, fresh INTEGER NOT NULL,"
    " day TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS question (question TEXT, look TEXT, PRIMARY KEY (question, look)) WITHOUT ROWID",
)
_BATCH = 500


class LedgerError(Exception):
    """The ledger cannot be read or written."""


@dataclass(frozen=True, slots=True)
class PreviousUses:
    """The number of a look, and how many of its questions had no earlier one."""

    number: int
    fresh: int


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Raise errors of the ledger as `LedgerError`."""
    try:
        yield
    except (sqlite3.Error, OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        raise LedgerError(str(error)) from error


class LedgerPage:
    """The ledger in one transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @_translated_errors()
    def get(self, look: str) -> PreviousUses | None:
        """Return the look with this key; None if it is not recorded."""
        row = self._connection.execute("SELECT number, fresh FROM look WHERE look = ?", (look,)).fetchone()
        return None if row is None else PreviousUses(int(row[0]), int(row[1]))

    @_translated_errors()
    def looks(self, questions: Collection[str]) -> dict[str, set[str]]:
        """Return the keys of the looks at each of ``questions``, without those that have none."""
        found: dict[str, set[str]] = {}
        each = sorted(questions)
        for start in range(0, len(each), _BATCH):
            part = each[start : start + _BATCH]
            marks = ",".join("?" * len(part))
            asked = f"SELECT question, look FROM question WHERE question IN ({marks})"
            for question, look in self._connection.execute(asked, part):
                found.setdefault(question, set()).add(look)
        return found

    @_translated_errors()
    def record(self, look: str, questions: Collection[str], seen: PreviousUses, day: str) -> None:
        """Record a look, or update its number."""
        rows = [(question, look) for question in sorted(questions)]
        self._connection.execute(
            "INSERT OR REPLACE INTO look VALUES (?, ?, ?, ?)", (look, seen.number, seen.fresh, day)
        )
        self._connection.executemany("INSERT OR IGNORE INTO question VALUES (?, ?)", rows)


@contextmanager
def _open_ledger(path: Path, *, read_only: bool = False) -> Iterator[LedgerPage]:
    """Open the ledger in an exclusive transaction, or in one that only reads."""
    with _translated_errors():
        if not read_only:
            path.parent.mkdir(parents=True, exist_ok=True)
        place = f"{path.absolute().as_uri()}?mode=ro" if read_only else path
        connection = sqlite3.connect(place, timeout=WAIT_SECONDS, isolation_level=None, uri=read_only)
    with closing(connection):
        with _translated_errors():
            connection.execute("BEGIN" if read_only else "BEGIN IMMEDIATE")
            version = int(connection.execute("PRAGMA user_version").fetchone()[0])
            if version not in (0, FORMAT):
                raise sqlite3.DatabaseError(f"it has format {version}, and this version reads format {FORMAT}")
            if not read_only:
                for table in _TABLES:
                    connection.execute(table)
                connection.execute(f"PRAGMA user_version = {FORMAT}")
        yield LedgerPage(connection)
        with _translated_errors():
            connection.execute("COMMIT")


def run_with_ledger(decide: Callable[[LedgerPage | None], T], *, read_only: bool = False) -> tuple[T, bool]:
    """Return the result of ``decide`` with the locked ledger, and whether there was one.

    If the ledger cannot be used, ``decide`` is called with None, possibly for the second time: it has to be idempotent.
    Its other errors are raised. With ``read_only`` nothing is written, a ledger that does not exist yet, or has no
    content, is empty, and no warning is issued.
    """
    path: Path | None = Path(FILE)
    try:
        with _translated_errors():
            path = ledger_path()
            is_new = path is not None and read_only and not (path.exists() and path.stat().st_size)
        if is_new:
            return decide(None), True
        if path is not None:
            with _open_ledger(path, read_only=read_only) as page:
                return decide(page), True
    except LedgerError as error:
        if not read_only:
            warn_caller(
                f"earlier looks at these test questions from other caches are not counted, as the ledger "
                f"{path} cannot be used: {error}; name another file with {ENVIRONMENT_VARIABLE}, or none with "
                f"{ENVIRONMENT_VARIABLE}=off"
            )
    return decide(None), False


def identify_pipeline(setup: Experiment, candidate: Candidate) -> str:
    """Return the digest of everything that a pipeline answers with, besides the data set.

    Only the code of a user's own techniques counts. The ids of models that run in this process, the overlap of
    chunks and the identity of a searched system contain digests of the code of this package that they depend on.
    """
    searched = setup.system and candidate[N_FAMILIES:]  # a system has no genes
    variant, genes = setup.for_candidate(candidate), () if searched else candidate[:N_FAMILIES]
    own = sorted({gene.technique.code for gene in genes if not gene.technique.fn.__module__.startswith("ragsmith.")})
    return digest("pipeline", configuration(genes), variant.chunking_key, variant.model_ids, own)


def identify_comparison(fitness: Fitness, first: str, others: Iterable[str]) -> str:
    """Return the digest of what is compared: the pairs of the ``first`` pipeline and each other, as one family.

    It is the look of `count_look` wherever the comparison is made, by whatever names, and in any order. A pipeline is
    not compared with itself.
    """
    pairs = {tuple(sorted((first, other))) for other in others if other != first}
    return digest("comparison", fitness.identity, sorted(pairs) or first)


def number_look(
    looks: dict[str, set[str]], others: dict[str, set[str]], questions: Collection[str], own: str
) -> PreviousUses:
    """Number a new look ``own`` at ``questions``, given the looks by question of the cache and the ledger."""
    counts = [len((looks.get(question, set()) | others.get(question, set())) - {own}) for question in questions]
    return PreviousUses(1 + max(counts, default=0), counts.count(0))


def renumber_look(
    here: PreviousUses, looks: dict[str, set[str]], others: dict[str, set[str]], questions: Collection[str]
) -> PreviousUses:
    """Renumber a look that was numbered by ``looks`` alone, so that those only in ``others`` count too."""
    further = [len(others.get(question, set()) - looks.get(question, set())) for question in questions]
    return PreviousUses(here.number + max(further, default=0), min(here.fresh, sum(not count for count in further)))


def _identify(look: str, questions: Collection[str]) -> tuple[str, list[str]]:
    """Return the key of a look at ``questions``, and these without repetitions."""
    distinct = sorted(set(questions))
    return digest("look at questions", look, distinct), distinct


def _place(shelf: Looks, page: LedgerPage | None, key: str, questions: Collection[str]) -> tuple[PreviousUses, bool]:
    """Return the look of this ``key`` as it is recorded or would be, and whether it is recorded."""
    row = shelf.row(key)
    here = PreviousUses(row.number, row.fresh) if row else None
    there = page.get(key) if page else None
    if here and page and not there:
        return renumber_look(here, shelf.looks(questions), page.looks(questions), questions), True
    if before := [one for one in (here, there) if one]:
        return max(before, key=lambda one: one.number), True
    return number_look(shelf.looks(questions), page.looks(questions) if page else {}, questions, key), False


def peek_look(store: Store, look: str, questions: Collection[str]) -> tuple[HoldoutUse, bool]:
    """Return the look that `count_look` would return, and whether it is recorded; nothing is written.

    A ledger that cannot be used is ignored without a warning: the look is then not ``remembered``.
    """
    key, distinct = _identify(look, questions)

    def read(page: LedgerPage | None) -> tuple[PreviousUses, bool]:
        with store.looking() as shelf:
            return _place(shelf, page, key, distinct)

    (seen, recorded), remembered = run_with_ledger(read, read_only=True)
    return HoldoutUse(seen.number, len(distinct), seen.fresh, remembered), recorded


def count_look(store: Store, look: str, questions: Collection[str], day: str) -> HoldoutUse:
    """Record a look at ``questions``, given as digests of their contents, on an ISO 8601 ``day``, and return it.

    The same key on other questions is another look. A recorded look keeps its number, the higher one if cache and
    ledger differ. One recorded in the cache alone, without a ledger, is numbered after all looks that only the ledger
    has. A new one is numbered after all looks at the question with most of them.

    Raises:
        BudgetExhausted: it is new, and exceeds the limit of ``store``; nothing is recorded.
    """
    key, distinct = _identify(look, questions)

    def decide(page: LedgerPage | None) -> PreviousUses:
        with store.looking() as shelf:
            seen, recorded = _place(shelf, page, key, distinct)
            if store.max_looks is not None and seen.number > store.max_looks and not recorded:
                raise BudgetExhausted(
                    f"the limit on looks at test questions (--max-looks {store.max_looks}) is reached, and this would "
                    f"be look {seen.number} at some of them: compare on search questions"
                )
            shelf.put(LookRow(key, seen.number, seen.fresh, day, distinct))
            if page:
                page.record(key, distinct, seen, day)
        return seen

    seen, remembered = run_with_ledger(decide)
    return HoldoutUse(seen.number, len(distinct), seen.fresh, remembered)
