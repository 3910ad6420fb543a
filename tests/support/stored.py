"""Read records of runs from a store, put paid calls into it, and a store that is locked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ragsmith.errors import StoreError
from ragsmith.gateway.budget import Payment
from ragsmith.models.calls import StoredCall
from ragsmith.records.record import RunRecord, read_record
from ragsmith.runs.run import RunOutcome
from ragsmith.store.store import Store


def recorded(store: Store, run: RunOutcome | str) -> RunRecord:
    """The record of a run, by its outcome or key."""
    record = read_record(store, run if isinstance(run, str) else run.key)
    assert record is not None
    return record


def put_call(store: Store, key: str, model: str, task: str, value: Any, **cost: Any) -> None:
    """Store a reply as if ``model`` had just given it."""
    store.put_calls([StoredCall(key, model, task, value, **cost)])


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
