"""The durable store: paid replies, data sets, evaluations with their results, and runs with their proposals.

A row is durable when the method that wrote it returns. Many threads may share a Store; every process opens its own on
the same file or URL. A row that fails its checksum counts as absent, so that it is computed again and replaced, and is
named in `Store.damaged`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Table, delete, func, select, tuple_
from sqlalchemy.engine import URL

from ragsmith.errors import DamagedRows, Notice, SpendingDamaged, StoreError, UsageError
from ragsmith.gateway.budget import NOTHING_SPENT, Payment
from ragsmith.gateway.failures import CLASSES, FailedCall
from ragsmith.gateway.leases import Lease
from ragsmith.models.calls import Json, StoredCall
from ragsmith.models.capabilities import ModelCapabilities
from ragsmith.store.database import BATCH, Database
from ragsmith.store.engine import parse_location, take_advisory_lock
from ragsmith.store.maintenance import Damage, Statistics, damaged_rows, statistics
from ragsmith.store.rows import (
    DatasetRow,
    DiagnosisRow,
    EvaluationRow,
    LatencyRow,
    LookRow,
    ProposalRow,
    ResultRow,
    RunRow,
    RunState,
    add_checksum,
    batches,
    columns_of,
    newer_result,
    upsert,
)
from ragsmith.store.schema import (
    CLAIM,
    DATASET,
    DIAGNOSIS,
    EVALUATION,
    FAILED_CALL,
    FINDING,
    FIT,
    LATENCY,
    LEASE,
    LOOK,
    LOOKED,
    MODEL_CALL,
    PROPOSAL,
    RESULT,
    RUN,
    TRAITS,
    VECTOR_TASKS,
)
from ragsmith.store.spending import SpendLedger

__all__ = [
    "Damage",
    "DatasetRow",
    "DiagnosisRow",
    "EvaluationRow",
    "LatencyRow",
    "LookRow",
    "ProposalRow",
    "ResultRow",
    "RunRow",
    "RunState",
    "Statistics",
    "Store",
    "StoredCall",
    "open_store",
]

T = TypeVar("T")

TIMEOUT = 30.0
"""Seconds that a write waits for another process by default."""


class Looks:
    """The counted uses of test questions (looks), in one transaction."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self._connection = connection

    def row(self, look: str) -> LookRow | None:
        """The look under this key."""
        rows = self._database.fetch_keyed(self._connection, LOOK, [look], column="look")
        return next((LookRow(*row) for row in rows), None)

    def looks(self, questions: Collection[str]) -> dict[str, set[str]]:
        """The keys of the looks at each of the ``questions`` that has some."""
        found: dict[str, set[str]] = {}
        for question, look in self._database.fetch_keyed(self._connection, LOOKED, questions, column="question"):
            found.setdefault(question, set()).add(look)
        return found

    def put(self, row: LookRow) -> None:
        """Store a look, replacing the one under its key."""
        self._database.put(self._connection, LOOK, [columns_of(row)], replacing=True)
        self._database.put(self._connection, LOOKED, [(question, row.look) for question in row.questions])


MOST_NAMED = 10
"""How many damaged rows a warning names."""


class _NotAllNew(Exception):
    """There is a row already under the key of another."""


@contextmanager
def open_store(cache: Store | str | Path, *, read_only: bool = False) -> Iterator[Store]:
    """``cache`` as a context: an open store stays open, a file or URL is opened and closed.

    With ``read_only``, damaged rows that were read are named in a `DamagedRows` warning at the end.

    Raises:
        UsageError: there is no such file.
    """
    path = None if isinstance(cache, Store) else parse_location(cache)
    if read_only and isinstance(path, Path) and not path.exists():
        raise UsageError(f"there is no cache {str(path)!r}: run a search first, or name its cache with --cache")
    with nullcontext(cache) if isinstance(cache, Store) else Store.open(cache, read_only=read_only) as store:
        try:
            yield store
        finally:
            if read_only and store.damaged:
                more = f" and {len(store.damaged) - MOST_NAMED:,} more" if len(store.damaged) > MOST_NAMED else ""
                warnings.warn(
                    f"damaged in {store.place}, and left out: {', '.join(store.damaged[:MOST_NAMED])}{more}; "
                    "the same search again computes what was there",
                    DamagedRows,
                    stacklevel=3,
                )


class Store(SpendLedger):
    """The cache on disk. Made by `open`; a context manager that closes itself.

    Every method raises StoreError when the database cannot be used: locked for too long, disk full, not writable,
    damaged beyond single rows, or closed. Values are anything with a canonical JSON form (TypeError or ValueError
    otherwise) and come back as ``json.loads`` gives them, with sorted keys.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._vector_lengths: dict[str, int] = {}

    @classmethod
    def open(cls, location: str | Path | URL, *, read_only: bool = False, timeout: float = TIMEOUT) -> Self:
        """Open the file, made on first use, or the PostgreSQL URL ``location``.

        ``timeout`` is how many seconds a write waits for another process, ten times as long on a server.

        Raises:
            StoreError: the place cannot be used, belongs to another program or has another format; it is left as it is.
            MissingExtra: the driver of a server is not installed.
        """
        store = cls(Database.open(location, read_only=read_only, timeout=timeout))
        if lost := store.doubt_after_lost_log():
            warnings.warn(lost, Notice, stacklevel=2)
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close; the file is then complete by itself, unless another process still has it open."""
        self._database.close()

    @property
    def place(self) -> str:
        """The path or URL, without a password."""
        return self._database.name

    @property
    def location(self) -> Path | URL:
        """The file, or the URL of the server with its password."""
        return self._database.location

    @property
    def damaged(self) -> list[str]:
        """``table:key`` of every damaged row that was read so far."""
        return list(self._database.damaged)

    # Model calls

    def get_call(self, key: str) -> StoredCall | None:
        """The call under ``key``."""
        return self.get_calls([key]).get(key)

    def get_calls(self, keys: Iterable[str]) -> dict[str, StoredCall]:
        """The stored calls among ``keys``, by key; a vector of another length than most of its model is damaged."""
        with self._database.reading() as connection:
            found = {row[0]: StoredCall(*row) for row in self._database.fetch_keyed(connection, MODEL_CALL, keys)}
            for key, call in list(found.items()):
                is_vector = call.task in VECTOR_TASKS and isinstance(call.value, str)
                if is_vector and len(call.value) + len('""') != self._vector_length(connection, call.model):
                    self._database.damaged.setdefault(f"{MODEL_CALL.name}:{key}")
                    del found[key]
        return found

    def _vector_length(self, connection: Connection, model: str) -> int:
        """The length of most vectors of a model, as they are stored."""
        if model not in self._vector_lengths:
            length = func.length(MODEL_CALL.c.value)
            of_model = select(length).where(MODEL_CALL.c.model == model)
            usual = of_model.group_by(length).order_by(func.count().desc()).limit(1)
            self._vector_lengths[model] = connection.execute(usual).scalar_one()
        return self._vector_lengths[model]

    def some_calls(self, model: str, most: int) -> list[StoredCall]:
        """Up to ``most`` calls of a model: the first by their keys, which are digests, so a random sample."""
        rows = self._all(MODEL_CALL, MODEL_CALL.c.model == model, order=(MODEL_CALL.c.key,), most=most)
        return [StoredCall(*row) for row in rows]

    def put_calls(
        self, calls: Iterable[StoredCall], *, replacing: bool = False, payment: Payment | None = None
    ) -> None:
        """Store several, and the payment of a run, in one transaction."""
        rows = [columns_of(call) for call in calls]
        with self._database.writing() as connection:
            if payment is not None and payment.amount != NOTHING_SPENT:
                with suppress(SpendingDamaged):  # paid replies are stored all the same; the next reservation raises
                    self.settle(connection, payment.run, payment.amount)
            self._database.put(connection, MODEL_CALL, rows, replacing=replacing)
            for batch in batches([row[0] for row in rows], BATCH):
                for table in (CLAIM, FAILED_CALL):
                    connection.execute(delete(table).where(table.c.key.in_(batch)))

    def has_reply(self, model: str, task: str | None) -> bool:
        """Whether there is any reply of a model, to a task if one is named."""
        statement = select(MODEL_CALL.c.key).where(MODEL_CALL.c.model == model).limit(1)
        if task is not None:
            statement = statement.where(MODEL_CALL.c.task == task)
        with self._database.reading() as connection:
            return connection.execute(statement).first() is not None

    def failed_calls(self, keys: Iterable[str]) -> dict[str, FailedCall]:
        """The requests among ``keys`` that failed, by key."""
        found = (FailedCall(*row) for row in self._keyed(FAILED_CALL, keys))
        return {one.key: one for one in found if one.kind in CLASSES}

    def put_failed_calls(self, failed: Sequence[FailedCall]) -> None:
        """Store several in one transaction; attempts and costs are added to those stored."""
        with self._database.writing_alone("failed_call") as connection:
            stored = self.failed_calls(one.key for one in failed)
            summed = [one.after(stored[one.key]) if one.key in stored else one for one in failed]
            self._database.put(connection, FAILED_CALL, map(columns_of, summed), replacing=True)

    def claim_many(
        self, keys: Sequence[str], owner: str, *, lease: Lease | None, is_gone: Callable[[Lease, Collection[str]], bool]
    ) -> tuple[set[str], dict[str, StoredCall]]:
        """The keys whose calls ``owner`` may make now, and the stored calls among ``keys``, in one transaction.

        A claim ends with the reply, with `release`, or when ``is_gone`` is true of the lease of its owner and the keys
        that this claims. ``lease`` is written with the claims.
        """
        database = self._database
        with database.writing() as connection:
            if lease is not None:
                database.put(connection, LEASE, [columns_of(lease)], replacing=True)
            calls = self.get_calls(keys)
            wanted = [key for key in sorted(set(keys)) if key not in calls]  # in one order: no deadlocks
            holders = self._holders(connection, wanted)
            gone = self._gone(connection, {key: h for key, h in holders.items() if h not in (owner, None)}, is_gone)
            if gone or None in holders.values():
                # of two processes that take over, the second reads what the first has written
                take_advisory_lock(connection, "claim")
                holders = self._holders(connection, wanted)
                damaged = [key for key, holder in holders.items() if holder is None]
                left = CLAIM.c.owner.in_(gone) | CLAIM.c.key.in_(damaged)
                connection.execute(delete(CLAIM).where(CLAIM.c.key.in_(wanted), left))
            free = [key for key in wanted if holders.get(key) in {None, *gone}]
            mine = {key for key, holder in holders.items() if holder == owner}
            if free:  # as late as possible: others that want one of these wait from here to the end of the transaction
                statement = upsert(CLAIM, database.dialect, replacing=False).returning(CLAIM.c.key)
                rows = [add_checksum(CLAIM, (key, owner)) for key in free]
                mine.update(connection.execute(statement, rows).scalars())
                late = self.get_calls(mine)  # on a server some may have come since the first read
                if late:
                    connection.execute(delete(CLAIM).where(CLAIM.c.key.in_(late), CLAIM.c.owner == owner))
                calls |= late
            return mine - calls.keys(), calls

    def _holders(self, connection: Connection, keys: Sequence[str]) -> dict[str, str | None]:
        """The owners of the claims on ``keys``; None where the row is damaged."""
        rows = connection.execute(select(CLAIM).where(CLAIM.c.key.in_(keys)))
        return {row.key: row.owner if self._database.intact(CLAIM, tuple(row)) else None for row in rows}

    def _gone(
        self, connection: Connection, holders: Mapping[str, str], is_gone: Callable[[Lease, Collection[str]], bool]
    ) -> set[str]:
        """The owners among the values of ``holders`` whose processes have ended."""
        keys: dict[str, list[str]] = {}
        for key, token in holders.items():
            keys.setdefault(token, []).append(key)
        rows = self._database.fetch_keyed(connection, LEASE, keys, column="owner") if keys else ()
        # a process whose row is damaged or gone writes it again with its next heartbeat
        known = dict.fromkeys(keys, Lease("")) | {row[0]: Lease(*row) for row in rows}
        return {token for token in keys if is_gone(replace(known[token], token=token), keys[token])}

    def renew(self, lease: Lease) -> None:
        """Write the heartbeat of a lease, without waiting for other threads."""
        with self._database.writing(urgent=True) as connection:
            self._database.put(connection, LEASE, [columns_of(lease)], replacing=True)

    def release(self, owner: str, key: str | None = None) -> None:
        """End a claim without a reply; without a key, all claims of ``owner``, which ends."""
        with self._database.writing() as connection:
            if key is not None:
                connection.execute(delete(CLAIM).where(CLAIM.c.key == key, CLAIM.c.owner == owner))
                return
            connection.execute(delete(CLAIM).where(CLAIM.c.owner == owner))
        with self._database.writing() as connection:  # of its own: a writer of a lease may wait for these claims
            # also of killed processes: a running one writes its row again with its next heartbeat
            connection.execute(delete(LEASE).where(LEASE.c.owner.not_in(select(CLAIM.c.owner))))

    # Capabilities of models

    def capabilities(self, model: str) -> ModelCapabilities | None:
        """The known capabilities of the model of this id."""
        return next(
            (ModelCapabilities.from_dict(value) for _, value in self._keyed(TRAITS, [model], column="model")), None
        )

    def put_capabilities(self, model: str, capabilities: ModelCapabilities) -> None:
        """Add to the capabilities of the model of this id."""
        with self._database.writing_alone("traits", model) as connection:
            known = self.capabilities(model) or ModelCapabilities()
            self._database.put(connection, TRAITS, [(model, (known | capabilities).to_dict())], replacing=True)

    # Data sets and evaluations

    def put_dataset(self, digest: str, name: str, value: Json) -> None:
        """Store a data set, replacing its name and value."""
        self._put(DATASET, [(digest, name, value)])

    def datasets(self) -> list[DatasetRow]:
        """Every data set, by name."""
        return [DatasetRow(*row) for row in self._all(DATASET, order=(DATASET.c.name, DATASET.c.digest))]

    def put_evaluations(self, rows: Iterable[EvaluationRow]) -> None:
        """Store the descriptions of evaluations in one transaction; one that is stored already stays."""
        self._put(EVALUATION, map(columns_of, rows), replacing=False)

    def evaluation(self, key: str) -> EvaluationRow | None:
        """The evaluation under ``key``."""
        return next((EvaluationRow(*row) for row in self._keyed(EVALUATION, [key])), None)

    def evaluations(self, dataset: str) -> list[EvaluationRow]:
        """Every evaluation on the data set of this digest, by key."""
        rows = self._all(EVALUATION, EVALUATION.c.dataset == dataset, order=(EVALUATION.c.key,))
        return [EvaluationRow(*row) for row in rows]

    # Fitted numbers

    def put_fit(self, key: str, dataset: str, value: Json) -> Json:
        """Store what was learned on a data set; the first one under a key stays, and is returned."""
        self._put(FIT, [(key, dataset, value)], replacing=False)
        return self.fits([key]).get(key, value)

    def fits(self, keys: Iterable[str]) -> dict[str, Json]:
        """The stored ones among ``keys``, by key."""
        return {key: value for key, _, value in self._keyed(FIT, keys)}

    # Results

    def put_results(self, rows: Sequence[ResultRow]) -> list[ResultRow]:
        """Store finished questions, all or none; a failed result is replaced by a new attempt, an ok one never.

        Returns what is then stored of them: another process may have been first.
        """
        database = self._database
        # nearly always every row is new; only otherwise are stored rows read and merged
        with suppress(_NotAllNew), database.writing() as connection:
            if database.put(connection, RESULT, map(columns_of, rows)) < len(rows):
                raise _NotAllNew  # which undoes it
            return list(rows)
        with database.writing() as connection:
            stored = self._same_results(connection, rows)
            if all(newer_result(stored.get((row.evaluation, row.question)), row) is None for row in rows):
                return list(stored.values())  # equal searches at the same time need not wait for each other
            take_advisory_lock(connection, "result")
            stored = self._same_results(connection, rows)
            changed: dict[tuple[str, str], ResultRow] = {}
            for row in rows:
                key = (row.evaluation, row.question)
                new = newer_result(changed.get(key) or stored.get(key), row)
                if new is not None:
                    changed[key] = new
            database.put(connection, RESULT, map(columns_of, changed.values()), replacing=True, final=("state", "ok"))
        return list({**stored, **changed}.values())

    def _same_results(self, connection: Connection, rows: Sequence[ResultRow]) -> dict[tuple[str, str], ResultRow]:
        """The stored rows under the keys of ``rows``."""
        pair = tuple_(RESULT.c.evaluation, RESULT.c.question)
        return {
            (values[0], values[1]): ResultRow(*values)
            for batch in batches([(row.evaluation, row.question) for row in rows], BATCH)
            for values in self._database.fetch(connection, RESULT, select(RESULT).where(pair.in_(batch)))
        }

    def results(self, evaluation: str) -> dict[str, ResultRow]:
        """The finished questions of an evaluation, by question."""
        return self.results_many([evaluation])[evaluation]

    def results_again(self, evaluation: str) -> dict[str, ResultRow]:
        """The same, also after the store was closed: its place is then opened once more, for reading."""
        if not self._database.closed:
            return self.results(evaluation)
        with Store.open(self.location, read_only=True) as store:
            return store.results(evaluation)

    def results_many(self, evaluations: Iterable[str]) -> dict[str, dict[str, ResultRow]]:
        """The finished questions of several evaluations, by question; each evaluation has an entry, in their order."""
        return self._by_question(RESULT, evaluations, lambda values: ResultRow(*values))

    # Findings

    def put_finding(self, kind: str, key: str, dataset: str, value: Json) -> None:
        """Store a finding, replacing the one of this kind and key."""
        self._put(FINDING, [(kind, key, dataset, value)])

    def findings(self, kind: str, keys: Iterable[str]) -> dict[str, Json]:
        """The stored findings of a kind, by key."""
        return {key: value for of_kind, key, _, value in self._keyed(FINDING, keys) if of_kind == kind}

    # Latencies

    def put_latency(self, row: LatencyRow) -> LatencyRow:
        """Store the latency of a pipeline for a question; seconds that are stored already stay, and are returned."""
        with self._database.writing_alone("latency", row.evaluation) as connection:
            stored = self.latencies([row.evaluation], row.machine)[row.evaluation].get(row.question)
            if stored is not None and stored.state == "ok":
                return stored
            self._database.put(connection, LATENCY, [columns_of(row)], replacing=True)
        return row

    def latencies(self, evaluations: Iterable[str], machine: str) -> dict[str, dict[str, LatencyRow]]:
        """The latencies on a kind of machine, by question; each evaluation has an entry."""
        return self._by_question(
            LATENCY, evaluations, lambda values: LatencyRow(*values), lambda values: values[1] == machine
        )

    # Diagnoses

    def put_diagnoses(self, rows: Sequence[DiagnosisRow]) -> None:
        """Store diagnoses of questions, replacing those stored."""
        if rows:
            self._put(DIAGNOSIS, map(columns_of, rows))

    def diagnoses(self, evaluations: Iterable[str]) -> dict[str, dict[str, Json]]:
        """The diagnoses, by question; each evaluation has an entry."""
        return self._by_question(DIAGNOSIS, evaluations, lambda values: values[2])

    # Looks at test questions

    @contextmanager
    def looking(self) -> Iterator[Looks]:
        """The counted looks, in a transaction in which no other process counts one."""
        with self._database.writing_alone("look") as connection:
            yield Looks(self._database, connection)

    # Runs and their proposals

    def put_run(
        self, key: str, dataset: str, value: Json, *, state: RunState = "running", started: str | None = None
    ) -> None:
        """Begin a run, or resume it: the time of its first start stays, the rest is replaced."""
        with self._database.writing_alone("run", key) as connection:
            if (before := self.run(key)) is not None:
                started = before.started or started
            self._database.put(connection, RUN, [(key, dataset, state, value, started, None)], replacing=True)

    def update_run(self, key: str, state: RunState, value: Json, *, finished: str | None = None) -> None:
        """Update the state and value of a run. Raises StoreError when there is no such run."""
        with self._database.writing_alone("run", key) as connection:
            old = self.run(key)
            if old is None:
                raise StoreError(f"{self.place} holds no run {key}: begin it with put_run")
            row = (key, old.dataset, state, value, old.started, finished)
            self._database.put(connection, RUN, [row], replacing=True)

    def run(self, key: str) -> RunRow | None:
        """The run under ``key``."""
        return next((RunRow(*row) for row in self._keyed(RUN, [key])), None)

    def runs(self) -> list[RunRow]:
        """Every run, by the time of its start."""
        rows = [RunRow(*row) for row in self._all(RUN)]
        return sorted(rows, key=lambda row: (row.started or "", row.key))

    def put_proposals(self, run: str, rows: Iterable[ProposalRow], *, whole: bool = False) -> None:
        """Store proposals of a run, replacing those at the same positions; with ``whole``, delete all others."""
        with self._database.writing_alone("run", run) as connection:
            if whole:
                connection.execute(delete(PROPOSAL).where(PROPOSAL.c.run == run))
            self._database.put(connection, PROPOSAL, ((run, *columns_of(row)) for row in rows), replacing=True)

    def proposals(self, run: str) -> list[ProposalRow]:
        """The proposals of a run, by position."""
        rows = self._all(PROPOSAL, PROPOSAL.c.run == run, order=(PROPOSAL.c.position,))
        return [ProposalRow(*row[1:]) for row in rows]

    # Maintenance

    def statistics(self) -> Statistics:
        """Rows and bytes of each table, the size of the file, and the damaged rows read so far; ready for JSON."""
        return statistics(self._database)

    def verify(self) -> list[Damage]:
        """Read every row and return the damaged ones."""
        return damaged_rows(self._database)

    def _put(self, table: Table, rows: Iterable[Sequence[object]], *, replacing: bool = True) -> None:
        with self._database.writing() as connection:
            self._database.put(connection, table, rows, replacing=replacing)

    def _keyed(self, table: Table, keys: Iterable[str], *, column: str = "key") -> list[list[Json]]:
        with self._database.reading() as connection:
            return list(self._database.fetch_keyed(connection, table, keys, column=column))

    def _by_question(
        self,
        table: Table,
        evaluations: Iterable[str],
        convert: Callable[[list[Json]], T],
        is_wanted: Callable[[list[Json]], bool] = lambda _: True,
    ) -> dict[str, dict[str, T]]:
        """The rows of several evaluations, by evaluation and question; each evaluation has an entry, in their order."""
        at = list(table.c.keys()).index("question")
        found: dict[str, dict[str, T]] = {key: {} for key in evaluations}
        for values in filter(is_wanted, self._keyed(table, found, column="evaluation")):
            found[values[0]][values[at]] = convert(values)
        return found

    def _all(
        self,
        table: Table,
        *conditions: ColumnElement[bool],
        order: Sequence[Column[Any]] = (),
        most: int | None = None,
    ) -> list[list[Json]]:
        statement = select(table).where(*conditions).order_by(*order).limit(most)
        with self._database.reading() as connection:
            return list(self._database.fetch(connection, table, statement))
