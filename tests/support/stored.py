"""Read records of runs from a store, put paid calls into it, and a store that is locked."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import count
from typing import Any

from ragsmith.errors import BudgetExhausted, StoreError
from ragsmith.gateway.budget import Payment
from ragsmith.models.calls import StoredCall
from ragsmith.records.record import RunRecord, load_record
from ragsmith.runs.run import RunOutcome
from ragsmith.store.store import Store


def recorded(store: Store, run: RunOutcome | str) -> RunRecord:
    """The record of a run, by its outcome or key."""
    record = load_record(store, run if isinstance(run, str) else run.key)
    assert record is not None
    return record


def put_call(store: Store, key: str, model: str, task: str, value: Any, **cost: Any) -> None:
    """Store a reply as if ``model`` had just given it."""
    store.put_calls([StoredCall(key, model, task, value, **cost)])


def go_on(start: Callable[[], RunOutcome]) -> tuple[RunOutcome, int]:
    """Start a run until it is finished: its outcome, and the number of starts."""
    for starts in count(1):  # pragma: no branch
        with suppress(BudgetExhausted):
            outcome = start()
            if outcome.state == "finished":
                return outcome, starts
    raise AssertionError


class StepClock:
    """Seconds that pass by one with every step or answer of a run."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds

    def tick(self, *_: object) -> None:
        """A step or an answer is done."""
        self.seconds += 1


class Locked:
    """A store that another process keeps locked while ``locked`` is true."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.locked = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def put_calls(
        self, calls: Iterable[StoredCall], *, replacing: bool = False, payment: Payment | None = None
    ) -> None:
        if self.locked:
            raise StoreError("the cache is locked")
        self.store.put_calls(calls, replacing=replacing, payment=payment)
