"""An event loop whose clock jumps to the next timer, and a server with slots on it: hours pass in milliseconds."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class VirtualTime(asyncio.SelectorEventLoop):
    """A loop that never waits: the seconds until the next timer are added to its clock instead."""

    def __init__(self) -> None:
        super().__init__(_Jumping(self))
        self.now = 0.0

    def time(self) -> float:
        return self.now


class _Jumping(selectors.DefaultSelector):
    def __init__(self, loop: VirtualTime) -> None:
        super().__init__()
        self.loop = loop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout:
            self.loop.now += timeout
        return super().select(0)


def run_virtually(story: Coroutine[Any, Any, T]) -> T:
    """Run ``story`` on a loop with virtual time."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(story)


class SlottedServer:
    """Works on ``slots`` requests at once, first come, first served; each takes ``least`` to ``most`` seconds.

    As llama.cpp's server, it ends the work on a request that its client has left. ``worked`` are the seconds of
    requests that were answered, ``left`` counts the others.
    """

    def __init__(self, slots: int, least: float, most: float, seed: int = 0) -> None:
        self.least, self.most = least, most
        self.worked, self.left, self.answered, self.most_in_flight, self._in_flight = 0.0, 0, 0, 0, 0
        self._slots = asyncio.Semaphore(slots)
        self._draw = random.Random(seed)

    async def reply(self) -> str:
        seconds = self._draw.uniform(self.least, self.most)
        self._in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self._in_flight)
        try:
            async with self._slots:
                await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.left += 1
            raise
        finally:
            self._in_flight -= 1
        self.worked += seconds
        self.answered += 1
        return "done"
