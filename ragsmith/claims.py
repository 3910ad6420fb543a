"""Claims: one process makes a call, and others that need it wait for its reply."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

PATIENCE_SECONDS = 300.0
"""After so long a claim of another machine no longer counts; one on this machine counts while its process lives."""

PAUSE_SECONDS = 0.05


class Claiming(Protocol):
    """Where claims are kept."""

    def get_call(self, key: str) -> Any:
        """The stored call, or None."""
        ...

    def claim(self, key: str, owner: str, *, now: float, until: float, is_gone: Callable[[str], bool]) -> bool:
        """Whether ``owner`` may make the call now."""
        ...

    def give_up(self, key: str, owner: str) -> None:
        """End a claim without a reply."""
        ...


def this_process() -> str:
    """A name of this process that others can check: machine and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def is_gone(owner: str) -> bool:
    """Whether an owner on this machine has ended; nothing is known of those elsewhere."""
    host, _, pid = owner.rpartition(":")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False


@contextmanager
def claimed(store: Claiming, key: str, stopped: Callable[[], bool]) -> Iterator[Any]:
    """Yield None when the call under ``key`` is this process's to make, or the reply that another made meanwhile."""
    owner = this_process()
    while True:
        now = time.time()
        if store.claim(key, owner, now=now, until=now + PATIENCE_SECONDS, is_gone=is_gone):
            break
        time.sleep(PAUSE_SECONDS)
        found = store.get_call(key)
        if found is not None or stopped():
            yield found
            return
    found = store.get_call(key)  # it may have come between the last look and the claim
    try:
        yield found
    except BaseException:
        store.give_up(key, owner)
        raise
    if found is not None:
        store.give_up(key, owner)
