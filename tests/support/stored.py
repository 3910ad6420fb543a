"""Paid calls in a store, in one line."""

from __future__ import annotations

from typing import Any

from ragsmith.models.calls import StoredCall
from ragsmith.store.store import Store


def put_call(store: Store, key: str, model: str, task: str, value: Any, **cost: Any) -> None:
    """Keep a reply as if ``model`` had just given it."""
    store.put_calls([StoredCall(key, model, task, value, **cost)])
