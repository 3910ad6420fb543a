"""Streamed replies to clients that may disconnect at any time, or stop reading."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class CancellableStream(StreamingResponse):
    """Reply of server-sent events ``pieces``, which calls ``on_end`` once.

    ``on_end`` is called when the reply has ended, with or without an error, and no later than ``until`` on the clock of
    `time.monotonic`. The iterator cannot call it itself, as it is not advanced while nothing can be sent.
    """

    def __init__(self, pieces: AsyncIterator[str], until: float, on_end: Callable[[], None]) -> None:
        super().__init__(pieces, media_type="text/event-stream; charset=utf-8")
        self._until = until
        self._on_end: Callable[[], None] | None = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        timer = asyncio.get_running_loop().call_later(max(self._until - time.monotonic(), 0), self._end)
        try:
            await super().__call__(scope, receive, send)
        except ClientDisconnect:
            pass  # some servers raise this for a disconnected client, others do not
        finally:
            timer.cancel()
            self._end()

    def _end(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()
