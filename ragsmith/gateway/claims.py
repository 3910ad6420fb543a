"""Claims: one process makes a call, and others that need it wait for its reply."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from ragsmith.errors import StoreError
from ragsmith.gateway.batching import Batcher
from ragsmith.models.calls import StoredCall
from ragsmith.models.traits import Traits

PATIENCE_SECONDS = 1800.0
"""After so long a claim no longer counts; before that, one on this machine counts while its process lives.

Longer than any request: attempts, and the pauses that a provider may ask for between them.
"""

PAUSE_SECONDS = 0.05


BATCH = 64


class CallStore(Protocol):
    """Where paid replies are kept, who is paying for one now, and what was learnt of models."""

    def traits(self, model: str) -> Traits | None:
        """What is known of the model of this id."""
        ...

    def put_traits(self, model: str, traits: Traits) -> None:
        """Add to what is known of the model of this id."""
        ...

    def get_call(self, key: str) -> StoredCall | None:
        """The stored call, or None."""
        ...

    def get_calls(self, keys: Iterable[str]) -> dict[str, StoredCall]:
        """Those of the calls that are there, by key."""
        ...

    def put_calls(self, calls: Iterable[StoredCall], *, replacing: bool = False) -> None:
        """Keep several in one transaction, in the place of those there if ``replacing``; durable when this returns."""
        ...

    def claim_many(
        self, keys: Sequence[str], owner: str, *, now: float, until: float, is_gone: Callable[[str], bool]
    ) -> set[str]:
        """Those of ``keys`` whose calls ``owner`` may make now."""
        ...

    def give_up(self, key: str, owner: str) -> None:
        """End a claim without a reply."""
        ...


def this_process() -> str:
    """A name of this process that others can check: machine, process id, and when it started where that is known."""
    return _named(os.getpid())


@cache
def _named(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{_start_of(str(pid))}"


def is_gone(owner: str) -> bool:
    """Whether an owner on this machine has ended; nothing is known of those elsewhere."""
    host, _, process = owner.partition(":")
    pid, _, start = process.partition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # somebody else's process, which may have got the number of one that ended
    return bool(start) and start != _start_of(pid)


def _start_of(pid: str) -> str:
    """When a process started, in the kernel's ticks; empty where the system has no ``/proc``."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except OSError:
        return ""


@contextmanager
def claimed(store: Grouped, key: str, stopped: Callable[[], bool]) -> Iterator[StoredCall | None]:
    """Yield None when the call under ``key`` is this process's to make, or the reply that another made meanwhile."""
    while not store.claim_many([key]):
        time.sleep(PAUSE_SECONDS)
        found = store.get_call(key)
        if found is not None or stopped():
            yield found
            return
    found = store.get_call(key)  # it may have come between the last look and the claim
    try:
        yield found
    except BaseException:
        store.give_up(key)
        raise
    if found is not None:
        store.give_up(key)


@contextmanager
def claimed_many(store: Grouped, keys: Sequence[str]) -> Iterator[tuple[set[str], dict[str, StoredCall]]]:
    """Yield those of ``keys`` whose calls are this process's to make now, and the replies that others made meanwhile.

    Whoever makes its own before it asks again for the rest can never wait for somebody who waits for it.
    """
    free = store.claim_many(keys)
    found = store.get_calls(keys)
    unused = free & found.keys()
    try:
        yield free - found.keys(), found
    except BaseException:
        unused = free
        raise
    finally:
        for key in unused:
            store.give_up(key)


class Grouped:
    """A store whose claims and replies are written by many threads in few transactions: each costs a write to disk.

    A paid reply that cannot be written is written with the next one; ``broken`` is why one could not be, until that is
    done.
    """

    def __init__(self, store: CallStore) -> None:
        self._store = store
        self._lock = threading.RLock()
        self._unwritten: list[StoredCall] = []
        self.broken: StoreError | None = None
        self._claims: Batcher[str, bool] = Batcher(self._claim, size=BATCH)
        self._new: Batcher[StoredCall, None] = Batcher(self._put, size=BATCH)
        _OPEN.add(self)

    def get_call(self, key: str) -> StoredCall | None:
        """See `Store.get_call`."""
        return self._store.get_call(key)

    def get_calls(self, keys: Iterable[str]) -> dict[str, StoredCall]:
        """See `Store.get_calls`."""
        return self._store.get_calls(keys)

    def put_calls(self, calls: Iterable[StoredCall], *, replacing: bool = False) -> None:
        """See `Store.put_calls`; durable when this returns."""
        if replacing:
            self._write(calls, replacing=True)
        else:
            self._new(list(calls))

    @property
    def all_written(self) -> bool:
        """Whether no reply waits to be written, or is being written."""
        return not self._unwritten

    def write_rest(self) -> None:
        """Try once more to write the replies that could not be written.

        Raises:
            StoreError: they still cannot be; it says how many are lost.
        """
        try:
            self._write(())
        except StoreError as error:
            lost = len(self._unwritten)
            raise StoreError(f"{error}; {lost} paid replies could not be kept, and will be paid for again") from None

    def recover(self) -> None:
        """Try again to write what could not be written, unless another thread is at it; ``broken`` says how it went."""
        if self.broken is not None and self._lock.acquire(blocking=False):
            try:
                with suppress(StoreError):
                    self._write(())
            finally:
                self._lock.release()

    def claim_many(self, keys: Sequence[str]) -> set[str]:
        """Those of ``keys`` whose calls this process may make now."""
        return {key for key, free in zip(keys, self._claims(keys), strict=True) if free}

    def give_up(self, key: str) -> None:
        """End this process's claim without a reply."""
        self._store.give_up(key, this_process())

    def _claim(self, keys: list[str]) -> list[bool]:
        now = time.time()
        free = self._store.claim_many(keys, this_process(), now=now, until=now + PATIENCE_SECONDS, is_gone=is_gone)
        return [key in free for key in keys]

    def _put(self, calls: list[StoredCall]) -> list[None]:
        self._write(calls)
        return [None] * len(calls)

    def _write(self, calls: Iterable[StoredCall], *, replacing: bool = False) -> None:
        with self._lock:
            replacing = replacing or bool(self._unwritten)  # one of those may have been to replace another
            self._unwritten += calls
            try:
                if self._unwritten:
                    self._store.put_calls(self._unwritten, replacing=replacing)
            except StoreError as error:
                self.broken = error
                raise
            self._unwritten, self.broken = [], None


_OPEN: WeakSet[Grouped] = WeakSet()


def everything_is_written() -> bool:
    """Whether no paid reply of this process waits to be written, or is being written."""
    return all(store.all_written for store in tuple(_OPEN))
