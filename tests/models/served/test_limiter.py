"""How much is asked at once, and when nothing may be."""

from __future__ import annotations

import asyncio

from ragsmith.models.served.limiter import Limiter


def test_a_pause_halves_the_slots_once_for_all_who_were_under_way() -> None:
    limiter = Limiter(9)
    for now in (2.0, 2.1, 2.2):
        limiter.hold(1.0, sent=1.0, now=now)
    assert limiter.slots == 4
    for sent in (3.0, 4.0, 5.0):
        limiter.hold(1.0, sent=sent, now=sent + 0.5)
    assert limiter.slots == 1


def test_as_many_hold_a_slot_as_there_are() -> None:
    async def most(limiter: Limiter, tasks: int) -> int:
        held = highest = 0

        async def one() -> None:
            nonlocal held, highest
            async with limiter.slot():
                held += 1
                highest = max(highest, held)
                await asyncio.sleep(0)
                held -= 1

        await asyncio.gather(*(one() for _ in range(tasks)))
        return highest

    async def story() -> list[int]:
        limiter = Limiter(8)
        found = [await most(limiter, 20)]
        async with limiter.slot(), limiter.slot():  # two that are under way are told to wait
            limiter.hold(0.0, sent=0.0, now=1.0)
        await most(limiter, 20)  # surplus slots go as they become free
        found.append(await most(limiter, 20))
        for _ in range(9):
            limiter.succeeded()
        found.append(await most(limiter, 20))
        return found

    assert asyncio.run(story()) == [8, 4, 8]
