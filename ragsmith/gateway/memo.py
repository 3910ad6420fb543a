"""Remembering: values by key, each computed once however many threads ask at the same time.

Keys are the values themselves, not digests of them: in memory nothing unequal can collide, and nothing is serialised.
A computation that raises is not remembered; everyone who waited for it gets the same error. One of several values may
be an error in its place: it is raised for those alone who need it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar, cast

from ragsmith.errors import ModelError

V = TypeVar("V")
_MISSING = object()


class Memo(Generic[V]):
    """A thread-safe memo with join of identical computations in flight."""

    def __init__(self) -> None:
        self._done: dict[Hashable, V] = {}
        self._running: dict[Hashable, Future[V] | None] = {}  # the future is made by the first who has to wait
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._done)

    def keys(self) -> list[Any]:
        """Every key remembered."""
        return list(self._done)

    def get(self, key: Hashable, compute: Callable[[], V]) -> V:
        """The value of ``key``, computed now if nobody has done so before."""
        value = self._done.get(key, _MISSING)
        if value is not _MISSING:
            return cast(V, value)
        with self._lock:
            value = self._done.get(key, _MISSING)
            if value is not _MISSING:
                return cast(V, value)
            others = key in self._running
            if others:
                waiting = self._running[key] = self._running[key] or Future()
            else:
                self._running[key] = None
        if others:
            return waiting.result()
        try:
            computed = compute()
        except BaseException as error:
            self._fail([key], error)
            raise
        with self._lock:
            self._done[key] = computed
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
        done, running = self._done, self._running
        with self._lock:
            for key in dict.fromkeys(keys):
                if key in done:
                    continue
                if key in running:
                    others[key] = running[key] = running[key] or Future()
                else:
                    running[key] = None
                    mine.append(key)
        if mine:
            self._compute(mine, compute)
        if not others:
            return [done[key] for key in keys]
        found = {key: future.result() for key, future in others.items()}
        return [found[key] if key in found else done[key] for key in keys]

    def _compute(self, mine: list[Hashable], compute: Callable[[list[Any]], Sequence[V | ModelError]]) -> None:
        try:
            values = compute(mine)
            if len(values) != len(mine):
                raise RuntimeError(f"{len(mine)} values were asked for and {len(values)} came back")
        except BaseException as error:
            self._fail(mine, error)
            raise
        failed = [value for value in values if isinstance(value, ModelError)]
        with self._lock:
            for key, value in zip(mine, values, strict=True):
                if not isinstance(value, ModelError):
                    self._done[key] = value
            waited_for = [self._running.pop(key) for key in mine]
        for value, future in zip(values, waited_for, strict=True):
            if future is not None and isinstance(value, ModelError):
                future.set_exception(value)
            elif future is not None:
                future.set_result(cast(V, value))
        if failed:
            raise failed[0]

    def _fail(self, mine: Sequence[Hashable], error: BaseException) -> None:
        with self._lock:
            waited_for = [self._running.pop(key) for key in mine]
        for future in waited_for:
            if future is not None:
                future.set_exception(error)
