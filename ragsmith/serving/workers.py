"""The few threads that answer, those who wait for them, and those who have gone.

Whoever comes enters and is given a ticket, or is refused where too many wait. Requests for the same thing at the same
time are one piece of work. When the last who wanted it leaves, work that has not begun is dropped, and work under way
is told to ask no model any more; its thread is free when it ends.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class QueueFull(Exception):
    """As many wait as may wait."""


class CancellationToken:
    """Tells work that nobody wants it any more; ``forsake`` is called once, at once where that is so already."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forsake: Callable[[], None] | None = None
        self.asked = False

    def tells(self, forsake: Callable[[], None]) -> None:
        """Have ``forsake`` called when the work is to stop."""
        with self._lock:
            self._forsake = forsake
            now = self.asked
        if now:
            forsake()

    def ask(self) -> None:
        """Stop the work."""
        with self._lock:
            self.asked, forsake = True, self._forsake
        if forsake is not None:
            forsake()


@dataclass(eq=False)
class WorkItem(Generic[T]):
    """Something to do: ``future`` gets the result, or the error in its place."""

    key: Hashable
    do: Callable[[CancellationToken], T]
    future: Future[T | Exception] = field(default_factory=Future)
    stop: CancellationToken = field(default_factory=CancellationToken)
    wanted_by: int = 0
    has_begun: bool = False


class Aborted(Exception):
    """Work asked its thread, or the process, to end: what it wanted goes no further than its own result."""


class Workers:
    """``threads`` threads that do what is asked of them; up to ``queue`` pieces of work wait for one of them."""

    def __init__(self, threads: int, queue: int) -> None:
        self.threads = threads
        self.queue = queue
        self.given_up = 0
        """Pieces of work that nobody waited for any more when they ended, or that were dropped before they began."""
        self._waiting: deque[WorkItem[Any]] = deque()
        self._busy = 0
        self._joined: dict[Hashable, WorkItem[Any]] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._started = 0

    @property
    def busy(self) -> int:
        """Pieces of work that are being done."""
        return self._busy

    @property
    def waiting(self) -> int:
        """Pieces of work that wait for a thread."""
        return len(self._waiting)

    def enter(self, key: Hashable, do: Callable[[CancellationToken], T]) -> WorkItem[T]:
        """Want ``do`` done; work of an equal ``key`` that is not done yet is shared.

        Raises:
            Full: too many wait already, or the workers are closed.
        """
        with self._changed:
            work = self._joined.get(key)
            if work is None:
                if self._closed or self._busy + len(self._waiting) >= self.threads + self.queue:
                    raise QueueFull
                work = self._joined[key] = WorkItem(key, do)
                self._waiting.append(work)
                if self._started < self.threads and self._busy + len(self._waiting) > self._started:
                    self._started += 1
                    threading.Thread(target=self._run, name="ragsmith-serving", daemon=True).start()
                self._changed.notify()
            work.wanted_by += 1
            return work

    def leave(self, work: WorkItem[Any]) -> None:
        """Whoever entered waits no longer."""
        with self._changed:
            work.wanted_by -= 1
            if work.wanted_by or work.future.done():
                return
            if self._joined.get(work.key) is work:
                del self._joined[work.key]
            if not work.has_begun:
                self._waiting.remove(work)
            self.given_up += 1
        work.stop.ask()

    def close(self) -> None:
        """Take nothing new; threads end when they are idle, and nobody waits for them."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            result: Any
            try:
                result = work.do(work.stop)
            except Exception as error:  # noqa: BLE001  it is the result of the work, for whoever waits for it
                result = error
            except BaseException as error:  # noqa: BLE001  as above: the thread stays, it is one of a few
                result = Aborted(type(error).__name__)
                result.__cause__ = error
            with self._changed:
                self._busy -= 1
                if self._joined.get(work.key) is work:
                    del self._joined[work.key]
            work.future.set_result(result)
            del work, result  # nothing of it is kept while the thread waits

    def _next(self) -> WorkItem[Any] | None:
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            work = self._waiting.popleft()
            work.has_begun = True
            self._busy += 1
            return work


def arrival(work: WorkItem[Any]) -> asyncio.Event:
    """Set when ``work`` is done; the thread that did it is not this loop's."""
    arrived, loop = asyncio.Event(), asyncio.get_running_loop()

    def tell(_: object) -> None:
        try:
            loop.call_soon_threadsafe(arrived.set)
        except RuntimeError:
            if not loop.is_closed():  # where it is, nobody waits
                raise

    work.future.add_done_callback(tell)
    return arrived
