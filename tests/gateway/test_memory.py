"""Memory: what does not fit is dropped, what is cheapest to make again for its size first, and nothing else changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from itertools import chain, repeat
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rows import rows

from ragsmith.caches import register_cache
from ragsmith.errors import WrongOption
from ragsmith.gateway.memo import Memo, MemoEntry
from ragsmith.gateway.memory import (
    GIB,
    KIB,
    MIB,
    MIN_PROCESS_BYTES,
    Memory,
    available_bytes,
    estimate_size,
    memory_per_process,
    parse_size,
    process_bytes,
    share_memory,
)
from ragsmith.types import Chunk, Hit, Passage, Scale, Span

TEXT = "x" * KIB


def full() -> Memory:
    """Evicts as much as it may, as the process exceeds its limit as soon as something is remembered."""
    looks = chain([0], repeat(GIB))
    return Memory(1, in_use=lambda: next(looks))


def kept(
    memory: Memory, costs: dict[Hashable, float], value: Callable[[Hashable], Any] = lambda _: TEXT
) -> set[Hashable]:
    """The keys that are still there after entries of these costs were admitted in turn."""
    entries: dict[Hashable, MemoEntry[Any]] = {}
    for key, cost in costs.items():
        entry = entries[key] = MemoEntry(value(key), cost, memory.level)
        memory.admit(entries, key, entry)
    return set(entries)


def fill(memory: Memory, entries: dict[Hashable, MemoEntry[Any]], number: int) -> None:
    """Admit so many entries of 64 KiB."""
    for n in range(number):
        entry = entries[n] = MemoEntry(TEXT * 64, 1e-3, memory.level)
        memory.admit(entries, n, entry)


def test_the_cheapest_values_are_evicted_first() -> None:
    memory = full()
    there = kept(memory, {n: 1.0 if n % 2 else 1e-3 for n in range(1200)})
    assert {n for n in range(1200) if n % 2} <= there
    assert memory.evicted == 1200 - len(there) > 0


def test_of_values_of_equal_cost_the_larger_is_evicted_first() -> None:
    there = kept(full(), dict.fromkeys(range(400), 1e-2), lambda n: TEXT * (8 if n % 2 else 1))
    assert {n for n in range(400) if n % 2 == 0} <= there


def test_uses_raise_the_worth() -> None:
    memo: Memo[str] = Memo(full())
    for n in range(5000):
        memo.get(n, lambda: TEXT)
        memo.get(0, lambda: TEXT)
    assert memo.get(0, lambda: "made again") == TEXT
    assert memo.computed == 5000
    assert len(memo) < 1000


@pytest.mark.parametrize("cost", [math.nan, math.inf, -1.0, 0.0])
def test_a_cost_that_is_not_known_is_the_least(cost: float) -> None:
    there = kept(full(), {n: 1e-3 if n % 2 else cost for n in range(1000)})
    assert {n for n in range(1000) if n % 2} <= there


def test_entries_age() -> None:
    memory = full()
    entries: dict[Hashable, MemoEntry[Any]] = {}

    def add(key: Hashable, cost: float) -> None:
        entry = entries[key] = MemoEntry(TEXT, cost, memory.level)
        memory.admit(entries, key, entry)

    add("old", 2e-2)
    for n in range(200_000):
        add(n, 1e-3)
        if "old" not in entries:
            break
    assert "old" not in entries


def test_the_limit_is_on_the_real_memory_of_the_process() -> None:
    """Estimates are off by four here: the process has four times as many bytes as it says that values take."""
    entries: dict[Hashable, MemoEntry[Any]] = {}
    seen = [0]

    def in_use() -> int:
        seen.append(100 * MIB + 4 * 64 * KIB * len(entries))
        return seen[-1]

    memory = Memory(200 * MIB, in_use=in_use)
    fill(memory, entries, 2000)
    assert memory.evicted > 0
    assert max(seen) <= 250 * MIB


def test_entries_are_evicted_for_other_memory_of_the_process() -> None:
    """What was dropped stays with the process here, as if it could not be given back, and is used again."""
    entries: dict[Hashable, MemoEntry[Any]] = {}
    others = had = 0

    def in_use() -> int:
        nonlocal had
        had = max(had, 50 * MIB + 16 * KIB * len(entries) + others)
        return had

    memory = Memory(200 * MIB, in_use=in_use)
    for n in range(30_000):
        others += 4 * KIB
        entry = entries[n] = MemoEntry(TEXT * 64, 1e-3, memory.level)
        memory.admit(entries, n, entry)
    assert others > 100 * MIB
    assert had <= 220 * MIB
    assert entries


class Keeper:
    """Notes how many entries there were when its cache was emptied."""

    def __init__(self, entries: dict[Hashable, MemoEntry[Any]]) -> None:
        self.asked: list[int] = []
        self._entries = entries

    def empty(self) -> None:
        self.asked.append(len(self._entries))


def test_registered_caches_are_emptied_only_where_there_is_too_much() -> None:
    entries: dict[Hashable, MemoEntry[Any]] = {}
    memory = Memory(200 * MIB, in_use=lambda: 100 * MIB + 64 * KIB * len(entries))
    keeper = Keeper(entries)
    register_cache(keeper.empty, key="", entries=1)
    fill(memory, entries, 2000)
    assert keeper.asked
    assert min(keeper.asked) >= (150 - 100) * 16  # a quarter of the limit is held back


@pytest.mark.parametrize(("limit", "needed"), [(40 * MIB, True), (200 * MIB, False)])
def test_a_limit_below_what_is_needed_anyway_is_detected(limit: int, needed: bool) -> None:
    entries: dict[Hashable, MemoEntry[Any]] = {}
    memory = Memory(limit, in_use=lambda: 50 * MIB + 64 * KIB * len(entries))
    fill(memory, entries, 20_000)
    assert (memory.needed > limit) is needed


def test_memory_from_before_is_not_counted() -> None:
    """A search in a notebook with 4 GiB of its own has as much room as anywhere."""
    entries: dict[Hashable, MemoEntry[Any]] = {}
    memory = Memory(400 * MIB, in_use=lambda: 4 * GIB + 64 * KIB * len(entries))
    fill(memory, entries, 1000)
    assert memory.evicted == 0


@given(st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=300), min_size=1, max_size=10))
def test_several_at_once_are_there_even_if_they_do_not_fit(batches: list[list[int]]) -> None:
    memo: Memo[str] = Memo(full())
    for keys in batches:
        assert memo.get_many(keys, lambda missing: [f"{n:>8192}" for n in missing]) == [f"{n:>8192}" for n in keys]


def test_sizes_are_those_of_values_and_not_of_the_corpus() -> None:
    chunk = Chunk("c", "d", 0, 0, 9, "word " * 1000)
    hits = tuple(Hit(chunk, 0.5, Scale.BM25) for _ in range(100))
    assert 5_000 < estimate_size(hits) < 20_000
    assert 9_000 < estimate_size((Passage("y" * 9000, (Span("d", 0, 9),), 0.5),)) < 11_000
    assert estimate_size(np.zeros(1000)) == 8112
    assert estimate_size(TEXT) > KIB
    assert estimate_size(()) < 100
    assert 0 < estimate_size(object()) < 100


@pytest.mark.parametrize(("text", "size"), rows("sizes in bytes"))
def test_sizes_are_parsed(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "G", "2X", "-2G", "1e3M", "nan", "inf", "0", "100K", "2 G G", 0, -5])
def test_an_invalid_size_is_refused(text: str | int) -> None:
    with pytest.raises(WrongOption, match=r"memory is .*: give a size of at least 1M, such as 500M, 2G or 1\.5GiB"):
        parse_size(text)


def test_a_limit_is_for_all_processes_together() -> None:
    assert memory_per_process(3 * GIB, 3) == GIB
    assert 0 < memory_per_process(None, 3) <= 3 * GIB // 2


def test_a_collection_counts_once_and_the_rest_is_for_all_processes() -> None:
    assert share_memory(4 * GIB, 3, GIB) == (3, 2 * GIB, GIB)
    assert share_memory(4 * GIB, 4, 0) == (4, GIB, GIB)


def test_fewer_processes_start_where_more_do_not_fit_beside_the_collection() -> None:
    limit = GIB + 3 * MIN_PROCESS_BYTES - 1
    assert share_memory(limit, 3, GIB) == (2, GIB + (limit - GIB) // 2, (limit - GIB) // 2)


def test_a_limit_without_room_for_the_collection_is_refused_and_the_default_never() -> None:
    with pytest.raises(
        WrongOption, match=r"memory is 1,024 MiB, and the index .* 1,024 MiB: give at least 2G, or take"
    ):
        share_memory(GIB, 1, GIB)
    processes, first, other = share_memory(None, 3, 1 << 50)
    assert (processes, first - other) == (3, 1 << 50)


def machine(root: Path, files: dict[str, str]) -> Path:
    """A file system of a machine."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    return root


MEMINFO = {"proc/meminfo": "MemTotal: 8388608 kB\nMemFree: 100 kB\nMemAvailable: 4194304 kB\n"}


def test_available_memory_is_that_of_the_machine(tmp_path: Path) -> None:
    assert available_bytes(machine(tmp_path, MEMINFO)) == 4 * GIB


def test_a_container_has_what_its_limit_leaves(tmp_path: Path) -> None:
    group = {"sys/fs/cgroup/memory.max": f"{3 * GIB}\n", "sys/fs/cgroup/memory.current": f"{GIB}\n"}
    assert available_bytes(machine(tmp_path, MEMINFO | group)) == 2 * GIB


def test_a_limit_of_a_group_further_down_counts(tmp_path: Path) -> None:
    group = {
        "proc/self/cgroup": "0::/some/slice\n",
        "sys/fs/cgroup/memory.max": "max\n",
        "sys/fs/cgroup/some/slice/memory.max": f"{GIB}\n",
    }
    assert available_bytes(machine(tmp_path, MEMINFO | group)) == GIB


def test_containers_of_the_first_kind_have_a_limit_elsewhere(tmp_path: Path) -> None:
    group = {"sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n"}
    assert available_bytes(machine(tmp_path, MEMINFO | group)) == GIB


def test_a_process_has_some_memory() -> None:
    block = np.ones(8 * MIB)
    assert process_bytes() > block.nbytes // 8


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="no tmpfs")
def test_pages_of_a_file_in_memory_count() -> None:
    before = process_bytes()
    with TemporaryFile(dir="/dev/shm") as file:
        block = np.memmap(file, np.uint8, "w+", shape=64 * MIB)
        block[:] = 1
        assert process_bytes() - before > block.nbytes // 2


def test_without_a_limit_nothing_is_evicted() -> None:
    assert len(kept(Memory(), dict.fromkeys(range(5000), 1e-3))) == 5000
