"""What went off in batches, kept until its replies are safe: see `ragsmith.models.served.chat_batches`."""

from __future__ import annotations

import threading
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from ragsmith.errors import StoreError
from ragsmith.gateway.claims import CallStore
from ragsmith.models.calls import BatchedRequest

if TYPE_CHECKING:
    from ragsmith.models.served.chat_batches import ChatBatches


class Batched:
    """A `BatchMemory` in the store; safe to use from many threads.

    What is to be forgotten stays until everything is written: if this process is killed before the replies are in the
    store, the next one fetches them again instead of paying again.
    """

    def __init__(self, store: CallStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._answered: set[str] = set()

    def find(self, keys: Collection[str]) -> dict[str, BatchedRequest]:
        """See `BatchMemory.find`."""
        return self._store.batched_requests(keys)

    def keep(self, requests: Collection[BatchedRequest]) -> None:
        """See `BatchMemory.keep`."""
        with self._lock:
            self._answered.difference_update(request.key for request in requests)
        self._store.put_batched_requests(requests)

    def forget(self, keys: Collection[str]) -> None:
        """See `BatchMemory.forget`."""
        with self._lock:
            self._answered.update(keys)

    def drop_rest(self) -> None:
        """Drop all that is to be forgotten; to be called when everything is written."""
        with self._lock, suppress(StoreError):  # they stay, and nobody will ask for them
            self._store.drop_batched_requests(self._answered)
            self._answered.clear()


def batches_of(model: object) -> ChatBatches | None:
    """Return the batches that ``model`` is asked in, if it is; one of somebody else may call anything so."""
    batches = getattr(model, "batches", None)
    if batches is None:
        return None
    from ragsmith.models.served.chat_batches import ChatBatches  # noqa: PLC0415  asyncio is not always needed

    return batches if isinstance(batches, ChatBatches) else None
