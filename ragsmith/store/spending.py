"""The spending of runs: a row per run, increased before a request is sent and corrected with its reply.

A row is durable when `SpendLedger.spend` returns, so it never understates the spending, even if the process is killed.
Damaged or missing rows and a lost log are detected; the run then continues only after the user confirms the amount
spent.
"""

from dataclasses import replace

from sqlalchemy import Connection, select

from ragsmith.errors import SpendingDamaged
from ragsmith.gateway.budget import NOTHING_SPENT, TOTAL_KEY, Budget, Limits, Spending, Spent
from ragsmith.store.database import Database
from ragsmith.store.engine import log_path, take_advisory_lock
from ragsmith.store.rows import column_values
from ragsmith.store.schema import RUN, SPENDING

LOST_LOG_KEY = ""
"""The key of the row that is written if a log was lost: runs without a row may have been in it."""

IN_DOUBT = "was damaged before, or lacks the rows of a missing log of its cache"
DAMAGED = "is damaged"
MISSING = "is missing"
"""The predicates of messages about the record of a run; the subject is the spending record."""


class SpendLedger:
    """The spending of all runs in one database; see `ragsmith.gateway.budget.Ledger`."""

    total: Budget | None = None
    """The budget, under `TOTAL_KEY`, of all requests through this store together, also of those without a run.

    It continues from the amount of earlier processes with such a budget on this database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def spend(self, key: str, amount: Spent, limits: Limits | None) -> Spent | None:
        """Add to the spending of a run, or return None if a limit would be exceeded; atomic between processes."""
        with self._database.writing_exclusively("spending", key) as connection:
            return self._add(connection, key, amount, limits)

    def settle(self, connection: Connection, key: str, amount: Spent) -> None:
        """Add the cost of replies in the transaction that stores them, without checking limits."""
        self._add(connection, key, amount, None)

    def spending(self, key: str) -> Spending:
        """Return the spending of a run, after inserting a row for a new run."""
        with self._database.writing_exclusively("spending", key) as connection:
            stored = self._read(connection, key)
            if stored is not None:
                return stored
            if connection.execute(select(RUN.c.key).where(RUN.c.key == key)).first() is not None:
                return Spending(NOTHING_SPENT, MISSING)
            if self._read(connection, LOST_LOG_KEY) is not None:
                return Spending(NOTHING_SPENT, IN_DOUBT)
            self._write(connection, key, NOTHING_SPENT)
        return Spending(NOTHING_SPENT)

    def accept_spent(self, key: str, spent: Spent | None) -> Spent:
        """Replace a damaged row by ``spent``, the amount that the user states; None keeps it in doubt."""
        with self._database.writing_exclusively("spending", key) as connection:
            stored = self._read(connection, key) or Spending(NOTHING_SPENT, MISSING)
            if not stored.damage:  # another process has replaced the row
                return stored.spent
            accepted = stored.spent.maximum(spent or NOTHING_SPENT)
            self._write(connection, key, accepted, in_doubt=spent is None)
        return accepted

    def mark_in_doubt(self) -> str:
        """Mark the spending of all runs as in doubt if the log of the database is missing; return a message or ""."""
        path = self._database.path
        if path is None or not self._database.is_log_missing:
            return ""
        with self._database.writing() as connection:
            for run in (LOST_LOG_KEY, *connection.execute(select(SPENDING.c.run)).scalars().all()):
                current = self._read(connection, run) or Spending(NOTHING_SPENT)
                if current.damage != DAMAGED:
                    self._write(connection, run, current.spent, in_doubt=True)
        return (
            f"{path} was not closed by its last user, and its log {log_path(path).name} is missing: the rows in it, "
            "if any, are lost and are computed again when needed, and their cost is not counted"
        )

    def _add(self, connection: Connection, key: str, amount: Spent, limits: Limits | None) -> Spent | None:
        """Add to the spending of a run and under the total budget, or to neither if ``limits`` are exceeded."""
        bounds = {key: limits, **({TOTAL_KEY: limits and self.total.limits} if self.total else {})}
        after: dict[str, Spending] = {}
        for run, limited in bounds.items():  # the total comes last in all processes, so that none wait for each other
            take_advisory_lock(connection, "spending", run)
            current = self._read_intact(connection, run)
            after[run] = replace(current, spent=current.spent + amount)
            if limited and limited.exceeded(after[run].spent):
                return None
        for run, its in after.items() if amount != NOTHING_SPENT else ():
            self._write(connection, run, its.spent, in_doubt=bool(its.damage))
        return after[key].spent

    def _read_intact(self, connection: Connection, run: str) -> Spending:
        """Return the spending of a run that this process has started.

        Raises:
            SpendingDamaged: the row was damaged after the start.
        """
        current = self._read(connection, run)
        if current is None or current.damage == DAMAGED:
            raise SpendingDamaged(
                f"the spending record of this run was damaged in {self._database.name} during the run: "
                "run the same command again to see what remains of it"
            )
        return current

    def _read(self, connection: Connection, run: str) -> Spending | None:
        row = connection.execute(select(SPENDING).where(SPENDING.c.run == run)).first()
        if row is None:
            return None
        values = self._database.intact(SPENDING, tuple(row))
        if values is None:
            return Spending(NOTHING_SPENT, DAMAGED)
        _, *amounts, state = values
        return Spending(Spent(*amounts), "" if state == "known" else IN_DOUBT)

    def _write(self, connection: Connection, run: str, spent: Spent, *, in_doubt: bool = False) -> None:
        row = (run, *column_values(spent), "in doubt" if in_doubt else "known")
        self._database.put(connection, SPENDING, [row], replacing=True)
