"""What went off in batches, kept until its replies are safe: see `ragsmith.models.served.chat_batches`."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection
from contextlib import suppress

from ragsmith.errors import StoreError
from ragsmith.gateway.claims import CallStore
from ragsmith.models.calls import BatchedRequest

SAFE_SECONDS = 30.0
"""After so long a reply that was handed out is in the store."""


class Batched:
    """A `BatchMemory` in the store; safe to use from many threads.

    What is to be forgotten stays a while: if this process is killed before the replies are in the store, the next one
    fetches them again instead of paying again.
    """

    def __init__(self, store: CallStore) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._answered: dict[str, float] = {}

    def find(self, keys: Collection[str]) -> dict[str, BatchedRequest]:
        """See `BatchMemory.find`."""
        return self._store.batched_requests(keys)

    def keep(self, requests: Collection[BatchedRequest]) -> None:
        """See `BatchMemory.keep`."""
        with self._lock:
            for request in requests:
                self._answered.pop(request.key, None)
            self._store.put_batched_requests(requests)
        self._drop(time.monotonic() - SAFE_SECONDS)

    def forget(self, keys: Collection[str]) -> None:
        """See `BatchMemory.forget`."""
        with self._lock:
            self._answered.update(dict.fromkeys(keys, time.monotonic()))

    def drop_rest(self) -> None:
        """Drop all that is to be forgotten; to be called when everything is written."""
        self._drop(time.monotonic())

    def _drop(self, until: float) -> None:
        with self._lock:
            old = [key for key, since in self._answered.items() if since <= until]
            if old:
                with suppress(StoreError):  # they stay, and nobody will ask for them
                    self._store.drop_batched_requests(old)
            for key in old:
                del self._answered[key]
