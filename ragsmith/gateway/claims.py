"""Claims: one process makes a call, and other processes that need the reply wait for it."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from secrets import token_hex
from typing import Protocol, TypeVar
from weakref import WeakSet

from ragsmith.errors import StoreError, warn_caller
from ragsmith.gateway.batching import Batcher
from ragsmith.gateway.budget import Budget, Payment
from ragsmith.gateway.failures import FailureStore
from ragsmith.gateway.leases import HEARTBEAT_SECONDS, POLL_SECONDS, Lease, LeaseMonitor, this_process
from ragsmith.models.calls import StoredCall
from ragsmith.models.capabilities import ModelCapabilities

A = TypeVar("A")

PAUSE_SECONDS = 0.05
"""Seconds between two reads for replies to calls of other processes."""
PAUSE_FACTOR = 10
"""Minimum ratio of a pause to the time of a read, so that waiting processes do not slow down working ones."""

WRITE_BATCH_SIZE = 64
"""Maximum number of claims or replies in one transaction."""
READ_BATCH_SIZE = 1000
"""Maximum number of replies that are read at once, larger than the number of waiting threads."""


class CallStore(FailureStore, Protocol):
    """A store of paid replies, claims on calls, and capabilities of models; ``total`` is its budget, if it has one."""

    total: Budget | None

    def capabilities(self, model: str) -> ModelCapabilities | None:
        """Return the stored capabilities of the model of this id, or None."""

    def put_capabilities(self, model: str, capabilities: ModelCapabilities, *, renewing: bool = False) -> None:
        """Add to the capabilities of the model of this id; with ``renewing``, replace the stored refusals."""

    def vector_dimensions(self, model: str) -> int | None:
        """Return the number of dimensions of most vectors of a model, as first read; None if too few vectors agree."""

    def get_calls(self, keys: Iterable[str]) -> dict[str, StoredCall]:
        """Return the stored calls among ``keys``, by key."""

    def put_calls(
        self, calls: Iterable[StoredCall], *, replacing: bool = False, payment: Payment | None = None
    ) -> None:
        """Store calls and a payment in one durable transaction; with ``replacing``, overwrite stored calls."""

    def claim_many(
        self, keys: Sequence[str], owner: str, *, lease: Lease | None, is_gone: Callable[[Lease, Collection[str]], bool]
    ) -> tuple[set[str], dict[str, StoredCall]]:
        """Return the keys whose calls ``owner`` may make now, and the stored calls among ``keys``."""

    def renew(self, lease: Lease) -> None:
        """Write the heartbeat of a lease."""

    def release(self, owner: str, key: str | None = None) -> None:
        """End the claim on ``key`` without a reply; without a key, end all claims and the lease of ``owner``."""


class BatchedStore:
    """A store that batches the claims and replies of many threads into few transactions, each a write to disk.

    A paid reply that could not be written is written with the next one; until then, ``broken`` is the error. While this
    process has claims, a thread renews the lease. The payments of ``budget`` are written with the replies.
    """

    def __init__(self, store: CallStore, budget: Budget | None = None) -> None:
        self._store = store
        self._budget = budget
        self._lock = threading.RLock()
        self._unwritten: list[StoredCall] = []
        self.broken: StoreError | None = None
        self._token = token_hex(16)
        self._monitor = LeaseMonitor()
        self._claimed: set[str] = set()
        self._claim_lock = threading.Lock()
        self._heartbeats = 0
        self._last_heartbeat = -HEARTBEAT_SECONDS
        self._is_renewing = False
        self._read_seconds = 0.0
        self._began = time.monotonic()
        self._claims: Batcher[str, bool | StoredCall] = Batcher(self._claim, size=WRITE_BATCH_SIZE)
        self._reads: Batcher[str, StoredCall | None] = Batcher(self._read, size=READ_BATCH_SIZE, window=PAUSE_SECONDS)
        self._puts: Batcher[StoredCall, None] = Batcher(self._put, size=WRITE_BATCH_SIZE)
        _OPEN_STORES.add(self)

    def get_calls(self, keys: Iterable[str]) -> dict[str, StoredCall]:
        """See `CallStore.get_calls`."""
        return self._store.get_calls(keys)

    def put_calls(self, calls: Iterable[StoredCall], *, replacing: bool = False) -> None:
        """See `CallStore.put_calls`."""
        if replacing:
            self._write(calls, replacing=True)
        else:
            self._puts(list(calls))

    @property
    def all_written(self) -> bool:
        """Whether all replies are written, and the ledger has all costs."""
        return not self._unwritten and (self._budget is None or self._budget.all_settled)

    def settle(self) -> None:
        """Write the costs to the ledger, and release unused reservations."""
        if self._budget is not None:
            with suppress(StoreError):  # retried when the budget is closed
                self._budget.close()

    def write_pending(self) -> None:
        """Retry the writing of unwritten replies.

        Raises:
            StoreError: writing failed again; the message has the number of lost replies.
        """
        try:
            self._write(())
        except StoreError as error:
            lost = len(self._unwritten)
            raise StoreError(f"{error}; {lost} paid replies could not be stored, and will be paid for again") from None

    def recover(self) -> None:
        """Retry the writing of unwritten replies, unless another thread does so; update ``broken``."""
        if self.broken is not None and self._lock.acquire(blocking=False):
            try:
                with suppress(StoreError):
                    self._write(())
            finally:
                self._lock.release()

    def claim_many(self, keys: Sequence[str]) -> tuple[set[str], dict[str, StoredCall]]:
        """Return the keys whose calls this process may make now, and the stored calls among ``keys``."""
        claims = dict(zip(keys, self._claims(keys), strict=True))
        stored = {key: claim for key, claim in claims.items() if isinstance(claim, StoredCall)}
        return {key for key, claim in claims.items() if claim is True}, stored

    def share(
        self,
        keys: Sequence[str],
        call: Callable[[Sequence[str]], Mapping[str, A]],
        raise_if_stopped: Callable[[], None],
    ) -> dict[str, A | StoredCall]:
        """Return the results of ``call`` for keys that this process can claim, and the replies of other processes.

        Claimed calls are made before the other keys are claimed again, so that processes cannot deadlock.
        ``raise_if_stopped`` raises if no more calls may be made or awaited.
        """
        results: dict[str, A | StoredCall] = {}
        while missing := [key for key in keys if key not in results]:
            raise_if_stopped()
            free, replies = self.claim_many(missing)
            try:
                results |= {**replies, **(call([key for key in missing if key in free]) if free else {})}
            except BaseException:
                for key in free:
                    self.release(key)
                raise
            if not free and not replies:
                results |= self.wait_for(missing, raise_if_stopped)
        return results

    def wait_for(self, keys: Sequence[str], raise_if_stopped: Callable[[], None]) -> dict[str, StoredCall]:
        """Wait until another process has replies for any of ``keys``, and return them; none after `POLL_SECONDS`.

        All threads read in one batch and stop at the same time, so that their next claims form one batch as well.
        """
        until = time.monotonic() + POLL_SECONDS - (time.monotonic() - self._began) % POLL_SECONDS
        calls: dict[str, StoredCall] = {}
        while not calls and time.monotonic() < until:
            raise_if_stopped()
            time.sleep(min(PAUSE_FACTOR * self._read_seconds, POLL_SECONDS))
            calls = {key: call for key, call in zip(keys, self._reads(keys), strict=True) if call is not None}
        return calls

    def _read(self, keys: Sequence[str]) -> list[StoredCall | None]:
        began = time.monotonic()
        calls = self._store.get_calls(keys)
        self._read_seconds = time.monotonic() - began
        return [calls.get(key) for key in keys]

    def release(self, key: str) -> None:
        """End this process's claim without a reply."""
        self._store.release(self._token, key)
        self._drop_claims([key])

    def release_all(self) -> None:
        """End all claims of this process, after its last call."""
        if self._heartbeats:
            self._drop_claims(list(self._claimed))
            self._store.release(self._token)

    def _claim(self, keys: list[str]) -> list[bool | StoredCall]:
        with self._claim_lock:
            due = time.monotonic() - self._last_heartbeat >= HEARTBEAT_SECONDS
            lease = self._next_lease() if due else None
        free, stored = self._store.claim_many(keys, self._token, lease=lease, is_gone=self._monitor.is_gone)
        with self._claim_lock:
            self._claimed |= free
            if self._claimed and not self._is_renewing:
                self._is_renewing = True
                threading.Thread(target=self._keep_renewing, name="ragsmith-heartbeat", daemon=True).start()
        for message in self._monitor.pop_messages():
            warn_caller(message)
        return [stored.get(key, key in free) for key in keys]

    def _next_lease(self) -> Lease:
        self._heartbeats += 1
        self._last_heartbeat = time.monotonic()
        return Lease(self._token, this_process(), self._heartbeats)

    def _keep_renewing(self) -> None:
        """Renew the lease while there are claims; a heartbeat that cannot be written is skipped."""
        while True:
            time.sleep(HEARTBEAT_SECONDS)
            with self._claim_lock:
                self._is_renewing = bool(self._claimed)
                if not self._is_renewing:
                    return
                lease = self._next_lease()
            with suppress(StoreError):
                self._store.renew(lease)

    def _drop_claims(self, keys: Iterable[str]) -> None:
        with self._claim_lock:
            self._claimed.difference_update(keys)

    def _put(self, calls: list[StoredCall]) -> list[None]:
        self._write(calls)
        return [None] * len(calls)

    def _write(self, calls: Iterable[StoredCall], *, replacing: bool = False) -> None:
        with self._lock:
            replacing = replacing or bool(self._unwritten)  # an unwritten call may have to replace a stored one
            self._unwritten += calls
            try:
                if self._unwritten:
                    with nullcontext() if self._budget is None else self._budget.payment() as payment:
                        self._store.put_calls(self._unwritten, replacing=replacing, payment=payment)
            except StoreError as error:
                self.broken = error
                raise
            self._drop_claims(call.key for call in self._unwritten)
            self._unwritten, self.broken = [], None


_OPEN_STORES: WeakSet[BatchedStore] = WeakSet()


def all_replies_written() -> bool:
    """Whether all paid replies of this process are written, and all costs are in the ledger."""
    return all(store.all_written for store in tuple(_OPEN_STORES))


def settle_all() -> None:
    """Write the costs of all runs of this process to the ledger, before it ends."""
    for store in tuple(_OPEN_STORES):
        store.settle()
