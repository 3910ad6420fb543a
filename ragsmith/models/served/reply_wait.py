"""How long replies of a server are waited for, and what a server on this machine or in a private network tells."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import urlsplit

from ragsmith.models.served.policy import Policy, TransientFailure
from ragsmith.models.usage import NO_USAGE

T = TypeVar("T")
GetPage = Callable[[str], Awaitable[bytes | None]]
"""Function that returns the body of a page of a server, b"" if it refuses it or is busy, or None if it cannot be
reached."""
NO_REPLY_IN_TIME = "no reply in time"
"""The kind of failure of an attempt whose server accepted the connection."""

SLACK = 4.0
"""Ratio of a learnt deadline to the seconds of the slowest reply: twice for slots that double, and twice for replies
that are longer than those before."""
_VERSION = re.compile(r"/v\d+$")
_TOTAL_SLOTS = re.compile(rb'"total_slots"\s*:\s*([1-9]\d{0,5})\b')


class ReplyWait:
    """The wait for replies of the server at ``address``, within a deadline that is learnt unless ``policy`` sets it.

    Not thread-safe.
    """

    def __init__(self, address: str, policy: Policy) -> None:
        self.is_private = is_private(address)
        self._address, self._policy = address.rstrip("/"), policy
        self._slowest = 0.0  # seconds of the slowest reply
        self._slots_asked = False
        self._in_flight = 0

    def record(self, seconds: float) -> None:
        """Record a reply that took ``seconds``."""
        self._slowest = max(self._slowest, seconds)

    async def run(self, attempt: Callable[[], Awaitable[T]], get: GetPage) -> T:
        """Make an attempt within the deadline; ``get`` asks for a sign of life.

        A learnt one is `SLACK` times the seconds of the slowest reply. A private server that still accepts connections
        is busy, so it is waited for; repeating the request would only lengthen its queue. That of llama-cpp-python
        answers nothing else while it writes a reply. For a public one, whose front answers even if a request is lost,
        that is no sign. When this returns, the connection of an abandoned attempt is closed, which ends the work of
        most servers on it.

        Raises:
            TransientFailure: there was no reply in time.
        """
        self._in_flight += 1
        try:
            if self._policy.deadline is not None:
                return await self.within(self._policy.deadline, attempt)
            return await self._within_learnt_deadline(attempt, get)
        finally:
            self._in_flight -= 1

    async def _within_learnt_deadline(self, attempt: Callable[[], Awaitable[T]], get: GetPage) -> T:
        policy = self._policy
        longest = policy.longest_deadline
        deadline = max(policy.patience, SLACK * min(self._slowest, longest))
        deadline = max(deadline, longest) if self.is_private else min(deadline, longest)
        task = asyncio.ensure_future(attempt())
        waited = 0.0
        try:
            while not (await asyncio.wait([task], timeout=min(policy.patience, deadline - waited)))[0]:
                waited = min(deadline, waited + policy.patience)
                late = waited >= deadline or (self.is_private and await get(f"{self._address}/models") is None)
                if late and not task.done():  # the reply may have come during the request for a sign of life
                    raise self._late(waited, final=waited >= max(deadline, longest))
            return task.result()
        finally:
            if task.cancel():
                await asyncio.wait([task])

    async def within(self, seconds: float, attempt: Callable[[], Awaitable[T]]) -> T:
        """Make an attempt within ``seconds``; raises as `run`."""
        try:
            async with asyncio.timeout(seconds):
                return await attempt()
        except TimeoutError:
            pass
        raise self._late(seconds)

    async def ask_for_slots(self, get: GetPage) -> int | None:
        """Return the number of slots of the server if it tells them, as llama.cpp's does; it is asked once."""
        if self._slots_asked:
            return None
        self._slots_asked = True
        body = await get(f"{_VERSION.sub('', self._address)}/props")
        found = _TOTAL_SLOTS.search(body or b"")
        return int(found[1]) if found else None

    def _late(self, seconds: float, *, final: bool = False) -> TransientFailure:
        seen = f"replies took up to {self._slowest:.3g} s" if self._slowest else "none came before"
        return TransientFailure(
            f"no complete reply within {seconds:g} s with {self._in_flight} in flight, {seen}: set a longer "
            "`deadline` or a smaller `in_flight` of the model (for the --llm: --deadline, --in-flight)",
            kind=NO_REPLY_IN_TIME,
            usage=NO_USAGE,
            final=final,
        )


def is_private(url: str) -> bool:
    """Whether a server is on this machine or in a private network, by its address or name."""
    host = ""
    try:
        host = urlsplit(url).hostname or ""
        return ip_address(host).is_private
    except ValueError:
        return bool(host) and ("." not in host or host.endswith((".local", ".localhost", ".internal")))
