"""Servers with 1, 2 and 8 slots and 5 to 120 seconds a reply: the throughput that is reached, and retries.

The provider is the one of every run; the servers and the clock are virtual, so a day passes in a second.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from virtual_time import SlottedServer, run_virtually

from ragsmith.models.served.provider import Provider

SLOTS = (1, 2, 8)
SECONDS = ((5.0, 5.0), (5.0, 20.0), (30.0, 90.0), (120.0, 120.0), (5.0, 120.0))
QUESTIONS = 64
"""Questions in flight, as in a search."""


class VirtualProvider(Provider):
    """A provider of a local server that answers ``/props`` with its slots, if it tells them, and is alive."""

    def __init__(self, told: int = 0) -> None:
        super().__init__("http://127.0.0.1:1/v1")
        self._told = told

    async def _get(self, url: str) -> bytes | None:
        return b'{"total_slots": %d}' % self._told if self._told and url.endswith("/props") else b""


@dataclass(frozen=True)
class Measured:
    """The share of the slots' throughput that was reached, in total and after the first quarter of the replies."""

    share: float
    steady: float
    retries: int
    left: int
    most_in_flight: int


async def measure(slots: int, least: float, most: float, *, replies: int, seed: int, tells: bool) -> Measured:
    """Send ``replies`` requests through a provider with default limits."""
    server, provider = SlottedServer(slots, least, most, seed), VirtualProvider(slots if tells else 0)
    waiting = asyncio.Semaphore(QUESTIONS)
    clock = asyncio.get_running_loop().time
    work: list[tuple[float, float]] = []  # time, and seconds of work done until then

    async def ask() -> None:
        async with waiting:
            await provider.send_async(server.reply, "m")
        work.append((clock(), server.worked))

    began = clock()
    await asyncio.gather(*(ask() for _ in range(replies)))
    (middle, done), (end, whole) = work[replies // 4], work[-1]
    share = whole / (slots * (end - began))
    steady = (whole - done) / (slots * (end - middle))
    return Measured(share, steady, provider.activity.retries, server.left, server.most_in_flight)


def print_throughput(replies: int = 400, seeds: int = 5) -> None:
    """Print a row for each number of slots and range of seconds, the mean over seeds."""
    print("slots  seconds a reply  told  throughput  after a quarter  worst  retries  left  most in flight")
    for slots in SLOTS:
        for least, most in SECONDS:
            for tells in (True, False):
                found = [
                    run_virtually(measure(slots, least, most, replies=replies, seed=seed, tells=tells))
                    for seed in range(seeds)
                ]
                print(
                    f"{slots:5}  {least:6g} to {most:5g}  {'yes' if tells else 'no':>4}"
                    f"  {fmean(one.share for one in found):10.3f}  {fmean(one.steady for one in found):15.3f}"
                    f"  {min(one.share for one in found):5.3f}  {sum(one.retries for one in found):7}"
                    f"  {sum(one.left for one in found):4}  {max(one.most_in_flight for one in found):14}"
                )
