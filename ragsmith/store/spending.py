"""What runs have spent: a record that is only added to, and believed only as a whole.

Each row says what was reserved or settled, and what the sum is after it. The total of a run stands in a table of its
own, and, for a file, beside the database (`ragsmith.store.witness`); and what was paid for stands with the replies. A
row that is damaged breaks its checksum; one that is gone leaves a gap, in the numbers or in the sums; rows that are
gone from the end leave total or witness ahead, and where all of these are of an earlier day, the replies.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal
from uuid import uuid4

from sqlalchemy import Connection, Double, cast, delete, func, select

from ragsmith.errors import Notice, SpendingDamaged
from ragsmith.gateway.budget import NOTHING_SPENT, Limits, Spending, Spent
from ragsmith.store.database import Database
from ragsmith.store.engine import alone_at, log_of
from ragsmith.store.rows import columns_of, unseal
from ragsmith.store.schema import EXPENSE, ORIGIN, PAYMENT, RUN, SPENDING
from ragsmith.store.witness import Mark, Witness

FOLDED_FROM = 10_000
"""Rows of one run that are put together into one when it is next begun, so that reading them stays quick."""

Kind = Literal["begun", "reserved", "settled", "folded", "accepted", "at least", "in doubt"]
"""What a row stands for: ``accepted`` is what somebody said, and ``at least`` what was found, of a damaged record.

One ``in doubt`` was written when a log was gone that may have held more rows.
"""

MOMENT_SECONDS = 1.0
"""Between the row of a process and its mark in the witness, on a busy machine."""

UNKNOWN_RUNS = ""
"""Has a row in doubt for the runs that only the log knew of."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the record of one run; ``after`` is the sum of it and of all before it."""

    number: int
    kind: Kind
    amount: Spent
    after: Spent


@dataclass(frozen=True, slots=True)
class _Found:
    """All that is left of what one run has spent. ``total`` is None where there is no such row that is intact."""

    entries: Sequence[Entry]
    damaged: int
    total: Spent | None
    marks: Sequence[Mark]
    sent: int
    """Requests that the run has said it had sent, when it last paused or ended."""
    paid: Spent
    """What was paid when replies were kept, where the rest does not say that it was as much."""
    is_known: bool
    """Whether the run has begun, so that it must have a record."""
    in_doubt: bool
    """Whether a log was lost that may have held rows of it."""

    @property
    def last(self) -> tuple[int, Spent]:
        """The highest number of a row that is known of, and the sum after it."""
        rows = [(entry.number, entry.after) for entry in self.entries[-1:]]
        rows += [(mark.number, mark.after) for mark in self.marks]
        return max(rows, key=lambda row: row[0], default=(0, NOTHING_SPENT))

    def spent(self) -> Spent:
        """What was spent; where something is missing, what is known at least."""
        return self.last[1].at_least(self.total or NOTHING_SPENT).at_least(Spent(self.sent)).at_least(self.paid)


class Spendings:
    """The records of all runs in one database."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._witness: Witness | None = None
        if database.path is not None:
            self._witness = Witness(database.path.with_name(f"{database.path.name}-spent"))
        self._seen: dict[str, int] = {}
        self._beside = self._witness.path.name if self._witness else ""

    def spend(self, run: str, amount: Spent, limits: Limits) -> Spent | None:
        """See `ragsmith.gateway.budget.Ledger`: one transaction, so several processes keep one limit together."""
        with self._database.writing_alone("spending", run) as connection:
            last = self._last(connection, run)
            after = last.after + amount
            if limits.exceeded(after):
                return None
            if amount == NOTHING_SPENT:
                return after
            more = max(amount.calls, amount.tokens, amount.cost) > 0
            entry = Entry(last.number + 1, "reserved" if more else "settled", amount, after)
            self._write(connection, run, entry)
        self._seen[run] = entry.number
        if more:  # what is given back may be forgotten
            self._bear_witness(run, entry)
        return after

    def settle(self, connection: Connection, run: str, amount: Spent) -> None:
        """Add what replies cost, in the transaction in which they are kept.

        There is no limit on it, and where the log is lost the replies are, too: so it needs no witness.
        """
        alone_at(connection, "spending", run)
        last = self._last(connection, run)
        self._write(connection, run, Entry(last.number + 1, "settled", amount, last.after + amount))

    def state(self, run: str) -> Spending:
        """What ``run`` has spent, read from the first row on; where that is known, a row says that it goes on."""
        marks = self._marks()  # before the rows, which others may be adding to
        with self._database.writing_alone("spending", run) as connection:
            found = self._found(connection, run, marks)
            damage = self._damage(found)
            entry = None if damage else self._begin(connection, run, found)
        self._look_at_witness(run, found, is_whole=entry is not None)
        if entry is not None:
            self._bear_witness(run, entry)
        if entry is not None and not found.entries:
            self._tell_of_another(run)
        return Spending(found.spent(), damage)

    def accept(self, run: str, spent: Spent | None) -> Spent:
        """See `ragsmith.gateway.budget.Ledger`: the record begins anew."""
        marks = self._marks()
        with self._database.writing_alone("spending", run) as connection:
            found = self._found(connection, run, marks)
            if not self._damage(found):  # another process was first
                return found.spent()
            sum_ = found.spent().at_least(spent or NOTHING_SPENT)
            entry = Entry(found.last[0] + 1, "at least" if spent is None else "accepted", sum_, sum_)
            self._replace(connection, run, entry)
        self._bear_witness(run, entry)
        return sum_

    def lost_log(self) -> str:
        """What is lost with a log that is gone, in one sentence; "" if none is, or the witness knows of no loss.

        Where the witness cannot say of every run what is lost, what each has spent is in doubt from then on.
        """
        path = self._database.path
        if path is None or self._witness is None or not self._database.log_is_gone:
            return ""
        marks, lost = self._marks(), NOTHING_SPENT
        ahead = False
        with self._database.reading() as connection:
            for mark in {mark.run: mark for mark in sorted(marks, key=lambda mark: mark.number)}.values():
                latest = select(func.max(EXPENSE.c.number)).where(EXPENSE.c.run == mark.run)
                if mark.number > (connection.execute(latest).scalar_one() or 0):
                    ahead = True
                    lost += (mark.after + -(self._total(connection, mark.run) or NOTHING_SPENT)).at_least(NOTHING_SPENT)
        is_witnessed = bool(marks) and not self._witness.damaged()
        if is_witnessed and not ahead:
            return ""  # another program has moved the log into the file
        if not is_witnessed:
            self._doubt()
        held = "held" if ahead else "may have held"
        paid = f", with what was paid for {lost}" if lost != NOTHING_SPENT else ""
        return (
            f"{path} was not closed by its last user, and its log {log_of(path).name} is gone: what it {held} is "
            f"lost{paid}, and is made again where it is needed"
        )

    def _doubt(self) -> None:
        """Make every run ask before it goes on, in whatever command that is: only this one sees that the log is gone.

        A record that is damaged is left as it is: its run asks anyway.
        """
        with self._database.writing() as connection:
            for run in (UNKNOWN_RUNS, *connection.execute(select(EXPENSE.c.run).distinct()).scalars().all()):
                with suppress(SpendingDamaged):
                    last = self._last(connection, run)
                    self._write(connection, run, Entry(last.number + 1, "in doubt", NOTHING_SPENT, last.after))

    def _begin(self, connection: Connection, run: str, found: _Found) -> Entry:
        """Write the first row of a command, with all before it put together where they are many.

        Without it, a log that is lost before anything was spent would be lost unseen.
        """
        spent, number = found.spent(), found.last[0] + 1
        if 0 < len(found.entries) <= FOLDED_FROM:
            entry = Entry(number, "begun", NOTHING_SPENT, spent)
            self._write(connection, run, entry)
        else:
            entry = Entry(number, "folded" if found.entries else "begun", spent, spent)
            self._replace(connection, run, entry)
        return entry

    def _found(self, connection: Connection, run: str, marks: Sequence[Mark]) -> _Found:
        rows = connection.execute(select(EXPENSE).where(EXPENSE.c.run == run).order_by(EXPENSE.c.number)).all()
        entries = [entry for row in rows if (entry := _entry(tuple(row)))]
        has_total = connection.execute(select(func.count()).where(SPENDING.c.key == run)).scalar_one()
        stored = next(self._database.fetch_keyed(connection, RUN, [run]), None)
        account = (stored[3].get("account") or {}) if stored else {}
        found = _Found(
            entries,
            len(rows) - len(entries),
            self._total(connection, run),
            [mark for mark in marks if mark.run == run],
            int(account.get("spent", {}).get("calls", 0)),
            NOTHING_SPENT,
            bool(rows or has_total or stored),
            any(entry.kind == "in doubt" for entry in entries)
            or (not rows and self._total(connection, UNKNOWN_RUNS) is not None),
        )
        return replace(found, paid=self._paid_beyond(connection, run, found.spent()))

    def _paid_beyond(self, connection: Connection, run: str, spent: Spent) -> Spent:
        """What was paid when replies were kept, if that is more than ``spent``; else nothing.

        The database adds it up, which takes next to no time; only where that is too much are checksums looked at. Money
        is not compared: it is rounded in another order.
        """
        # a flipped bit makes a whole number too large for the sum of whole numbers, but not for this one
        sums = [func.coalesce(func.sum(cast(column, Double)), 0.0) for column in (PAYMENT.c.calls, PAYMENT.c.tokens)]
        calls, tokens = tuple(connection.execute(select(*sums).where(PAYMENT.c.run == run)).one())
        if calls <= spent.calls and tokens <= spent.tokens:
            return NOTHING_SPENT
        rows = self._database.fetch(connection, PAYMENT, select(PAYMENT).where(PAYMENT.c.run == run))
        paid = sum((Spent(*amount) for _, _, *amount in rows), NOTHING_SPENT)
        return paid if paid.calls > spent.calls or paid.tokens > spent.tokens else NOTHING_SPENT

    def _damage(self, found: _Found) -> str:
        """What is wrong with a record, in words that follow "it"; "" if it is whole."""
        return next(chain(_broken(found), self._contradicted(found)), "")

    def _contradicted(self, found: _Found) -> Iterator[str]:
        """What rows that are whole by themselves do not agree with."""
        if found.in_doubt:
            yield "may have lost what was in the log of its cache, which was gone"
        if not found.entries:
            return
        first, last = found.entries[0].number, found.entries[-1]
        for mark in sorted(found.marks, key=lambda mark: -mark.number):
            if mark.number > last.number:
                yield (
                    f"ends at row {last.number} with {last.after}, where {self._beside} has row {mark.number} with "
                    f"{mark.after}: the log was lost or damaged, or an older copy was put back"
                )
            if mark.number >= first and found.entries[mark.number - first].after != mark.after:
                yield f"is another than the one that {self._beside} has seen"
        if last.after.calls < found.sent:
            yield f"ends at {last.after}, and {found.sent:,} requests had been sent when the run paused"
        if found.paid != NOTHING_SPENT:
            yield f"ends at {last.after}, and {found.paid} had been paid when the last of its replies was kept"
        if any(entry.kind == "at least" for entry in found.entries):
            yield "was damaged before, and has gone on from what was known at least"

    def _last(self, connection: Connection, run: str) -> Entry:
        """The last row of a record; one before the first if there is none."""
        statement = select(EXPENSE).where(EXPENSE.c.run == run).order_by(EXPENSE.c.number.desc()).limit(1)
        row = connection.execute(statement).first()
        last = Entry(0, "begun", NOTHING_SPENT, NOTHING_SPENT) if row is None else _entry(tuple(row))
        if last is None or last.number < self._seen.get(run, 0):
            raise SpendingDamaged(
                f"the record of what this run has spent was damaged in {self._database.name} while it went on: "
                "run the same command again to see what is left of it"
            )
        return last

    def _total(self, connection: Connection, run: str) -> Spent | None:
        return next((Spent(*row[1:]) for row in self._database.fetch_keyed(connection, SPENDING, [run])), None)

    def _write(self, connection: Connection, run: str, entry: Entry) -> None:
        row = (run, entry.number, entry.kind, *columns_of(entry.amount), *columns_of(entry.after))
        self._database.put(connection, EXPENSE, [row])
        self._database.put(connection, SPENDING, [(run, *columns_of(entry.after))], replacing=True)

    def _replace(self, connection: Connection, run: str, entry: Entry) -> None:
        connection.execute(delete(EXPENSE).where(EXPENSE.c.run == run))
        self._write(connection, run, entry)

    def _bear_witness(self, run: str, entry: Entry) -> None:
        if self._witness is not None:
            self._witness.write(Mark(self._origin, run, entry.number, entry.after))

    def _look_at_witness(self, run: str, found: _Found, *, is_whole: bool) -> None:
        """Say what is wrong with the witness by itself; where it is damaged, have it say what the records say."""
        if self._witness is None:
            return
        if damaged := self._witness.damaged():
            marks = []
            with self._database.reading() as connection:
                for each in connection.execute(select(EXPENSE.c.run).distinct()).scalars().all():
                    with suppress(SpendingDamaged):  # that run finds out by itself
                        last = self._last(connection, each)
                        marks.append(Mark(self._origin, each, last.number, last.after))
            self._witness.mend(damaged, marks)
            what = f"was damaged in {len(damaged)} of its lines"
        # whoever wrote the first row may have left no mark
        elif is_whole and not found.marks and found.last[0] > 1 and not self._is_marked_soon(run):
            what = "knows nothing of this run: it was removed, or not copied with its cache"
        else:
            return
        warnings.warn(f"{self._beside} {what}; it is written again from {self._database.name}", Notice, stacklevel=3)

    def _is_marked_soon(self, run: str) -> bool:
        """Whether a run has a mark, or gets one in a moment: from a process that has just written its first row."""
        until = time.monotonic() + MOMENT_SECONDS
        while not (is_marked := any(mark.run == run for mark in self._marks())) and time.monotonic() < until:
            time.sleep(MOMENT_SECONDS / 20)
        return is_marked

    def _tell_of_another(self, run: str) -> None:
        """Say what a run that is new here has spent in a database that was removed, and is not counted."""
        marks = [m for m in self._witness.marks() if m.run == run and m.origin != self._origin] if self._witness else []
        spent = max(marks, key=lambda mark: mark.number).after if marks else NOTHING_SPENT
        if spent != NOTHING_SPENT:
            warnings.warn(
                f"this run has spent {spent} in another cache of this name, as {self._beside} says: that is not "
                "counted, as nothing of it is left",
                Notice,
                stacklevel=2,
            )

    def _marks(self) -> list[Mark]:
        """What the witness has seen of this database, and not of another that has had its name."""
        if self._witness is None:
            return []
        return [mark for mark in self._witness.marks() if mark.origin == self._origin]

    @cached_property
    def _origin(self) -> str:
        """What tells this database from others of its name; written again if it was damaged."""
        with self._database.reading() as connection:
            found = [key for (key,) in self._database.fetch(connection, ORIGIN, select(ORIGIN).order_by(ORIGIN.c.key))]
        if found:
            return str(found[0])
        new = uuid4().hex
        with self._database.writing() as connection:
            self._database.put(connection, ORIGIN, [(new,)])
        return new


def _broken(found: _Found) -> Iterator[str]:
    """What is wrong with the rows and the total among themselves."""
    if found.damaged:
        yield f"has rows that are not what was written ({found.damaged} of {found.damaged + len(found.entries)})"
    if not found.entries and (found.is_known or found.marks or found.paid != NOTHING_SPENT):
        yield "has lost all its rows"
    before = Entry(found.entries[0].number - 1 if found.entries else 0, "begun", NOTHING_SPENT, NOTHING_SPENT)
    for entry in found.entries:
        if entry.number != before.number + 1 or entry.after != before.after + entry.amount:
            yield f"has lost rows before row {entry.number}"
        before = entry
    if found.entries and found.total != before.after:
        yield f"ends at {before.after}, and its total is {found.total or 'damaged or gone'}"


def _entry(row: Sequence[Any]) -> Entry | None:
    """A row of the record; None if it is not what was written."""
    values = unseal(EXPENSE, row)
    if values is None:
        return None
    _, number, kind, *sums = values
    return Entry(number, kind, Spent(*sums[:3]), Spent(*sums[3:]))
