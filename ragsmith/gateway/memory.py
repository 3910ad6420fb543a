"""The memory limit of a process, beyond which the values of least computation cost per byte are evicted.

GreedyDual-Size (Cao and Irani 1997, "Cost-aware WWW proxy caching algorithms") with frequency (Cherkasova 1998): the
priority of an entry is its cost in seconds, divided by its bytes, times its uses, plus the level of the policy at its
last use. The entry of lowest priority is evicted, and its priority is the new level, so that entries age.

Sizes are estimates that need only be proportional: values share memory, so the memory freed by an eviction is not known
in advance. The capacity is therefore approached in steps: when the real memory of the process exceeds the limit, caches
are emptied (`ragsmith.caches`) and a share of the entries is evicted, and again when it grows further. No entry is
measured before that.
"""

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
from ragsmith.gateway.memo import GetParts, MemoEntry
from ragsmith.types import Chunk

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
UNITS = {"": 1, "k": KIB, "m": MIB, "g": GIB, "t": GIB << 10, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}

DEFAULT_PROCESS_BYTES = 3 * GIB // 2
"""Maximum bytes of a process if the user sets no limit."""
DEFAULT_SHARE = 0.5
"""Maximum share of the available memory for a search if the user sets no limit."""

PROGRAM_BYTES = 128 * MIB
"""Maximum bytes of ragsmith before a search; the rest belongs to the host process, such as a notebook."""

BUILDING_BYTES = 256 * MIB
"""Bytes that building the indexes of a large collection takes besides those of its chunks."""
CHUNK_BYTES = 1536
"""Private bytes of a chunk while the indexes of a large collection are built, without arrays in files."""
MIN_PROCESS_BYTES = 128 * MIB
"""Minimum bytes of a process besides the collection that it shares."""

CHECK_ENTRIES = 128
"""Number of new entries between two checks of the real memory."""
MIN_CACHE_BYTES = MIB
"""Estimated bytes that are never evicted: the values shared by the pipelines of one question."""
RESERVED_SHARE, RESERVED_BYTES, MAX_RESERVED_SHARE = 1 / 16, 96 * MIB, 1 / 4
"""Reserve for other memory: the larger of a share of the limit and of a number of bytes, the latter at most 1/4."""

EVICTED_SHARE = 1 / 4
"""Share of the entries evicted at a time, beyond the excess, because fragmented memory is not fully usable."""
STEP_SHARE = 1 / 128
"""Share of the limit by which a process may grow between two evictions."""

ENTRY_BYTES = 400
"""Overhead of an entry: the key, and its slots in a dictionary and the queue."""
MEASURED_DEPTH = 4
"""Levels of nested values that are measured."""
MIN_COST_SECONDS = 1e-6
"""Minimum cost of an entry, also used for an unknown cost."""


def release_free_memory() -> None:
    """Return free memory to the system if its C library supports this."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
        if trim is not None:
            trim(0)


class Memory:
    """The eviction policy of a process: see `ragsmith.gateway.memo.EvictionPolicy`. Thread-safe."""

    def __init__(self, limit: int | None = None, in_use: Callable[[], int] | None = None) -> None:
        """Limit the bytes of the process, which ``in_use`` measures; without ``limit`` nothing is evicted.

        Memory beyond `PROGRAM_BYTES` that the process already uses is not counted.
        """
        self.level = 0.0
        self.evicted = 0
        """Number of evicted entries."""
        self.needed = 0
        """Bytes of the process if it exceeded its limit with an almost empty cache, else 0."""
        self._in_use = in_use or process_bytes
        self.host_bytes = max(0, self._in_use() - PROGRAM_BYTES)
        """Bytes that are not counted."""
        self.resize(limit)
        self._max_size = math.inf
        self._size = self._sequence = 0
        self._new: list[tuple[dict[Hashable, MemoEntry[Any]], Hashable, MemoEntry[Any], GetParts | None]] = []
        self._check_at = CHECK_ENTRIES
        self._queue: list[tuple[float, int, dict[Hashable, MemoEntry[Any]], Hashable, MemoEntry[Any]]] = []
        self._lock = threading.Lock()

    def resize(self, limit: int | None) -> None:
        """Set the limit."""
        self.limit = limit
        self._threshold = 0 if limit is None else limit - _reserved_bytes(limit) + self.host_bytes
        self._step = 0 if limit is None else int(limit * STEP_SHARE)

    def admit(
        self,
        entries: dict[Hashable, MemoEntry[Any]],
        key: Hashable,
        entry: MemoEntry[Any],
        get_parts: GetParts | None = None,
    ) -> None:
        """See `EvictionPolicy.admit`."""
        if self.limit is not None:
            self._new.append((entries, key, entry, get_parts))
            if len(self._new) >= self._check_at:
                with self._lock:
                    self._check()

    def _check(self) -> None:
        """Measure the real memory; no entry is measured before it exceeds the limit for the first time."""
        used = self._in_use()
        if used <= self._threshold and self._max_size == math.inf:
            self._check_at = len(self._new) + CHECK_ENTRIES
            return
        self._check_at = CHECK_ENTRIES
        self._measure()
        if used > self._threshold:
            # freed memory is soon used again, so the next eviction waits until the process grows
            excess, self._threshold = used - self._threshold, used + self._step
            self._max_size = max(MIN_CACHE_BYTES, int(min(self._max_size, self._size) * (1 - EVICTED_SHARE)) - excess)
            empty_caches()
            self._evict()
            release_free_memory()
            if self._max_size <= MIN_CACHE_BYTES and used > (self.limit or math.inf):
                self.needed = used
        else:
            self._evict()

    def _measure(self) -> None:
        """Measure new entries and add them to the queue."""
        for _ in range(len(self._new)):
            entries, key, entry, get_parts = self._new.pop()  # other threads may append to the list
            parts = (entry.value,) if get_parts is None else get_parts(key, entry.value)
            entry.size = ENTRY_BYTES + sum(map(estimate_size, parts))
            if not MIN_COST_SECONDS < entry.cost < math.inf:
                entry.cost = MIN_COST_SECONDS
            self._sequence += 1
            self._size += entry.size
            heappush(self._queue, (_priority(entry), self._sequence, entries, key, entry))

    def _evict(self) -> None:
        """Evict the entries of lowest priority until the rest fits."""
        queue = self._queue
        while self._size > self._max_size and queue:
            priority, number, entries, key, entry = queue[0]
            now = _priority(entry)
            if now > priority:  # the entry was used in the meantime
                heapreplace(queue, (now, number, entries, key, entry))
                continue
            heappop(queue)
            self.level = priority
            self._size -= entry.size
            self.evicted += 1
            del entries[key]


def _reserved_bytes(limit: int) -> int:
    return max(int(limit * RESERVED_SHARE), min(RESERVED_BYTES, int(limit * MAX_RESERVED_SHARE)))


def _priority(entry: MemoEntry[Any]) -> float:
    return entry.level + entry.uses * entry.cost / entry.size


def estimate_size(value: Any, depth: int = MEASURED_DEPTH) -> int:
    """Estimate the bytes of a value and of the objects it refers to, ``depth`` levels deep, without chunks.

    A tuple, list or frozenset is measured by one item. Chunks belong to the corpus.
    """
    kind = type(value)
    if value is None or kind is Chunk or isinstance(value, Enum):
        return 0
    if isinstance(value, np.ndarray):
        return 112 + value.nbytes
    if kind in SCALAR_TYPES or not depth:
        return sys.getsizeof(value, 64)
    if kind in (tuple, list, frozenset):
        item = next(islice(value, len(value) // 2, None), None)
        return 0 if type(item) is Chunk else sys.getsizeof(value) + len(value) * estimate_size(item, depth - 1)
    if isinstance(value, dict):
        return sys.getsizeof(value) + sum([estimate_size(item, depth - 1) for item in value.values()])
    slots = getattr(kind, "__slots__", ())
    names = [name for name in (slots if isinstance(slots, tuple) else (slots,)) if name[:2] != "__"]
    parts = sum([8 + estimate_size(getattr(value, name, None), depth - 1) for name in names])
    return 32 + parts if slots else sys.getsizeof(value, 64)


SCALAR_TYPES = frozenset((str, bytes, int, float, bool, np.float64, np.float32, np.int64))


def process_bytes() -> int:
    """Return the memory of this process in bytes without pages of files, or its peak if the system lacks that value.

    Files on a tmpfs are memory, so that their pages count.
    """
    with suppress(OSError):
        status = Path("/proc/self/status").read_bytes()
        if sizes := re.findall(rb"^Rss(?:Anon|Shmem):\s*(\d+) kB", status, re.MULTILINE):
            return sum(map(int, sizes)) * KIB
    try:
        import resource  # noqa: PLC0415  some systems lack it
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * KIB


def parse_size(size: int | str) -> int:
    """Parse a size such as ``500M``, ``2G`` or ``1.5GiB`` into bytes; ``KB``, ``MB``, ``GB`` and ``TB`` are decimal.

    Raises:
        WrongOption: the size has another form, or is below 1 MiB.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]*)", str(size).strip().lower())
    unit = match[2].replace("ib", "") if match else ""
    n_bytes = int(float(match[1]) * UNITS[unit]) if match and unit in UNITS else 0
    if n_bytes < MIN_CACHE_BYTES:
        raise WrongOption("memory", f"is {size!r}: give a size of at least 1M, such as 500M, 2G or 1.5GiB")
    return n_bytes


def memory_per_process(limit: int | None, processes: int) -> int:
    """Return the bytes for each of ``processes``: a share of ``limit``, or of the available memory."""
    if limit is not None:
        return limit // processes
    return min(int(DEFAULT_SHARE * available_bytes()) // processes, DEFAULT_PROCESS_BYTES)


def share_memory(limit: int | None, processes: int, collection: int) -> tuple[int, int, int]:
    """Return how many of ``processes`` fit in the limit, the bytes of the first, and the bytes of each other one.

    The bytes of a ``collection``, which the processes share, count once, in the first; the rest is divided equally.

    Raises:
        WrongOption: the limit has no room for the collection.
    """
    if limit is None or not collection:
        share = memory_per_process(limit, processes)
        return processes, share + collection, share
    spare = limit - collection
    fitting = min(processes, spare // MIN_PROCESS_BYTES)
    if fitting < 1:
        raise WrongOption(
            "memory",
            f"is {limit / MIB:,.0f} MiB, and the index of these documents takes about {collection / MIB:,.0f} MiB: give"
            f" at least {math.ceil((collection + MIN_PROCESS_BYTES) / GIB)}G, or take a part of the documents",
        )
    return fitting, collection + spare // fitting, spare // fitting


def available_bytes(root: Path = Path("/")) -> int:
    """Return the available memory in bytes: of the container if it has a limit, else of the machine."""
    free = re.search(r"^MemAvailable: *(\d+)", _read(root / "proc/meminfo"), re.MULTILINE)
    candidates = [int(free[1]) * KIB] if free else []
    cgroup = re.search(r"^0::/*(.*)", _read(root / "proc/self/cgroup"), re.MULTILINE)
    cgroup_root = root / "sys/fs/cgroup"
    files = [
        (folder / "memory.max", folder / "memory.current")
        for folder in (cgroup_root, cgroup_root / (cgroup[1] if cgroup else ""))
    ]
    cgroup_v1 = cgroup_root / "memory"
    for limit, used in [*files, (cgroup_v1 / "memory.limit_in_bytes", cgroup_v1 / "memory.usage_in_bytes")]:
        if (maximum := _read(limit)).isdigit():  # "max" without a limit
            candidates.append(max(0, int(maximum) - int(_read(used) or 0)))
    if not candidates:
        with suppress(ValueError, OSError, AttributeError):
            candidates.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(candidates, default=4 * GIB)


def _read(file: Path) -> str:
    """Return the text of a file, or "" if it cannot be read."""
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
