"""The memory limit of a process: beyond it, the values that are cheapest to compute again for their size are evicted.

GreedyDual-Size (Cao and Irani 1997, "Cost-aware WWW proxy caching algorithms") with frequency (Cherkasova 1998): the
worth of an entry is the seconds that it took to compute, divided by its bytes, times its uses, plus the level of the
policy at its last use. The entry of least worth is evicted, and its worth is the new level: so entries age.

Sizes are estimates and need only be proportional: values share memory, so what an eviction frees is not known in
advance. How much fits is therefore found in steps: where the real memory of the process exceeds the limit, caches are
emptied (`ragsmith.caches`) and a share of the entries is evicted; where it grows further, another share. Before that,
nothing is weighed.
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
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ragsmith.caches import empty_caches
from ragsmith.errors import WrongOption
from ragsmith.gateway.memo import MemoEntry, Weighed
from ragsmith.types import Chunk

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": GIB << 10, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}

DEFAULT_PROCESS_BYTES = 3 * GIB // 2
"""The most for a process without a limit."""
DEFAULT_SHARE = 0.5
"""Of the available memory, the most for a search without a limit."""

PROGRAM_BYTES = 128 * MIB
"""The most that a process needs before a search begins: what it has beyond is that of a notebook, for example."""

CHECK_ENTRIES = 128
"""New entries between two checks of the real memory."""
LEAST_BYTES = MIB
"""Estimated bytes that are always kept: what the pipelines of one question share."""
RESERVED_SHARE, RESERVED_BYTES, MOST_RESERVED_SHARE = 1 / 16, 96 * MIB, 1 / 4
"""Of the limit, the share and the bytes that are reserved for other things, at most the last share for the bytes."""

EVICTED_SHARE = 1 / 4
"""Of the entries that is evicted each time, beyond the excess, as memory freed in small pieces is not all usable."""
STEP_SHARE = 1 / 128
"""Of the limit by which a process may grow after an eviction before the next one."""

ENTRY_BYTES = 400
"""Of an entry besides its value: the key, and its places in a dictionary and in the queue."""
DEPTH = 4
"""Levels of a value that are measured."""
LEAST_SECONDS = 1e-6
"""The least cost of an entry, and that of one whose cost is not known."""


def release_free_memory() -> None:
    """Return free memory to the system, where its C library can."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)


class Memory:
    """The eviction policy of a process: see `ragsmith.gateway.memo.EvictionPolicy`. Safe to use from many threads."""

    def __init__(self, limit: int | None = None, in_use: Callable[[], int] | None = None) -> None:
        """``limit`` bounds the bytes of the process, which ``in_use`` measures; without one nothing is evicted.

        What the process has beyond `PROGRAM_BYTES` already is not counted.
        """
        self.limit = limit
        self.level = 0.0
        self.evicted = 0
        """Entries evicted so far."""
        self.needed = 0
        """Bytes of the process when it exceeded its limit with next to nothing remembered; 0 before that."""
        self._in_use = in_use or process_bytes
        others = max(0, self._in_use() - PROGRAM_BYTES)
        self._too_much = 0 if limit is None else limit - _reserved(limit) + others
        self._step = 0 if limit is None else int(limit * STEP_SHARE)
        self._most = math.inf
        self._size = self._number = 0
        self._new: list[tuple[dict[Hashable, MemoEntry[Any]], Hashable, MemoEntry[Any], Weighed | None]] = []
        self._check_at = CHECK_ENTRIES
        self._queue: list[tuple[float, int, dict[Hashable, MemoEntry[Any]], Hashable, MemoEntry[Any]]] = []
        self._lock = threading.Lock()

    def admit(
        self,
        entries: dict[Hashable, MemoEntry[Any]],
        key: Hashable,
        entry: MemoEntry[Any],
        weighed: Weighed | None = None,
    ) -> None:
        """See `EvictionPolicy.admit`."""
        if self.limit is not None:
            self._new.append((entries, key, entry, weighed))
            if len(self._new) >= self._check_at:
                with self._lock:
                    self._check()

    def _check(self) -> None:
        """Measure the real memory; nothing is weighed before it exceeds the limit for the first time."""
        used = self._in_use()
        if used <= self._too_much and self._most == math.inf:
            self._check_at = len(self._new) + CHECK_ENTRIES
            return
        self._check_at = CHECK_ENTRIES
        self._weigh()
        if used > self._too_much:
            # what is freed is soon used again: the next eviction is only when the process grows further
            beyond, self._too_much = used - self._too_much, used + self._step
            self._most = max(LEAST_BYTES, int(min(self._most, self._size) * (1 - EVICTED_SHARE)) - beyond)
            empty_caches()
            self._evict()
            release_free_memory()
            if self._most <= LEAST_BYTES and used > (self.limit or math.inf):
                self.needed = used
        else:
            self._evict()

    def _weigh(self) -> None:
        """Put new entries into the queue."""
        for _ in range(len(self._new)):
            entries, key, entry, weighed = self._new.pop()  # other threads may be adding to it
            parts = (entry.value,) if weighed is None else weighed(key, entry.value)
            entry.size = ENTRY_BYTES + sum(map(size_of, parts))
            if not LEAST_SECONDS < entry.cost < math.inf:
                entry.cost = LEAST_SECONDS
            self._number += 1
            self._size += entry.size
            heappush(self._queue, (_worth(entry), self._number, entries, key, entry))

    def _evict(self) -> None:
        """Evict the entries of least worth until the rest fits."""
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
            self.evicted += 1
            del entries[key]


def _reserved(limit: int) -> int:
    return max(int(limit * RESERVED_SHARE), min(RESERVED_BYTES, int(limit * MOST_RESERVED_SHARE)))


def _worth(entry: MemoEntry[Any]) -> float:
    return entry.level + entry.uses * entry.cost / entry.size


def size_of(value: Any, depth: int = DEPTH) -> int:
    """The estimated bytes of a value and of what it refers to, ``depth`` levels deep; chunks belong to the corpus.

    Of a tuple, a list or a frozenset one item is measured, and counts for all.
    """
    kind = type(value)
    if value is None or kind is Chunk or isinstance(value, Enum):
        return 0
    if isinstance(value, np.ndarray):
        return 112 + value.nbytes
    if kind in PLAIN or not depth:
        return sys.getsizeof(value, 64)
    if kind in (tuple, list, frozenset):
        item = next(islice(value, len(value) // 2, None), None)
        return 0 if type(item) is Chunk else sys.getsizeof(value) + len(value) * size_of(item, depth - 1)
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum([size_of(item, depth - 1) for item in value.values()])
    slots = getattr(kind, "__slots__", ())
    names = [name for name in (slots if isinstance(slots, tuple) else (slots,)) if name[:2] != "__"]
    parts = sum([8 + size_of(getattr(value, name, None), depth - 1) for name in names])
    return 32 + parts if slots else sys.getsizeof(value, 64)


PLAIN = frozenset((str, bytes, int, float, bool, np.float64, np.float32, np.int64))


def process_bytes() -> int:
    """The private memory of this process in bytes, or its peak where the system reports no more."""
    try:
        words = Path("/proc/self/statm").read_bytes().split()
        return (int(words[1]) - int(words[2])) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        pass
    try:
        import resource  # noqa: PLC0415  some systems lack it
    except ImportError:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * KIB


def parse_size(given: int | str) -> int:
    """Parse a size such as ``500M``, ``2G`` or ``1.5GiB`` into bytes; ``KB``, ``MB``, ``GB`` and ``TB`` are decimal.

    Raises:
        WrongOption: it has another form, or is below 1 MiB.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]*)", str(given).strip().lower())
    unit = found[2].replace("ib", "") if found else ""
    size = int(float(found[1]) * UNITS[unit]) if found and unit in UNITS else 0
    if size < LEAST_BYTES:
        raise WrongOption("memory", f"is {given!r}: give a size of at least 1M, such as 500M, 2G or 1.5GiB")
    return size


def memory_per_process(limit: int | None, processes: int) -> int:
    """The bytes for each of so many processes: their share of ``limit``, or of the available memory."""
    if limit is not None:
        return limit // processes
    return min(int(DEFAULT_SHARE * available_bytes()) // processes, DEFAULT_PROCESS_BYTES)


def available_bytes(root: Path = Path("/")) -> int:
    """The available memory in bytes: of the container if it has a limit, else of the machine."""
    free = re.search(r"^MemAvailable: *(\d+)", _read(root / "proc/meminfo"), re.MULTILINE)
    known = [int(free[1]) * KIB] if free else []
    group = re.search(r"^0::/*(.*)", _read(root / "proc/self/cgroup"), re.MULTILINE)
    top = root / "sys/fs/cgroup"
    files = [(folder / "memory.max", folder / "memory.current") for folder in (top, top / (group[1] if group else ""))]
    old = top / "memory"
    for limit, used in [*files, (old / "memory.limit_in_bytes", old / "memory.usage_in_bytes")]:
        if (most := _read(limit)).isdigit():  # it is "max" where there is no limit
            known.append(max(0, int(most) - int(_read(used) or 0)))
    if not known:
        with suppress(ValueError, OSError, AttributeError):
            known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(known, default=4 * GIB)


def _read(file: Path) -> str:
    """The text of a file, or "" if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
