"""How much a process may remember, and what it drops beyond that: what is cheapest to make again for its size.

GreedyDual-Size (Cao and Irani 1997, "Cost-aware WWW proxy caching algorithms") with frequency (Cherkasova 1998): an
entry is worth the seconds that it took to make, a byte of it, times its uses. The least worth is dropped, and whoever
comes or is used later counts from there: what was of use long ago falls behind.

Sizes are estimates, which need only be in proportion: values share much of what they hold, so that what is given back
when one is dropped cannot be said beforehand. How much fits is therefore found by steps: where the memory that the
process really has goes beyond its limit, caches are emptied (`ragsmith.caches`) and a share of what is
remembered is dropped; where it grows further, another share. Before that, nothing is weighed at all.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
import threading
from collections.abc import Callable, Hashable
from contextlib import suppress
from enum import Enum
from heapq import heappop, heappush, heapreplace
from pathlib import Path
from typing import Any

import numpy as np

from ragsmith.caches import empty_caches
from ragsmith.errors import WrongOption
from ragsmith.gateway.memo import MemoEntry, Weighed
from ragsmith.types import Chunk

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": GIB << 10, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}

MOST_A_PROCESS = 3 * GIB // 2
"""Bytes that a process has at most unless a limit is given."""
SHARE = 0.5
"""Of the memory that is available, what a search takes at most unless a limit is given."""

PROGRAM = 128 * MIB
"""Bytes that a process has at most before a search begins: what is beyond belongs to others, such as a notebook."""

FEW = 128
"""So many entries are remembered between two looks at what the process really has."""
LEAST = MIB
"""Estimated bytes that are remembered however little there is: what one question's pipelines share."""
HELD_BACK = 1 / 16
"""Share of the limit that is left for what comes and goes, such as messages between processes."""
BESIDE = 96 * MIB
"""Bytes that are held back, where they are not too large a share: what grows beside that which is remembered."""
MOST_BESIDE = 1 / 4
"""Share of the limit that is held back at most."""

DROPPED = 1 / 4
"""Share of what is remembered that is dropped each time there is too much: more than what was beyond, as memory that
was given up in small pieces is not all of use to others."""
STEP = 1 / 128
"""Share of the limit by which a process may grow beyond what it had at the last time, until there is too much again."""

OVERHEAD = 400
"""Bytes of an entry beside its value: the key, its places in a dictionary and in the queue, and what is noted of it."""
EVERY = 16
"""Of objects of a class, one in so many is looked at."""
DEPTH = 4
"""Levels of a value that are looked at."""
QUICKEST = 1e-6
"""Seconds that anything takes at least; also what is assumed where they are not known."""


def release_free_memory() -> None:
    """Return free memory to the system, where its C library can."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)


class Memory:
    """Room for what a process remembers: see `ragsmith.gateway.memo.Room`. Safe to use from many threads."""

    def __init__(self, limit: int | None = None, in_use: Callable[[], int] | None = None) -> None:
        """``limit`` bounds the bytes of the process, which ``in_use`` measures; without one all is kept.

        What a process that did other things before has beyond `PROGRAM` now is not counted.
        """
        self.limit = limit
        self.level = 0.0
        self.dropped = 0
        """Entries dropped so far."""
        self.needed = 0
        """Bytes that the process had, beyond its limit, with next to nothing remembered; 0 while that never was."""
        self._in_use = in_use or process_bytes
        others = max(0, self._in_use() - PROGRAM)
        self._highest = 0 if limit is None else limit - _held_back(limit) + others
        self._step = 0 if limit is None else int(limit * STEP)
        self._too_much = self._highest
        self._most = math.inf
        self._size = self._number = 0
        self._new: list[tuple[dict[Hashable, MemoEntry[Any]], Hashable, MemoEntry[Any], Weighed | None]] = []
        self._look_at = FEW
        self._queue: list[tuple[float, int, dict[Hashable, MemoEntry[Any]], Hashable, MemoEntry[Any]]] = []
        self._sizes = Sizes()
        self._lock = threading.Lock()

    def admit(
        self,
        entries: dict[Hashable, MemoEntry[Any]],
        key: Hashable,
        entry: MemoEntry[Any],
        weighed: Weighed | None = None,
    ) -> None:
        """See `ragsmith.gateway.memo.Room.admit`."""
        if self.limit is not None:
            self._new.append((entries, key, entry, weighed))
            if len(self._new) >= self._look_at:
                with self._lock:
                    self._look()

    def _look(self) -> None:
        """See how much memory there really is; nothing is weighed before there is too much for the first time."""
        used = self._in_use()
        if used <= self._too_much and self._most == math.inf:
            self._look_at = len(self._new) + FEW
            return
        self._look_at = FEW
        self._weigh()
        if used > self._too_much:
            # what is given up now is soon used again: only where the process grows further is there too much again
            beyond, self._too_much = used - self._too_much, used + self._step
            self._most = max(LEAST, int(min(self._most, self._size) * (1 - DROPPED)) - beyond)
            empty_caches()
            self._drop()
            release_free_memory()
            if self._most <= LEAST and used > (self.limit or math.inf):
                self.needed = used
        else:
            self._drop()

    def _weigh(self) -> None:
        """Put what is new into the queue."""
        for _ in range(len(self._new)):
            entries, key, entry, weighed = self._new.pop()  # others may be adding to it
            parts = (entry.value,) if weighed is None else weighed(key, entry.value)
            entry.size = OVERHEAD + sum(map(self._sizes.of, parts))
            if not QUICKEST < entry.cost < math.inf:
                entry.cost = QUICKEST
            self._number += 1
            self._size += entry.size
            heappush(self._queue, (_worth(entry), self._number, entries, key, entry))

    def _drop(self) -> None:
        """Drop what is worth least until the rest fits."""
        queue = self._queue
        while self._size > self._most and queue:
            worth, number, entries, key, entry = queue[0]
            now = _worth(entry)
            if now > worth:  # it was used since
                heapreplace(queue, (now, number, entries, key, entry))
                continue
            heappop(queue)
            self.level = worth
            self._size -= entry.size
            self.dropped += 1
            del entries[key]


def _held_back(limit: int) -> int:
    return max(int(limit * HELD_BACK), min(BESIDE, int(limit * MOST_BESIDE)))


def _worth(entry: MemoEntry[Any]) -> float:
    return entry.level + entry.uses * entry.cost / entry.size


class Sizes:
    """About how many bytes values take, in about a microsecond each: of objects of a class only some are looked at."""

    def __init__(self) -> None:
        self._means: dict[type, float] = {}
        self._seen: dict[type, int] = {}

    def of(self, value: Any) -> int:
        """About how many bytes ``value`` has to itself."""
        kind = type(value)
        if kind in PLAIN:
            return sys.getsizeof(value)
        if kind is tuple or kind is list:
            count = len(value)
            return 56 + int(count * (8 + self._mean(value[count // 2]))) if count else 56
        if kind is np.ndarray:
            return 112 + int(value.nbytes)
        return int(self._mean(value))

    def _mean(self, value: Any) -> float:
        """The mean size of objects of the class of ``value``."""
        kind = type(value)
        seen = self._seen[kind] = self._seen.get(kind, -1) + 1
        if not seen % EVERY:
            before, looked_at = self._means.get(kind, 0.0), seen // EVERY + 1
            self._means[kind] = before + (size_of(value) - before) / looked_at
        return self._means[kind]


def size_of(value: Any, depth: int = DEPTH) -> int:
    """The bytes that a value has to itself, with what it refers to up to some depth: chunks belong to the corpus."""
    kind = type(value)
    if kind in PLAIN:
        return sys.getsizeof(value)
    if (
        value is None
        or kind is Chunk
        or isinstance(value, Enum)
        or (kind is tuple and value and type(value[0]) is Chunk)
    ):
        return 0
    slots = getattr(kind, "__slots__", None)
    below = depth - 1
    if kind is tuple or kind is list or kind is frozenset:
        size = sys.getsizeof(value) + (sum([size_of(one, below) for one in value]) if depth else 0)
    elif isinstance(value, np.ndarray):
        size = 112 + value.nbytes
    elif isinstance(value, dict):
        size = sys.getsizeof(value) + (sum([size_of(one, below) for one in value.values()]) if depth else 0)
    elif slots and depth:
        named = slots if isinstance(slots, tuple) else (slots,)
        size = 32 + sum([8 + size_of(getattr(value, name, None), below) for name in named if name[:2] != "__"])
    else:
        size = sys.getsizeof(value, 64)
    return size


PLAIN = frozenset((str, bytes, int, float, bool, np.float64, np.float32, np.int64))


def process_bytes() -> int:
    """Bytes of memory that this process has for itself; what it has had at most where the system says no more."""
    try:
        words = Path("/proc/self/statm").read_bytes().split()
        return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource  # noqa: PLC0415  not on every system
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * KIB


def parse_size(given: int | str) -> int:
    """Bytes, of a size such as ``500M``, ``2G`` or ``1.5GiB``; ``GB`` is a thousand ``MB``, all others are by 1,024.

    Raises:
        WrongOption: it is none, or below 1 MiB.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]*)", str(given).strip().lower())
    unit = found[2].replace("ib", "") if found else ""
    size = int(float(found[1]) * UNITS[unit]) if found and unit in UNITS else 0
    if size < LEAST:
        raise WrongOption("memory", f"is {given!r}: give a size of at least 1M, such as 500M, 2G or 1.5GiB")
    return size


def memory_per_process(limit: int | None, processes: int) -> int:
    """Bytes that each of so many processes may have: of a ``limit`` on all of them, or of what the machine has."""
    if limit is not None:
        return limit // processes
    return min(int(SHARE * available_bytes()) // processes, MOST_A_PROCESS)


def available_bytes(root: Path = Path("/")) -> int:
    """Memory that is available, in bytes: to the container if it has a limit, else on the machine."""
    known = []
    with suppress(OSError, StopIteration):
        lines = (root / "proc/meminfo").read_text(encoding="utf-8").splitlines()
        known.append(int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * KIB)
    groups = [root / "sys/fs/cgroup"]
    with suppress(OSError):
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        groups += [groups[0] / line.rpartition(":")[2].lstrip("/") for line in lines if line.startswith("0::")]
    files = [(group / "memory.max", group / "memory.current") for group in groups]
    old = root / "sys/fs/cgroup/memory"
    for limit, used in [*files, (old / "memory.limit_in_bytes", old / "memory.usage_in_bytes")]:
        with suppress(OSError, ValueError):  # it says "max" where there is no limit
            most = int(limit.read_text(encoding="utf-8"))
            with suppress(OSError, ValueError):
                most -= int(used.read_text(encoding="utf-8"))
            known.append(max(0, most))
    if not known:
        with suppress(ValueError, OSError, AttributeError):
            known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(known, default=4 * GIB)
