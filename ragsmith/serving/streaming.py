"""A reply that is sent piece by piece, to a client that may go away before the first piece, or read none of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

from starlette.requests import ClientDisconnect
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


class Streamed(StreamingResponse):
    """``pieces``, server-sent events, of something that ``leave`` is called for once: nobody waits for it any more.

    That is when the reply has ended, however it did, and no later than ``until``, on the clock of `time.monotonic`. The
    pieces themselves cannot see to it: where nothing can be sent they are not asked for.
    """

    def __init__(self, pieces: AsyncIterator[str], until: float, leave: Callable[[], None]) -> None:
        super().__init__(pieces, media_type="text/event-stream; charset=utf-8")
        self._until = until
        self._leave: Callable[[], None] | None = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the pieces."""
        in_time = asyncio.get_running_loop().call_later(max(self._until - time.monotonic(), 0), self._left)
        try:
            await super().__call__(scope, receive, send)
        except ClientDisconnect:
            pass  # it is all the same how a server says that
        finally:
            in_time.cancel()
            self._left()

    def _left(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()
