"""Thread pool with a bounded queue, which shares equal work and cancels work that is no longer needed.

Each request receives a work item, or is refused if the queue is full. Concurrent requests with the same key share an
item. When the last request of an item is withdrawn, the item is removed from the queue if it has not begun; otherwise
its model calls are cancelled, and its thread is free when it ends.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class QueueFull(Exception):
    """The queue has reached its maximum length."""


class CancellationToken:
    """Token that cancels work; its callback is called once, immediately if the token is already cancelled."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callback: Callable[[], None] | None = None
        self.cancelled = False

    def on_cancel(self, callback: Callable[[], None]) -> None:
        """Set the ``callback`` for the cancellation."""
        with self._lock:
            self._callback = callback
            is_cancelled = self.cancelled
        if is_cancelled:
            callback()

    def cancel(self) -> None:
        """Cancel the work."""
        with self._lock:
            self.cancelled, callback = True, self._callback
        if callback is not None:
            callback()


@dataclass(eq=False)
class WorkItem(Generic[T]):
    """Work of a thread: ``future`` receives the result or the error, and ``n_requests`` counts the waiting requests."""

    key: Hashable
    function: Callable[[CancellationToken], T]
    future: Future[T | Exception] = field(default_factory=Future)
    cancellation: CancellationToken = field(default_factory=CancellationToken)
    n_requests: int = 0
    has_begun: bool = False
    context: Context = field(default_factory=copy_context)
    """The context of the request that created the item, with its span."""


class Aborted(Exception):
    """Work raised an exception such as `SystemExit`, which is the result of the work and does not end the thread."""


class Workers:
    """Pool of ``threads`` threads with a queue of up to ``queue`` work items."""

    def __init__(self, threads: int, queue: int) -> None:
        self.threads = threads
        self.queue = queue
        self.cancelled = 0
        """Number of work items that were cancelled before they ended."""
        self._waiting: deque[WorkItem[Any]] = deque()
        self.busy = 0
        """Number of running work items."""
        self._unfinished: dict[Hashable, WorkItem[Any]] = {}
        self._changed = threading.Condition()
        self._closed = False
        self._started = 0

    @property
    def waiting(self) -> int:
        """Number of work items in the queue."""
        return len(self._waiting)

    def submit(self, key: Hashable, function: Callable[[CancellationToken], T]) -> WorkItem[T]:
        """Submit ``function``, or share the unfinished work item with an equal ``key``.

        Raises:
            QueueFull: the queue is full, or the pool is closed.
        """
        with self._changed:
            work = self._unfinished.get(key)
            if work is None:
                if self._closed or self.busy + len(self._waiting) >= self.threads + self.queue:
                    raise QueueFull
                work = self._unfinished[key] = WorkItem(key, function)
                self._waiting.append(work)
                if self._started < self.threads and self.busy + len(self._waiting) > self._started:
                    self._started += 1
                    threading.Thread(target=self._run, name="ragsmith-serving", daemon=True).start()
                self._changed.notify()
            work.n_requests += 1
            return work

    def withdraw(self, work: WorkItem[Any]) -> None:
        """Withdraw a request; work without requests is cancelled."""
        with self._changed:
            work.n_requests -= 1
            if work.n_requests or work.future.done():
                return
            if self._unfinished.get(work.key) is work:
                del self._unfinished[work.key]
            if not work.has_begun:
                self._waiting.remove(work)
            self.cancelled += 1
        work.cancellation.cancel()

    def close(self) -> None:
        """Refuse further work; threads end when the queue is empty, without being joined."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            result: Any
            try:
                result = work.context.run(work.function, work.cancellation)
            except Exception as error:  # noqa: BLE001  the error is the result of the work
                result = error
            except BaseException as error:  # noqa: BLE001  as above: the thread must continue
                result = Aborted(type(error).__name__)
                result.__cause__ = error
            with self._changed:
                self.busy -= 1
                if self._unfinished.get(work.key) is work:
                    del self._unfinished[work.key]
            work.future.set_result(result)
            del work, result  # free the memory while the thread waits

    def _next(self) -> WorkItem[Any] | None:
        with self._changed:
            while not self._waiting:
                if self._closed:
                    return None
                self._changed.wait()
            work = self._waiting.popleft()
            work.has_begun = True
            self.busy += 1
            return work


def done_event(work: WorkItem[Any]) -> asyncio.Event:
    """Return an event of the running loop that is set when ``work`` is done in its thread."""
    done, loop = asyncio.Event(), asyncio.get_running_loop()

    def set_event(_: object) -> None:
        try:
            loop.call_soon_threadsafe(done.set)
        except RuntimeError:
            if not loop.is_closed():  # a closed loop has no waiting tasks
                raise

    work.future.add_done_callback(set_event)
    return done
