"""The mailbox of a cluster: a request is answered once, however often it, its answer or the mailbox is lost."""

from __future__ import annotations

import asyncio

from ragsmith.evaluation.mailbox import Mailbox


def test_a_request_is_handed_out_again_while_it_is_asked_and_has_no_answer() -> None:
    async def asked() -> None:
        mailbox = Mailbox(patience=0.01)
        assert await mailbox.ask("one", b"what?") == b""
        assert await mailbox.take() == [("one", b"what?")]  # and whoever took it is lost
        assert await mailbox.ask("one", b"what?") == b""
        assert await mailbox.take() == [("one", b"what?")]
        await mailbox.reply("one", b"that")
        assert await mailbox.ask("one", b"what?") == b"that"
        assert await mailbox.take() == []

    asyncio.run(asked())


def test_an_answer_comes_while_it_is_waited_for_and_to_whoever_asked_alone() -> None:
    async def asked() -> None:
        mailbox = Mailbox()
        waiting = [asyncio.create_task(mailbox.ask(number, number.encode())) for number in ("one", "two")]
        taken: list[tuple[str, bytes]] = []
        while len(taken) < 2:
            taken += await mailbox.take()
        for number, request in reversed(taken):
            await mailbox.reply(number, request.upper())
        await mailbox.reply("three", b"nobody asked")
        assert await asyncio.gather(*waiting) == [b"ONE", b"TWO"]

    asyncio.run(asked())


def test_an_answer_that_was_lost_with_its_mailbox_is_had_from_the_next() -> None:
    async def asked() -> None:
        await Mailbox(patience=0.01).ask("one", b"what?")
        mailbox = Mailbox(patience=0.01)
        await mailbox.reply("one", b"too early")  # nobody has asked this one yet
        assert await mailbox.ask("one", b"what?") == b""
        await mailbox.reply("one", b"that")
        assert await mailbox.ask("one", b"what?") == b"that"

    asyncio.run(asked())
