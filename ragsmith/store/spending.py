"""The spending of runs: a row per run, increased before a request is sent and corrected with its reply.

A row is durable when `SpendLedger.spend` returns, so that it never understates the spending, even if the process is
killed. Damaged or missing rows and a lost log are detected; the run then continues only after the user confirms the
amount spent.
"""

from __future__ import annotations

from sqlalchemy import Connection, select

from ragsmith.errors import SpendingDamaged
from ragsmith.gateway.budget import NOTHING_SPENT, Limits, Spending, Spent
from ragsmith.store.database import Database
from ragsmith.store.engine import log_of, take_advisory_lock
from ragsmith.store.rows import columns_of
from ragsmith.store.schema import RUN, SPENDING

LOST_RUNS = ""
"""The key of a row that stands for the runs of a lost log."""

IN_DOUBT = "was damaged before, or lacks what was in a log of its cache that is gone"
DAMAGED = "is not what was written"
GONE = "is gone"


class SpendLedger:
    """The spending of all runs in one database; see `ragsmith.gateway.budget.Ledger`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def spend(self, key: str, amount: Spent, limits: Limits) -> Spent | None:
        """Add to the spending of a run, or return None if a limit would be exceeded; atomic between processes."""
        with self._database.writing_exclusively("spending", key) as connection:
            known = self._read_intact(connection, key)
            after = known.spent + amount
            if limits.exceeded(after):
                return None
            if amount != NOTHING_SPENT:
                self._write(connection, key, after, in_doubt=bool(known.damage))
        return after

    def settle(self, connection: Connection, key: str, amount: Spent) -> None:
        """Add the cost of replies in the transaction that stores them, without checking limits."""
        take_advisory_lock(connection, "spending", key)
        known = self._read_intact(connection, key)
        self._write(connection, key, known.spent + amount, in_doubt=bool(known.damage))

    def spending(self, key: str) -> Spending:
        """Return the spending of a run, after inserting a row for a new run."""
        with self._database.writing_exclusively("spending", key) as connection:
            stored = self._read(connection, key)
            if stored is not None:
                return stored
            if connection.execute(select(RUN.c.key).where(RUN.c.key == key)).first() is not None:
                return Spending(NOTHING_SPENT, GONE)
            if self._read(connection, LOST_RUNS) is not None:
                return Spending(NOTHING_SPENT, IN_DOUBT)
            self._write(connection, key, NOTHING_SPENT)
        return Spending(NOTHING_SPENT)

    def accept_spent(self, key: str, spent: Spent | None) -> Spent:
        """Replace a damaged row by the amount that the user states."""
        with self._database.writing_exclusively("spending", key) as connection:
            stored = self._read(connection, key) or Spending(NOTHING_SPENT, GONE)
            if not stored.damage:  # another process has replaced it
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
            for run in (LOST_RUNS, *connection.execute(select(SPENDING.c.run)).scalars().all()):
                known = self._read(connection, run) or Spending(NOTHING_SPENT)
                if known.damage != DAMAGED:
                    self._write(connection, run, known.spent, in_doubt=True)
        return (
            f"{path} was not closed by its last user, and its log {log_of(path).name} is gone: what it may have held "
            "is lost and is computed again where it is needed, and what was paid for it is not counted"
        )

    def _read_intact(self, connection: Connection, run: str) -> Spending:
        """Return the row of a run that this process has started.

        Raises:
            SpendingDamaged: the row was damaged after the start.
        """
        known = self._read(connection, run)
        if known is None or known.damage == DAMAGED:
            raise SpendingDamaged(
                f"the record of what this run has spent was damaged in {self._database.name} while it went on: "
                "run the same command again to see what is left of it"
            )
        return known

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
        row = (run, *columns_of(spent), "in doubt" if in_doubt else "known")
        self._database.put(connection, SPENDING, [row], replacing=True)
