"""The event loop that talks to providers: one thread a process, started when first needed and ended at exit."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

LAST_SECONDS = 2.0
"""How long connections may take to close at exit."""


class Closable(Protocol):
    """Something with connections, such as an HTTP client."""

    async def aclose(self) -> None:
        """Close them."""
        ...


class Background:
    """An event loop in a daemon thread. Coroutines that run on it must not block."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finaliser may close a client while this thread holds it
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._clients: weakref.WeakSet[Closable] = weakref.WeakSet()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run ``work``; cancelling what is returned cancels it."""
        return asyncio.run_coroutine_threadsafe(work, self._running())

    def soon(self, call: Callable[[], object]) -> None:
        """Call on the loop's thread, soon; see `asyncio.loop.call_soon_threadsafe`."""
        self._running().call_soon_threadsafe(call)

    def close_at_exit(self, client: Closable) -> None:
        """See to it that ``client`` is closed before the process ends."""
        with self._lock:
            self._clients.add(client)

    def close(self, client: Closable, *, wait: bool = True) -> None:
        """Close ``client``, if the loop runs at all: its connections belong to the loop."""
        with self._lock:
            self._clients.discard(client)
            loop = self._loop
        if loop is not None and not loop.is_closed():
            closing = asyncio.run_coroutine_threadsafe(client.aclose(), loop)
            if wait and threading.current_thread() is not self._thread:
                with contextlib.suppress(TimeoutError):
                    closing.result(LAST_SECONDS)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="ragsmith-providers", daemon=True)
                self._thread.start()
                atexit.register(self._stop)
            return self._loop

    def _stop(self) -> None:
        """End what runs, close what is open."""
        with self._lock:
            loop, thread, clients = self._loop, self._thread, list(self._clients)
        if loop is None or thread is None:
            return
        with contextlib.suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(_ended(clients), loop).result(LAST_SECONDS)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(LAST_SECONDS)
        if not thread.is_alive():
            loop.close()


async def _ended(clients: list[Closable]) -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, *(client.aclose() for client in clients), return_exceptions=True)


BACKGROUND = Background()
"""The loop of this process: connections are shared by all threads, so there is one."""
