"""Paid calls in a store, in one line, and a store that cannot keep them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ragsmith.errors import StoreError
from ragsmith.gateway.budget import Payment
from ragsmith.models.calls import StoredCall
from ragsmith.store.store import Store


def put_call(store: Store, key: str, model: str, task: str, value: Any, **cost: Any) -> None:
    """Keep a reply as if ``model`` had just given it."""
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
