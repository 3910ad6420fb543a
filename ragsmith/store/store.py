"""The durable store: paid replies, data sets, evaluations with their results, and runs with their proposals.

A row is durable when the method that wrote it returns. Threads may share a `Store`; each process opens its own on the
same file or URL. A row with a wrong checksum counts as absent, so that it is computed again and replaced, and is listed
in `Store.damaged`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from sqlalchemy import Column, ColumnElement, Connection, Table, delete, func, select, tuple_
from sqlalchemy.engine import URL

from ragsmith.errors import DamagedRows, SpendingDamaged, StoreError, UsageError, warn_caller
from ragsmith.gateway.budget import NOTHING_SPENT, Payment
from ragsmith.gateway.failures import ERROR_CLASSES, FailedCall
from ragsmith.gateway.leases import Lease
from ragsmith.grouping import group_values
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
    column_values,
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

AGREEING_VECTORS = 100
"""Minimum number of stored vectors whose length is taken as that of a model, more than one reply has (at most 64)."""

TIMEOUT_SECONDS = 30.0
"""Default time in seconds that a write waits for another process."""


class Looks:
    """The uses of test questions (looks), in an open transaction."""

    def __init__(self, database: Database, connection: Connection) -> None:
        self._database = database
        self._connection = connection

    def row(self, look: str) -> LookRow | None:
        """Return the look with this key."""
        rows = self._database.fetch_keyed(self._connection, LOOK, [look], column="look")
        return next((LookRow(*row) for row in rows), None)

    def looks(self, questions: Collection[str]) -> dict[str, set[str]]:
        """Return the keys of the looks at each of ``questions`` that has any."""
        keys: dict[str, set[str]] = {}
        for question, look in self._database.fetch_keyed(self._connection, LOOKED, questions, column="question"):
            keys.setdefault(question, set()).add(look)
        return keys

    def put(self, row: LookRow) -> None:
        """Store a look, replacing the one with the same key."""
        self._database.put(self._connection, LOOK, [column_values(row)], replacing=True)
        self._database.put(self._connection, LOOKED, [(question, row.look) for question in row.questions])


MAX_LISTED = 10
"""Maximum number of damaged rows listed in a warning."""


class _KeyExists(Exception):
    """Raised to roll back an insert of results if some are already stored."""


@contextmanager
def open_store(cache: Store | str | Path, *, read_only: bool = False) -> Iterator[Store]:
    """Provide the store at ``cache``, which is closed on exit; an open `Store` is provided unchanged and stays open.

    With ``read_only``, a `DamagedRows` warning at the end lists the damaged rows that were read.

    Raises:
        UsageError: the file does not exist.
    """
    path = None if isinstance(cache, Store) else parse_location(cache)
    if read_only and isinstance(path, Path) and not path.exists():
        raise UsageError(f"there is no cache {str(path)!r}: run a search first, or name the cache of one")
    with nullcontext(cache) if isinstance(cache, Store) else Store.open(cache, read_only=read_only) as store:
        try:
            yield store
        finally:
            if read_only and store.damaged:
                more = f" and {len(store.damaged) - MAX_LISTED:,} more" if len(store.damaged) > MAX_LISTED else ""
                warn_caller(
                    f"damaged in {store.place}, and left out: {', '.join(store.damaged[:MAX_LISTED])}{more}; "
                    "run the same search again to compute these rows anew",
                    DamagedRows,
                )


class Store(SpendLedger):
    """The cache on disk; see `open`. A context manager that closes the store.

    Every method raises StoreError if the database cannot be used: locked for too long, disk full, not writable, damaged
    beyond single rows, or closed. Values must have a canonical JSON form (TypeError or ValueError otherwise) and are
    returned as decoded by ``json.loads``, with sorted keys.
    """

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self._vector_lengths: dict[str, int] = {}
        self._dimensions: dict[str, int | None] = {}
        self.max_looks: int | None = None
        """Maximum number of looks at the same test questions, earlier ones included; None is no limit."""

    @classmethod
    def open(cls, location: str | Path | URL, *, read_only: bool = False, timeout: float = TIMEOUT_SECONDS) -> Self:
        """Open a file, which is created if missing, or a PostgreSQL URL.

        ``timeout`` is the time in seconds that a write waits for another process, ten times as long on a server.

        Raises:
            StoreError: the location cannot be used, belongs to another program or has another format; it is not
            changed. MissingExtra: the driver of a server is not installed.
        """
        store = cls(Database.open(location, read_only=read_only, timeout=timeout))
        if lost := store.mark_in_doubt():
            warn_caller(lost)
        return store

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store; a file is then complete without its log, unless another process has it open."""
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
        """The label ``table:key`` of every damaged row read so far."""
        return list(self._database.damaged)

    # Model calls

    def get_calls(self, keys: Iterable[str]) -> dict[str, StoredCall]:
        """Return the stored calls by key; a vector whose length differs from most vectors of its model is damaged."""
        with self._database.reading() as connection:
            calls = {row[0]: StoredCall(*row) for row in self._database.fetch_keyed(connection, MODEL_CALL, keys)}
            for key, call in list(calls.items()):
                is_vector = call.task in VECTOR_TASKS and isinstance(call.value, str)
                if is_vector and call.model not in self._vector_lengths:
                    self._vector_lengths[call.model], _ = self._count_vectors(connection, call.model)
                if is_vector and len(call.value) + len('""') != self._vector_lengths[call.model]:
                    self._database.damaged.setdefault(f"{MODEL_CALL.name}:{key}")
                    del calls[key]
        return calls

    def vector_dimensions(self, model: str) -> int | None:
        """Return the number of dimensions of most vectors of a model, as first read; None if too few vectors agree."""
        if model not in self._dimensions:
            with self._database.reading() as connection:
                length, count = self._count_vectors(connection, model)
            self._dimensions[model] = (length - len('""')) // 4 * 3 // 4 if count >= AGREEING_VECTORS else None
        return self._dimensions[model]

    def _count_vectors(self, connection: Connection, model: str) -> tuple[int, int]:
        """Return the most frequent encoded length of the vectors of a model, and how many have it; 0 without any."""
        length = func.length(MODEL_CALL.c.value)
        of_model = select(length, func.count()).where(MODEL_CALL.c.model == model)
        found = connection.execute(of_model.group_by(length).order_by(func.count().desc()).limit(1)).first()
        return (0, 0) if found is None else (found[0], found[1])

    def sample_calls(self, model: str, limit: int) -> list[StoredCall]:
        """Return up to ``limit`` calls of a model in the order of their keys, which as digests are a random sample."""
        rows = self._all(MODEL_CALL, MODEL_CALL.c.model == model, order=(MODEL_CALL.c.key,), limit=limit)
        return [StoredCall(*row) for row in rows]

    def put_calls(
        self, calls: Iterable[StoredCall], *, replacing: bool = False, payment: Payment | None = None
    ) -> None:
        """Store calls and the payment of a run in one transaction."""
        rows = [column_values(call) for call in calls]
        with self._database.writing() as connection:
            if payment is not None and payment.amount != NOTHING_SPENT:
                with suppress(SpendingDamaged):  # replies are paid and stored; the next reservation raises
                    self.settle(connection, payment.run, payment.amount)
            self._database.put(connection, MODEL_CALL, rows, replacing=replacing)
            for batch in batches([row[0] for row in rows], BATCH):
                for table in (CLAIM, FAILED_CALL):
                    connection.execute(delete(table).where(table.c.key.in_(batch)))

    def has_reply(self, model: str, task: str | None) -> bool:
        """Return whether any reply of a model is stored, optionally of one task."""
        statement = select(MODEL_CALL.c.key).where(MODEL_CALL.c.model == model).limit(1)
        if task is not None:
            statement = statement.where(MODEL_CALL.c.task == task)
        with self._database.reading() as connection:
            return connection.execute(statement).first() is not None

    def failed_calls(self, keys: Iterable[str]) -> dict[str, FailedCall]:
        """Return the failed requests among ``keys`` by key."""
        failed = (FailedCall(*row) for row in self._keyed(FAILED_CALL, keys))
        return {call.key: call for call in failed if call.kind in ERROR_CLASSES}

    def put_failed_calls(self, failed: Sequence[FailedCall]) -> None:
        """Store failed requests in one transaction; attempts and costs are added to those stored."""
        with self._database.writing_exclusively("failed_call") as connection:
            stored = self.failed_calls(call.key for call in failed)
            summed = [call.after(stored[call.key]) if call.key in stored else call for call in failed]
            self._database.put(connection, FAILED_CALL, map(column_values, summed), replacing=True)

    def claim_many(
        self, keys: Sequence[str], owner: str, *, lease: Lease | None, is_gone: Callable[[Lease, Collection[str]], bool]
    ) -> tuple[set[str], dict[str, StoredCall]]:
        """Claim the calls that are neither stored nor claimed; return the claimed keys and the stored calls.

        A claim ends with the reply, with `release`, or when ``is_gone`` returns True for the lease of its owner and its
        claimed keys. ``lease`` is written in the same transaction.
        """
        database = self._database
        with database.writing() as connection:
            if lease is not None:
                database.put(connection, LEASE, [column_values(lease)], replacing=True)
            calls = self.get_calls(keys)
            wanted = [key for key in sorted(set(keys)) if key not in calls]  # a fixed order prevents deadlocks
            holders = self._holders(connection, wanted)
            ended = self._ended_owners(
                connection, {key: h for key, h in holders.items() if h not in (owner, None)}, is_gone
            )
            if ended or None in holders.values():
                # of two processes that take over claims, the second reads the changes of the first
                take_advisory_lock(connection, "claim")
                holders = self._holders(connection, wanted)
                damaged = [key for key, holder in holders.items() if holder is None]
                expired = CLAIM.c.owner.in_(ended) | CLAIM.c.key.in_(damaged)
                connection.execute(delete(CLAIM).where(CLAIM.c.key.in_(wanted), expired))
            free = [key for key in wanted if holders.get(key) in {None, *ended}]
            claimed = {key for key, holder in holders.items() if holder == owner}
            if free:  # as late as possible, as other claimants of these keys wait until the transaction ends
                statement = upsert(CLAIM, database.dialect, replacing=False).returning(CLAIM.c.key)
                rows = [add_checksum(CLAIM, (key, owner)) for key in free]
                claimed.update(connection.execute(statement, rows).scalars())
                late = self.get_calls(claimed)  # on a server, replies may have been stored since the first read
                if late:
                    connection.execute(delete(CLAIM).where(CLAIM.c.key.in_(late), CLAIM.c.owner == owner))
                calls |= late
            return claimed - calls.keys(), calls

    def _holders(self, connection: Connection, keys: Sequence[str]) -> dict[str, str | None]:
        """Return the owners of the claims on ``keys``, by key; None for a damaged row."""
        rows = connection.execute(select(CLAIM).where(CLAIM.c.key.in_(keys)))
        return {row.key: row.owner if self._database.intact(CLAIM, tuple(row)) else None for row in rows}

    def _ended_owners(
        self, connection: Connection, holders: Mapping[str, str], is_gone: Callable[[Lease, Collection[str]], bool]
    ) -> set[str]:
        """Return the owners among the values of ``holders`` whose processes have ended."""
        keys = group_values((token, key) for key, token in holders.items())
        rows = self._database.fetch_keyed(connection, LEASE, keys, column="owner") if keys else ()
        # a running process writes a damaged or missing row again with its next heartbeat
        leases = dict.fromkeys(keys, Lease("")) | {row[0]: Lease(*row) for row in rows}
        return {token for token in keys if is_gone(replace(leases[token], token=token), keys[token])}

    def renew(self, lease: Lease) -> None:
        """Write the heartbeat of a lease as an urgent transaction."""
        with self._database.writing(urgent=True) as connection:
            self._database.put(connection, LEASE, [column_values(lease)], replacing=True)

    def release(self, owner: str, key: str | None = None) -> None:
        """Delete a claim, or without ``key`` all claims and the lease of ``owner``."""
        with self._database.writing() as connection:
            if key is not None:
                connection.execute(delete(CLAIM).where(CLAIM.c.key == key, CLAIM.c.owner == owner))
                return
            connection.execute(delete(CLAIM).where(CLAIM.c.owner == owner))
        # a separate transaction, as a writer of a lease may wait for these claims
        with self._database.writing() as connection:
            # includes leases of killed processes; a running one writes its row again with its next heartbeat
            connection.execute(delete(LEASE).where(LEASE.c.owner.not_in(select(CLAIM.c.owner))))

    # Capabilities of models

    def capabilities(self, model: str) -> ModelCapabilities | None:
        """Return the stored capabilities of a model, or None."""
        return next(
            (ModelCapabilities.from_dict(value) for _, value in self._keyed(TRAITS, [model], column="model")), None
        )

    def put_capabilities(self, model: str, capabilities: ModelCapabilities, *, renewing: bool = False) -> None:
        """Add capabilities to the stored ones of a model; with ``renewing``, without the refusals among those."""
        with self._database.writing_exclusively("traits", model) as connection:
            known = self.capabilities(model) or ModelCapabilities()
            found = (known.without_refusals() if renewing else known) | capabilities
            self._database.put(connection, TRAITS, [(model, found.to_dict())], replacing=True)

    # Data sets and evaluations

    def put_dataset(self, digest: str, name: str, value: Json) -> None:
        """Store a data set, replacing its name and value."""
        self._put(DATASET, [(digest, name, value)])

    def datasets(self) -> list[DatasetRow]:
        """Return all data sets, sorted by name."""
        return [DatasetRow(*row) for row in self._all(DATASET, order=(DATASET.c.name, DATASET.c.digest))]

    def put_evaluations(self, rows: Iterable[EvaluationRow]) -> None:
        """Store the configurations of evaluations in one transaction; existing rows are kept."""
        self._put(EVALUATION, map(column_values, rows), replacing=False)

    def evaluation(self, key: str) -> EvaluationRow | None:
        """Return the evaluation with this key, or None."""
        return next((EvaluationRow(*row) for row in self._keyed(EVALUATION, [key])), None)

    def evaluations(self, dataset: str) -> list[EvaluationRow]:
        """Return all evaluations on a data set, sorted by key."""
        rows = self._all(EVALUATION, EVALUATION.c.dataset == dataset, order=(EVALUATION.c.key,))
        return [EvaluationRow(*row) for row in rows]

    # Fitted parameters

    def put_fit(self, key: str, dataset: str, value: Json) -> Json:
        """Store fitted parameters unless the key has some; return the stored ones."""
        self._put(FIT, [(key, dataset, value)], replacing=False)
        return self.fits([key]).get(key, value)

    def fits(self, keys: Iterable[str]) -> dict[str, Json]:
        """Return the fitted parameters among ``keys`` by key."""
        return {key: value for key, _, value in self._keyed(FIT, keys)}

    # Results

    def put_results(self, rows: Sequence[ResultRow]) -> list[ResultRow]:
        """Store results atomically; a new attempt replaces a failed result, never an ok one.

        Return the rows stored afterwards, which another process may have written.
        """
        database = self._database
        # rows are nearly always new; stored rows are only read and merged otherwise
        with suppress(_KeyExists), database.writing() as connection:
            if database.put(connection, RESULT, map(column_values, rows)) < len(rows):
                raise _KeyExists  # rolls back the transaction
            return list(rows)
        with database.writing() as connection:
            stored = self._stored_results(connection, rows)
            if all(newer_result(stored.get((row.evaluation, row.question)), row) is None for row in rows):
                return list(stored.values())  # concurrent equal searches do not wait for each other
            take_advisory_lock(connection, "result")
            stored = self._stored_results(connection, rows)
            changed: dict[tuple[str, str], ResultRow] = {}
            for row in rows:
                key = (row.evaluation, row.question)
                new = newer_result(changed.get(key) or stored.get(key), row)
                if new is not None:
                    changed[key] = new
            database.put(
                connection, RESULT, map(column_values, changed.values()), replacing=True, final=("state", "ok")
            )
        return list({**stored, **changed}.values())

    def _stored_results(self, connection: Connection, rows: Sequence[ResultRow]) -> dict[tuple[str, str], ResultRow]:
        """Return the stored rows with the keys of ``rows``."""
        pair = tuple_(RESULT.c.evaluation, RESULT.c.question)
        return {
            (values[0], values[1]): ResultRow(*values)
            for batch in batches([(row.evaluation, row.question) for row in rows], BATCH)
            for values in self._database.fetch(connection, RESULT, select(RESULT).where(pair.in_(batch)))
        }

    def results(self, evaluation: str) -> dict[str, ResultRow]:
        """Return the results of an evaluation by question."""
        return self.results_many([evaluation])[evaluation]

    def results_reopened(self, evaluation: str) -> dict[str, ResultRow]:
        """Return `results`, reopening the store read-only if it is closed."""
        if not self._database.closed:
            return self.results(evaluation)
        with Store.open(self.location, read_only=True) as store:
            return store.results(evaluation)

    def results_many(self, evaluations: Iterable[str]) -> dict[str, dict[str, ResultRow]]:
        """Return the results of evaluations by evaluation and question; every evaluation has an entry, in order."""
        return self._by_question(RESULT, evaluations, lambda values: ResultRow(*values))

    # Findings

    def put_finding(self, kind: str, key: str, dataset: str, value: Json) -> None:
        """Store a finding, replacing the one with the same kind and key."""
        self._put(FINDING, [(kind, key, dataset, value)])

    def findings(self, kind: str, keys: Iterable[str]) -> dict[str, Json]:
        """Return the findings of a kind among ``keys`` by key."""
        return {key: value for of_kind, key, _, value in self._keyed(FINDING, keys) if of_kind == kind}

    # Latencies

    def put_latency(self, row: LatencyRow) -> LatencyRow:
        """Store a latency unless a successful one is stored; return the stored row."""
        with self._database.writing_exclusively("latency", row.evaluation) as connection:
            stored = self.latencies([row.evaluation], row.machine)[row.evaluation].get(row.question)
            if stored is not None and stored.state == "ok":
                return stored
            self._database.put(connection, LATENCY, [column_values(row)], replacing=True)
        return row

    def latencies(self, evaluations: Iterable[str], machine: str) -> dict[str, dict[str, LatencyRow]]:
        """Return the latencies on a kind of machine by evaluation and question; every evaluation has an entry."""
        return self._by_question(
            LATENCY, evaluations, lambda values: LatencyRow(*values), lambda values: values[1] == machine
        )

    # Diagnoses

    def put_diagnoses(self, rows: Sequence[DiagnosisRow]) -> None:
        """Store diagnoses, replacing existing ones."""
        if rows:
            self._put(DIAGNOSIS, map(column_values, rows))

    def diagnoses(self, evaluations: Iterable[str]) -> dict[str, dict[str, Json]]:
        """Return the diagnoses by evaluation and question; every evaluation has an entry."""
        return self._by_question(DIAGNOSIS, evaluations, lambda values: values[2])

    # Looks at test questions

    @contextmanager
    def looking(self) -> Iterator[Looks]:
        """Begin an exclusive transaction on the looks at test questions."""
        with self._database.writing_exclusively("look") as connection:
            yield Looks(self._database, connection)

    # Runs and their proposals

    def put_run(
        self, key: str, dataset: str, value: Json, *, state: RunState = "running", started: str | None = None
    ) -> None:
        """Store the start of a run; resuming a run keeps the time of its first start."""
        with self._database.writing_exclusively("run", key) as connection:
            if (previous := self.run(key)) is not None:
                started = previous.started or started
            self._database.put(connection, RUN, [(key, dataset, state, value, started, None)], replacing=True)

    def update_run(self, key: str, state: RunState, value: Json, *, finished: str | None = None) -> None:
        """Update the state and value of a run.

        Raises:
            StoreError: there is no run with this key.
        """
        with self._database.writing_exclusively("run", key) as connection:
            old = self.run(key)
            if old is None:
                raise StoreError(f"{self.place} holds no run {key}: begin it with put_run")
            row = (key, old.dataset, state, value, old.started, finished)
            self._database.put(connection, RUN, [row], replacing=True)

    def run(self, key: str) -> RunRow | None:
        """Return the run with this key, or None."""
        return next((RunRow(*row) for row in self._keyed(RUN, [key])), None)

    def runs(self) -> list[RunRow]:
        """Return all runs, sorted by start time."""
        rows = [RunRow(*row) for row in self._all(RUN)]
        return sorted(rows, key=lambda row: (row.started or "", row.key))

    def put_proposals(self, run: str, rows: Iterable[ProposalRow], *, replace_all: bool = False) -> None:
        """Store proposals of a run, replacing those at the same positions or, with ``replace_all``, all of them."""
        with self._database.writing_exclusively("run", run) as connection:
            if replace_all:
                connection.execute(delete(PROPOSAL).where(PROPOSAL.c.run == run))
            self._database.put(connection, PROPOSAL, ((run, *column_values(row)) for row in rows), replacing=True)

    def proposals(self, run: str) -> list[ProposalRow]:
        """Return the proposals of a run, sorted by position."""
        rows = self._all(PROPOSAL, PROPOSAL.c.run == run, order=(PROPOSAL.c.position,))
        return [ProposalRow(*row[1:]) for row in rows]

    # Maintenance

    def statistics(self) -> Statistics:
        """Return JSON-serialisable statistics: table sizes, the file size, and the damaged rows read so far."""
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
        """Return rows by evaluation and question; every evaluation has an entry, in order."""
        column = list(table.c.keys()).index("question")
        by_evaluation: dict[str, dict[str, T]] = {key: {} for key in evaluations}
        for values in filter(is_wanted, self._keyed(table, by_evaluation, column="evaluation")):
            by_evaluation[values[0]][values[column]] = convert(values)
        return by_evaluation

    def _all(
        self,
        table: Table,
        *conditions: ColumnElement[bool],
        order: Sequence[Column[Any]] = (),
        limit: int | None = None,
    ) -> list[list[Json]]:
        statement = select(table).where(*conditions).order_by(*order).limit(limit)
        with self._database.reading() as connection:
            return list(self._database.fetch(connection, table, statement))
