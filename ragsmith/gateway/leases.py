"""Leases: a process that holds claims renews its lease in the cache every few seconds, by a heartbeat.

A process that waits for it reads that row, and counts only time in which it could use the cache itself. So no clock is
compared with another, and a lease does not expire because the cache was locked or the machine slept.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HEARTBEAT_SECONDS = 6.0
"""Between two heartbeats of a process that holds claims."""
SILENT_SECONDS = 3 * HEARTBEAT_SECONDS
"""A lease expires after so long without a heartbeat: two are missing, and the time of one is for slow writes."""
LOOK_SECONDS = 1.0
"""Between two looks at what another process holds."""
TELL_SECONDS = 5.0
"""After so long for one call it is said who is waited for, and then whenever a wait is ten times as long."""


@dataclass(frozen=True, slots=True)
class Lease:
    """Of a process that makes calls: a random ``token``, `this_process` of it, and a number that heartbeats raise."""

    token: str
    process: str = ""
    heartbeat: int = 0

    def __str__(self) -> str:
        host, _, rest = self.process.partition(":")
        return f"process {rest.partition(':')[0]} on {host}" if rest else "another process"


def this_process() -> str:
    """A name of this process that others can check: host, process id, when it started, and where that id counts.

    The last two are empty where the system does not say them.
    """
    return _named(os.getpid())


@cache
def _named(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{_start_of(str(pid))}:{_place()}"


def is_gone(process: str) -> bool:
    """Whether a process whose id counts here has ended; nothing is known of those elsewhere."""
    host, pid, start, place, *_ = [*process.split(":"), "", "", ""]
    here = place == _place() if place else host == socket.gethostname()
    if not here or not pid.isdigit():
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


@cache
def _place() -> str:
    """Where process ids count: this boot of this machine, and in it the container, as the kernel numbers it."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


@dataclass(slots=True)
class _Watched:
    """A lease that is waited for: how long without a heartbeat that could have been seen, and for which calls."""

    heartbeat: int
    looked: float
    silent: float = 0.0
    calls: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By key: when it was first found claimed, and when last."""
    next_word: float = TELL_SECONDS
    is_given_up: bool = False


class Watch:
    """What a process knows of the others that it waits for; safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._watched: dict[str, _Watched] = {}
        self._news: list[str] = []

    def is_gone(self, lease: Lease, keys: Collection[str]) -> bool:
        """Whether the process of a lease that was just read, in a transaction that could write, has ended.

        ``keys`` are those of its calls that are waited for here.
        """
        now = self._clock()
        with self._lock:
            seen = self._watched.setdefault(lease.token, _Watched(lease.heartbeat, now))
            passed = now - seen.looked
            seen.looked = now
            # what was not looked for meanwhile is there, or nobody could look
            recent = {key: times for key, times in seen.calls.items() if now - times[1] <= TELL_SECONDS}
            seen.calls = recent | {key: (recent.get(key, (now, now))[0], now) for key in keys}
            waited = max((now - seen.calls[key][0] for key in keys), default=0.0)
            seen.silent = seen.silent + min(passed, 2 * LOOK_SECONDS) if seen.heartbeat == lease.heartbeat else 0.0
            seen.heartbeat = lease.heartbeat
            has_ended = is_gone(lease.process)
            gone = has_ended or seen.silent >= SILENT_SECONDS
            self._tell(lease, seen, waited, gone, has_ended)
            return gone

    def news(self) -> list[str]:
        """Sentences about whom this process waits for, or has given up, that have not been said yet."""
        with self._lock:
            news, self._news = self._news, []
        return news

    def _tell(self, lease: Lease, seen: _Watched, waited: float, gone: bool, has_ended: bool) -> None:
        if gone and not seen.is_given_up:
            how = "has ended" if has_ended else f"has not been heard of for {seen.silent:.0f} s"
            self._news.append(f"{lease} {how} and left calls unfinished: they are taken over.")
        elif not gone and waited >= seen.next_word:
            seen.next_word *= 10
            self._news.append(
                f"waiting for {lease}, which is making calls that are needed here, too: for {waited:.0f} s so far; "
                f"last heard of {seen.silent:.0f} s ago."
            )
        seen.is_given_up = gone
