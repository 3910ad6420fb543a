"""The limiter: how much is asked at once, and not before when. What one request is told holds for all to a provider."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Limiter:
    """Slots for attempts, and the end of the pause that was told, on the clock of ``time.monotonic``.

    Every pause told halves the number of slots, every success adds one again up to ``most``: a provider that allows one
    request a second would otherwise be asked by all at the end of each pause, and most of them be told to wait again,
    until their attempts are used up. (The idea of TCP's congestion control, Jacobson 1988, which recovers slower.)
    Belongs to the thread of one event loop.
    """

    def __init__(self, most: int) -> None:
        self.until = 0.0
        self.slots = most
        self._most = most
        self._surplus = 0  # slots that are taken away when they become free
        self._free = asyncio.Semaphore(most)
        self._narrowed = float("-inf")

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot, in the order of asking, and hold it."""
        await self._free.acquire()
        try:
            yield
        finally:
            self._give_back()

    def succeeded(self) -> None:
        """Widen again."""
        if self.slots < self._most:
            self.slots += 1
            self._give_back()

    def hold(self, seconds: float, *, sent: float, now: float) -> None:
        """Send nothing for ``seconds`` from ``now``, as an attempt that was ``sent`` then was told; a longer one stays.

        Attempts that were under way together are told the same, which narrows once.
        """
        self.until = max(self.until, now + seconds)
        if sent > self._narrowed:
            self._narrowed = now
            fewer = max(1, self.slots // 2)
            self._surplus += self.slots - fewer
            self.slots = fewer

    def remaining(self, now: float) -> float:
        """Seconds until something may be sent; 0 when it may."""
        return max(0.0, self.until - now)

    def _give_back(self) -> None:
        if self._surplus:
            self._surplus -= 1
        else:
            self._free.release()
