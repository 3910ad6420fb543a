"""Leases: a process that holds claims renews its lease in the cache every few seconds, by a heartbeat.

A waiting process reads the lease, and counts only the time in which it could itself use the cache. Clocks of different
machines are not compared, and a lease does not expire because the cache was locked or the machine was suspended.
"""

import os
import socket
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HEARTBEAT_SECONDS = 6.0
"""Seconds between two heartbeats of a process with claims."""
EXPIRY_SECONDS = 3 * HEARTBEAT_SECONDS
"""Seconds without a heartbeat after which a lease expires: two missing heartbeats, and one for slow writes."""
POLL_SECONDS = 1.0
"""Seconds between two reads of the claims of another process."""
NOTICE_SECONDS = 5.0
"""Seconds of waiting for one call before the first notice; each further notice follows after ten times as long."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The lease of a process that makes calls: a random ``token``, its `this_process`, and a count of heartbeats."""

    token: str
    process: str = ""
    heartbeat: int = 0

    def __str__(self) -> str:
        host, _, rest = self.process.partition(":")
        return f"process {rest.partition(':')[0]} on {host}" if rest else "another process"


def this_process() -> str:
    """Return the identity of this process: host, process id, start time, and namespace of process ids.

    The last two are empty if the system does not provide them.
    """
    return _process_name(os.getpid())


@cache
def _process_name(pid: int) -> str:
    return f"{socket.gethostname()}:{pid}:{_start_ticks(str(pid))}:{_namespace()}"


def is_gone(process: str) -> bool:
    """Whether a process has ended; False for one of another machine or container, which cannot be checked."""
    host, pid, start, namespace, *_ = [*process.split(":"), "", "", ""]
    here = namespace == _namespace() if namespace else host == socket.gethostname()
    if not here or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # a process of another user, which may have reused the id
    return bool(start) and start != _start_ticks(pid)


def _start_ticks(pid: str) -> str:
    """Return the start time of a process in kernel ticks; empty on a system without ``/proc``."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except OSError:
        return ""


@cache
def _namespace() -> str:
    """Return the scope in which process ids are unique: the boot id of the machine and the PID namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}"
    except OSError:
        return ""


@dataclass(slots=True)
class _MonitoredLease:
    """A lease of another process, the seconds without a heartbeat (``silent``), and the awaited calls.

    ``calls`` has the times when each call, by key, was first and last seen claimed.
    """

    heartbeat: int
    read: float
    silent: float = 0.0
    calls: dict[str, tuple[float, float]] = field(default_factory=dict)
    next_notice: float = NOTICE_SECONDS
    is_gone: bool = False


class LeaseMonitor:
    """Monitors the leases of the processes that this one waits for. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._monitored: dict[str, _MonitoredLease] = {}
        self._messages: list[str] = []

    def is_gone(self, lease: Lease, keys: Collection[str]) -> bool:
        """Whether the process of a lease has ended, or its lease has expired.

        The lease was just read in a transaction that could write. ``keys`` are the calls that this process waits for.
        """
        now = self._clock()
        with self._lock:
            monitored = self._monitored.setdefault(lease.token, _MonitoredLease(lease.heartbeat, now))
            passed = now - monitored.read
            monitored.read = now
            # a call that is no longer requested is finished, or the cache could not be read
            recent = {key: times for key, times in monitored.calls.items() if now - times[1] <= NOTICE_SECONDS}
            monitored.calls = recent | {key: (recent.get(key, (now, now))[0], now) for key in keys}
            waited = max((now - monitored.calls[key][0] for key in keys), default=0.0)
            monitored.silent = (
                monitored.silent + min(passed, 2 * POLL_SECONDS) if monitored.heartbeat == lease.heartbeat else 0.0
            )
            monitored.heartbeat = lease.heartbeat
            has_ended = is_gone(lease.process)
            is_lost = has_ended or monitored.silent >= EXPIRY_SECONDS
            if is_lost and not monitored.is_gone:
                reason = "has ended" if has_ended else f"has sent no heartbeat for {monitored.silent:.0f} s"
                self._messages.append(f"{lease} {reason} and left calls unfinished: they are taken over.")
            elif not is_lost and waited >= monitored.next_notice:
                monitored.next_notice *= 10
                self._messages.append(
                    f"waiting for {lease}, which makes calls that this process needs as well: {waited:.0f} s so far; "
                    f"its last heartbeat was {monitored.silent:.0f} s ago."
                )
            monitored.is_gone = is_lost
        return is_lost

    def pop_messages(self) -> list[str]:
        """Return and clear the messages about processes that have ended or are waited for."""
        with self._lock:
            messages, self._messages = self._messages, []
        return messages
