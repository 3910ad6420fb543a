"""A memo: values by key, each computed once however many threads ask at the same time.

Keys are the values themselves, not digests of them: in memory nothing unequal can collide, and nothing is serialised.
A computation that raises is not remembered; all that waited for it get the same error. One of several values may be an
error in its place: it is raised only for those that need it.

A value may be evicted (`ragsmith.gateway.memory`): it is then computed again when it is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar, cast

from ragsmith.errors import ModelError

V = TypeVar("V")

Weighed = Callable[[Any, Any], Sequence[Any]]
"""The parts of a key and its value whose memory is not shared with others."""


@dataclass(slots=True)
class MemoEntry(Generic[V]):
    """A value: the seconds it cost, the level of its policy at the last use, uses, and bytes once they are known."""

    value: V
    cost: float
    level: float
    uses: int = 1
    size: int = 0


class EvictionPolicy(Protocol):
    """Evicts entries by deleting their keys from the ``entries`` that hold them."""

    level: float
    """The worth below which entries are evicted at the moment; an entry notes it when it is used."""

    def admit(
        self, entries: dict[Hashable, MemoEntry[Any]], key: Hashable, entry: MemoEntry[Any], weighed: Weighed | None
    ) -> None:
        """Note a new entry; ``weighed`` has the parts of key and value that take memory, by default the value."""


class Memo(Generic[V]):
    """A thread-safe memo that joins identical computations in flight."""

    def __init__(self, room: EvictionPolicy | None = None, weighed: Weighed | None = None) -> None:
        """Without ``room`` nothing is evicted."""
        self._done: dict[Hashable, MemoEntry[V]] = {}
        self._running: dict[Hashable, Future[V] | None] = {}  # the future is made by the first thread that waits
        self._lock = threading.Lock()
        self._room = room
        self._weighed = weighed
        self.computed = 0
        """How many values were computed, again after an eviction included."""

    def __len__(self) -> int:
        return len(self._done)

    def keys(self) -> list[Any]:
        """Every key remembered."""
        return list(self._done)

    def get(self, key: Hashable, compute: Callable[[], V]) -> V:
        """The value of ``key``, computed now unless it is remembered or being computed."""
        entry = self._done.get(key)  # without a lock: most keys are found here
        if entry is not None:
            return self._use(entry)
        return self.get_many([key], lambda _: [compute()])[0]

    def get_many(self, keys: Sequence[Hashable], compute: Callable[[list[Any]], Sequence[V | ModelError]]) -> list[V]:
        """The values of ``keys``; ``compute`` gets, once, the distinct keys that are neither remembered nor computed.

        It may return a `ModelError` in the place of a value; the first one is raised when all others are remembered.
        Own keys are computed before waiting for those of others, so that two callers cannot deadlock.
        """
        mine: list[Hashable] = []
        others: dict[Hashable, Future[V]] = {}
        found: dict[Hashable, V] = {}
        done, running = self._done, self._running
        with self._lock:
            for key in dict.fromkeys(keys):
                entry = done.get(key)
                if entry is not None:
                    found[key] = self._use(entry)
                elif key in running:
                    others[key] = running[key] = running[key] or Future()
                else:
                    running[key] = None
                    mine.append(key)
        if mine:
            found.update(zip(mine, self._compute(mine, compute), strict=True))
        for key, future in others.items():
            found[key] = future.result()
        return [found[key] for key in keys]

    def _compute(self, mine: list[Hashable], compute: Callable[[list[Any]], Sequence[V | ModelError]]) -> Sequence[V]:
        began = perf_counter()
        try:
            values = compute(mine)
            if len(values) != len(mine):
                raise RuntimeError(f"{len(mine)} values were asked for and {len(values)} came back")
        except BaseException as error:
            self._fail(mine, error)
            raise
        cost = (perf_counter() - began) / len(mine)
        failed = [value for value in values if isinstance(value, ModelError)]
        with self._lock:
            for key, value in zip(mine, values, strict=True):
                if not isinstance(value, ModelError):
                    self._keep(key, value, cost)
            waited_for = [self._running.pop(key) for key in mine]
        for value, future in zip(values, waited_for, strict=True):
            if future is not None and isinstance(value, ModelError):
                future.set_exception(value)
            elif future is not None:
                future.set_result(cast(V, value))
        if failed:
            raise failed[0]
        return cast(Sequence[V], values)

    def _use(self, entry: MemoEntry[V]) -> V:
        """Count a use of an entry and return its value; over threads the count need not be exact."""
        entry.uses += 1
        if self._room is not None:
            entry.level = self._room.level
        return entry.value

    def _keep(self, key: Hashable, value: V, cost: float) -> None:
        self.computed += 1
        room = self._room
        entry = self._done[key] = MemoEntry(value, cost, 0.0 if room is None else room.level)
        if room is not None:
            room.admit(self._done, key, entry, self._weighed)

    def _fail(self, mine: Sequence[Hashable], error: BaseException) -> None:
        """Raise ``error`` in all callers that wait for one of these keys."""
        with self._lock:
            waiting = [self._running.pop(key) for key in mine]
        for future in waiting:
            if future is not None:
                future.set_exception(error)
