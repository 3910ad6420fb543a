"""The spending of runs: one row a run, which is raised before a request is sent and lowered with its reply.

A row is durable when `SpendLedger.spend` returns, so after a kill at any moment it has at least what was sent. A row
that is damaged or gone, and a lost log, are detected: no limit holds until the user states what was spent.
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
"""The key of a row for the runs that were only in a lost log."""

IN_DOUBT = "was damaged before, or lacks what was in a log of its cache that is gone"
DAMAGED = "is not what was written"
GONE = "is gone"


class SpendLedger:
    """The spending of all runs in one database; see `ragsmith.gateway.budget.Ledger`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def spend(self, key: str, amount: Spent, limits: Limits) -> Spent | None:
        """Add to the spending of a run: in one transaction, so that several processes share a limit."""
        with self._database.writing_alone("spending", key) as connection:
            known = self._usable(connection, key)
            after = known.spent + amount
            if limits.exceeded(after):
                return None
            if amount != NOTHING_SPENT:
                self._write(connection, key, after, in_doubt=bool(known.damage))
        return after

    def settle(self, connection: Connection, key: str, amount: Spent) -> None:
        """Add the cost of replies, in the transaction that stores them, without a check of limits."""
        take_advisory_lock(connection, "spending", key)
        known = self._usable(connection, key)
        self._write(connection, key, known.spent + amount, in_doubt=bool(known.damage))

    def spending(self, key: str) -> Spending:
        """The spending of a run; a new run gets its row."""
        with self._database.writing_alone("spending", key) as connection:
            found = self._read(connection, key)
            if found is not None:
                return found
            if connection.execute(select(RUN.c.key).where(RUN.c.key == key)).first() is not None:
                return Spending(NOTHING_SPENT, GONE)
            if self._read(connection, LOST_RUNS) is not None:
                return Spending(NOTHING_SPENT, IN_DOUBT)
            self._write(connection, key, NOTHING_SPENT)
        return Spending(NOTHING_SPENT)

    def accept_spent(self, key: str, spent: Spent | None) -> Spent:
        """Replace a damaged row."""
        with self._database.writing_alone("spending", key) as connection:
            found = self._read(connection, key) or Spending(NOTHING_SPENT, GONE)
            if not found.damage:  # another process was first
                return found.spent
            accepted = found.spent.at_least(spent or NOTHING_SPENT)
            self._write(connection, key, accepted, in_doubt=spent is None)
        return accepted

    def doubt_after_lost_log(self) -> str:
        """Mark all runs as in doubt where the log of the database is gone; return a sentence on it, or ""."""
        path = self._database.path
        if path is None or not self._database.log_is_gone:
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

    def _usable(self, connection: Connection, run: str) -> Spending:
        """The row of a run that has begun in this process.

        Raises:
            SpendingDamaged: the row was damaged meanwhile.
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
