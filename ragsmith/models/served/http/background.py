"""The event loop of all providers: one thread per process, started on first use and stopped at exit."""

import asyncio
import atexit
import contextlib
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

CLOSE_TIMEOUT_SECONDS = 2.0
"""Timeout in seconds for connections to close at exit."""


class Closable(Protocol):
    """An object with connections, such as an HTTP client."""

    async def aclose(self) -> None:
        """Close the connections."""


class BackgroundLoop:
    """An event loop in a daemon thread. Coroutines that run on it must not block."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finaliser may close a client while this thread holds it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._clients: weakref.WeakSet[Closable] = weakref.WeakSet()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work``; cancelling the returned future cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._ensure_running())

    def call_soon(self, call: Callable[[], object]) -> None:
        """Schedule ``call`` in the loop's thread; see `asyncio.loop.call_soon_threadsafe`."""
        self._ensure_running().call_soon_threadsafe(call)

    def close_at_exit(self, client: Closable) -> None:
        """Close ``client`` before the process ends."""
        with self._lock:
            self._clients.add(client)

    def close(self, client: Closable, *, wait: bool = True) -> None:
        """Close ``client``; it has no connections if the loop is not running."""
        with self._lock:
            self._clients.discard(client)
            loop = self._loop
        if loop is not None and not loop.is_closed():
            closing = asyncio.run_coroutine_threadsafe(client.aclose(), loop)
            if wait and threading.current_thread() is not self._thread:
                with contextlib.suppress(TimeoutError):
                    closing.result(CLOSE_TIMEOUT_SECONDS)

    def _ensure_running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="ragsmith-providers", daemon=True)
                self._thread.start()
                atexit.register(self._stop)
            return self._loop

    def _stop(self) -> None:
        """Cancel all tasks and close all clients."""
        with self._lock:
            loop, thread, clients = self._loop, self._thread, list(self._clients)
        if loop is None or thread is None:
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_shut_down(clients), loop).result(CLOSE_TIMEOUT_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(CLOSE_TIMEOUT_SECONDS)
        if not thread.is_alive():
            loop.close()


async def _shut_down(clients: list[Closable]) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, *(client.aclose() for client in clients), return_exceptions=True)


BACKGROUND_LOOP = BackgroundLoop()
"""The loop of this process; there is one because all threads share connections."""
