"""Thread-safe memoization: each value is computed once, even if several threads request it at the same time.

Keys are values rather than digests, so they cannot collide and need no serialisation. Errors are not cached; all
threads that wait for a failed computation get the same error. A batch may have an error in the place of a value, which
is raised only in callers that requested that value. Evicted values (`ragsmith.gateway.memory`) are computed again.
"""

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, Protocol, TypeVar, cast

from ragsmith.errors import ModelError

V = TypeVar("V")

GetParts = Callable[[Any, Any], Sequence[Any]]
"""Returns the parts of a key and its value that do not share memory with other entries."""


@dataclass(slots=True)
class MemoEntry(Generic[V]):
    """A value, its cost (seconds), the policy's level at its last use, its uses, and its size (bytes; 0 if unknown)."""

    value: V
    cost: float
    level: float
    uses: int = 1
    size: int = 0


class EvictionPolicy(Protocol):
    """Evicts entries by deleting their keys from the ``entries`` that hold them."""

    level: float
    """The priority of the last evicted entry, which an entry stores when it is used."""

    def admit(
        self, entries: dict[Hashable, MemoEntry[Any]], key: Hashable, entry: MemoEntry[Any], get_parts: GetParts | None
    ) -> None:
        """Add a new entry; ``get_parts`` returns the parts of key and value to measure, by default the value."""


class Memo(Generic[V]):
    """A memo that deduplicates computations in flight. Thread-safe."""

    def __init__(self, eviction: EvictionPolicy | None = None, get_parts: GetParts | None = None) -> None:
        """Create a memo; without ``eviction`` nothing is evicted."""
        self._done: dict[Hashable, MemoEntry[V]] = {}
        self._running: dict[Hashable, Future[V] | None] = {}  # the first waiting thread creates the future
        self._lock = threading.Lock()
        self._eviction = eviction
        self._get_parts = get_parts
        self.computed = 0
        """Number of computed values, including repeated computations after evictions."""

    def __len__(self) -> int:
        return len(self._done)

    def keys(self) -> list[Any]:
        """Return all cached keys."""
        return list(self._done)

    def get(self, key: Hashable, compute: Callable[[], V]) -> V:
        """Return the value of ``key``, computed unless it is cached or being computed."""
        entry = self._done.get(key)  # without a lock, as most keys are cached
        if entry is not None:
            return self._use(entry)
        return self.get_many([key], lambda _: [compute()])[0]

    def get_many(self, keys: Sequence[Hashable], compute: Callable[[list[Any]], Sequence[V | ModelError]]) -> list[V]:
        """Return the values of ``keys``; ``compute`` gets the distinct keys that are neither cached nor in progress.

        ``compute`` may return a `ModelError` in the place of a value; the first one is raised when all values are
        cached. New keys are computed before waiting for those of other threads, so that callers cannot deadlock.
        """
        new_keys: list[Hashable] = []
        in_progress: dict[Hashable, Future[V]] = {}
        values: dict[Hashable, V] = {}
        done, running = self._done, self._running
        with self._lock:
            for key in dict.fromkeys(keys):
                entry = done.get(key)
                if entry is not None:
                    values[key] = self._use(entry)
                elif key in running:
                    in_progress[key] = running[key] = running[key] or Future()
                else:
                    running[key] = None
                    new_keys.append(key)
        if new_keys:
            values.update(zip(new_keys, self._compute(new_keys, compute), strict=True))
        for key, future in in_progress.items():
            values[key] = future.result()
        return [values[key] for key in keys]

    def _compute(
        self, new_keys: list[Hashable], compute: Callable[[list[Any]], Sequence[V | ModelError]]
    ) -> Sequence[V]:
        began = perf_counter()
        try:
            values = compute(new_keys)
            if len(values) != len(new_keys):
                raise RuntimeError(f"{len(new_keys)} values were expected, {len(values)} were returned")
        except BaseException as error:
            self._fail(new_keys, error)
            raise
        cost = (perf_counter() - began) / len(new_keys)
        failed = [value for value in values if isinstance(value, ModelError)]
        with self._lock:
            for key, value in zip(new_keys, values, strict=True):
                if not isinstance(value, ModelError):
                    self._add(key, value, cost)
            futures = [self._running.pop(key) for key in new_keys]
        for value, future in zip(values, futures, strict=True):
            if future is not None and isinstance(value, ModelError):
                future.set_exception(value)
            elif future is not None:
                future.set_result(cast(V, value))
        if failed:
            raise failed[0]
        return cast(Sequence[V], values)

    def _use(self, entry: MemoEntry[V]) -> V:
        """Count a use of an entry and return its value; between threads, counts may be lost."""
        entry.uses += 1
        if self._eviction is not None:
            entry.level = self._eviction.level
        return entry.value

    def _add(self, key: Hashable, value: V, cost: float) -> None:
        self.computed += 1
        eviction = self._eviction
        entry = self._done[key] = MemoEntry(value, cost, 0.0 if eviction is None else eviction.level)
        if eviction is not None:
            eviction.admit(self._done, key, entry, self._get_parts)

    def _fail(self, keys: Sequence[Hashable], error: BaseException) -> None:
        """Raise ``error`` in all callers that wait for one of ``keys``."""
        with self._lock:
            futures = [self._running.pop(key) for key in keys]
        for future in futures:
            if future is not None:
                future.set_exception(error)
