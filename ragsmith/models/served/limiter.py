"""A limiter of concurrent requests, and of when they are sent, for all requests to a provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Limiter:
    """Slots for attempts, and the end (``until``, of ``time.monotonic``) of the pause that the provider asked for.

    As in TCP's congestion control (Jacobson 1988), each pause halves the number of slots; each success adds one, up to
    ``most``. Otherwise all requests would be sent again at the end of a pause, and most would have to wait until their
    attempts are used up. To be used in the thread of one event loop.
    """

    def __init__(self, most: int) -> None:
        self.until = 0.0
        self.slots = most
        self._most = most
        self._surplus = 0  # slots that are removed when they become free
        self._free = asyncio.Semaphore(most)
        self._narrowed = float("-inf")

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot, first come, first served, and hold it."""
        await self._free.acquire()
        try:
            yield
        finally:
            self._give_back()

    def succeeded(self) -> None:
        """Add a slot after a success."""
        if self.slots < self._most:
            self.slots += 1
            self._give_back()

    def hold(self, seconds: float, *, sent: float, now: float) -> None:
        """Pause for ``seconds`` from ``now``, unless a longer pause is under way, after an attempt sent at ``sent``.

        Attempts that were in flight together halve the slots only once.
        """
        self.until = max(self.until, now + seconds)
        if sent > self._narrowed:
            self._narrowed = now
            fewer = max(1, self.slots // 2)
            self._surplus += self.slots - fewer
            self.slots = fewer

    def remaining(self, now: float) -> float:
        """Return the seconds left of the pause."""
        return max(0.0, self.until - now)

    def _give_back(self) -> None:
        if self._surplus:
            self._surplus -= 1
        else:
            self._free.release()
