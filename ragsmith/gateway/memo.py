"""Remembering: values by key, each computed once however many threads ask at the same time.

Keys are the values themselves, not digests of them: in memory nothing unequal can collide, and nothing is serialised.
A computation that raises is not remembered; everyone who waited for it gets the same error. One of several values may
be an error in its place: it is raised for those alone who need it.

What is remembered may be dropped again where there is no room for it (`ragsmith.gateway.memory`): it is then computed
anew for the next who asks. Whoever has been given a value keeps it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar, cast

from ragsmith.errors import ModelError

V = TypeVar("V")

Weighed = Callable[[Any, Any], Sequence[Any]]
"""What of a key and of its value takes memory that nobody else has anyway."""


class MemoEntry(Generic[V]):
    """A value, the seconds that it cost, its size in bytes once that is known, its uses, and the level at the last."""

    __slots__ = ("cost", "level", "size", "uses", "value")

    def __init__(self, value: V, cost: float, level: float) -> None:
        self.value = value
        self.cost = cost
        self.level = level
        self.uses = 1
        self.size = 0


class EvictionPolicy(Protocol):
    """Where values are remembered: it may drop one of them, by deleting its key from the ``entries`` it is in."""

    level: float
    """What somebody must be worth at the moment to be kept; an entry notes it when it is used."""

    def admit(
        self, entries: dict[Hashable, MemoEntry[Any]], key: Hashable, entry: MemoEntry[Any], weighed: Weighed | None
    ) -> None:
        """Note that ``entry`` is there now; ``weighed`` says what of its key and value takes memory, else the value."""
        ...


class Memo(Generic[V]):
    """A thread-safe memo with join of identical computations in flight."""

    def __init__(self, room: EvictionPolicy | None = None, weighed: Weighed | None = None) -> None:
        """Without ``room`` all is kept."""
        self._done: dict[Hashable, MemoEntry[V]] = {}
        self._running: dict[Hashable, Future[V] | None] = {}  # the future is made by the first who has to wait
        self._lock = threading.Lock()
        self._room = room
        self._weighed = weighed
        self.computed = 0
        """How many values were computed, those among them that were dropped and are computed again."""

    def __len__(self) -> int:
        return len(self._done)

    def keys(self) -> list[Any]:
        """Every key remembered."""
        return list(self._done)

    def values(self) -> list[V]:
        """Every value remembered."""
        return [entry.value for entry in list(self._done.values())]

    def get(self, key: Hashable, compute: Callable[[], V]) -> V:
        """The value of ``key``, computed now if nobody has done so before."""
        entry = self._done.get(key)
        if entry is not None:
            return self._used(entry)
        with self._lock:
            entry = self._done.get(key)
            if entry is not None:
                return self._used(entry)
            others = key in self._running
            if others:
                waiting = self._running[key] = self._running[key] or Future()
            else:
                self._running[key] = None
        if others:
            return waiting.result()
        began = perf_counter()
        try:
            computed = compute()
        except BaseException as error:
            self._fail([key], error)
            raise
        cost = perf_counter() - began
        with self._lock:
            self._keep(key, computed, cost)
            waited_for = self._running.pop(key)
        if waited_for is not None:
            waited_for.set_result(computed)
        return computed

    def get_many(self, keys: Sequence[Hashable], compute: Callable[[list[Any]], Sequence[V | ModelError]]) -> list[V]:
        """The values of ``keys``; ``compute`` is given, once, the distinct keys that nobody has or is computing.

        It may return a `ModelError` in the place of a value; the first one is raised when all others are remembered.
        One's own keys are computed before waiting for those of others, so two callers can never wait for each other.
        """
        mine: list[Hashable] = []
        others: dict[Hashable, Future[V]] = {}
        found: dict[Hashable, V] = {}
        done, running = self._done, self._running
        with self._lock:
            for key in dict.fromkeys(keys):
                entry = done.get(key)
                if entry is not None:
                    found[key] = self._used(entry)
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

    def _used(self, entry: MemoEntry[V]) -> V:
        """The value of an entry, which is of use once more; over threads the count need not be exact."""
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
        with self._lock:
            waited_for = [self._running.pop(key) for key in mine]
        for future in waited_for:
            if future is not None:
                future.set_exception(error)
