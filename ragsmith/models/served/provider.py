"""A provider: one endpoint with one credential, asked from many threads through one event loop."""

from __future__ import annotations

import asyncio
import random
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ragsmith.errors import ModelError, ModelUnavailable, RagsmithError, Unreadable
from ragsmith.models.served.breaker import Breaker
from ragsmith.models.served.http.background import BACKGROUND
from ragsmith.models.served.limiter import Limiter
from ragsmith.models.served.policy import (
    PROBE,
    AccessRefused,
    AttemptFailed,
    Policy,
    RequestRejected,
    TransientFailure,
    UnusableReply,
)
from ragsmith.models.usage import NOTHING, Usage
from ragsmith.text.redaction import redacted

if TYPE_CHECKING:
    from ragsmith.models.served.http.transport import BoundedClient

T = TypeVar("T")
Probe = Callable[[], Awaitable[object]]
"""A request that costs next to nothing, and only shows whether a provider answers at all."""

LATE = "no reply in time"
SPREAD = 0.1
"""Share of a pause over which requests spread when it ends, at most a second: together they would be told to wait."""


@dataclass(frozen=True, slots=True)
class ProviderActivity:
    """What a provider has done so far, and does now; ``waiting_until`` is an instant of ``time.monotonic``, or 0."""

    attempts: int = 0
    retries: int = 0
    in_flight: int = 0
    waiting_until: float = 0.0


class Provider:
    """Sends requests; safe to use from many threads.

    ``on_attempt`` is called right before each attempt is sent, on the loop's thread: it must not block. If it raises,
    nothing is sent and the request fails with what it raised: a budget is reserved there. ``on_lost`` is called
    there, too, with the usage of each attempt that gave nothing and was paid for, or may have been, and of each probe
    before it is sent.
    """

    def __init__(
        self,
        name: str,
        policy: Policy | None = None,
        *,
        jitter: random.Random | None = None,
    ) -> None:
        self.name = redacted(name)
        self.policy = policy or Policy()
        self.on_attempt: Callable[[], None] = _nothing
        self.on_lost: Callable[[Usage], None] = _nothing
        self._jitter = jitter or random.Random()  # of pauses alone: no result depends on it, processes must differ
        self._limiter = Limiter(self.policy.in_flight)
        self._breaker = Breaker(self.policy)
        self._examining = asyncio.Lock()
        self._down = asyncio.Event()
        self._pending: set[Future[Any]] = set()
        self._closed = False
        self._activity = ProviderActivity()

    @property
    def activity(self) -> ProviderActivity:
        """Counts, all of the same instant."""
        return self._activity

    @property
    def _ended(self) -> str:
        return f"the connection to {self.name} was closed"

    @cached_property
    def http(self) -> BoundedClient:
        """The HTTP client of this provider, to be used in attempts: see `ragsmith.models.served.http.transport`."""
        from ragsmith.models.served.http.transport import BoundedClient  # noqa: PLC0415  HTTP takes 0.4 s to import

        client = BoundedClient(largest_response=self.policy.largest_response)
        BACKGROUND.close_at_exit(client)
        weakref.finalize(self, BACKGROUND.close, client, wait=False).atexit = False
        return client

    def send(self, attempt: Callable[[], Awaitable[T]], *, what: str, probe: Probe | None = None) -> T:
        """The result of ``attempt``, tried as often as the policy allows; ``what`` begins the message of an error.

        ``probe`` is sent once when failures suggest that the provider is down, and decides; without one, they do.

        Raises:
            ModelError: every attempt failed; of its classes `Unreadable`, if replies came that are of no use, and
                `RefusedContent` or `TooLong`, if the request was rejected.
            ModelUnavailable: the provider refuses the key or the model, asks for too long a pause, or is down.
        """
        return self.send_all([attempt], what=what, probe=probe)[0]

    def send_all(
        self, attempts: Sequence[Callable[[], Awaitable[T]]], *, what: str, probe: Probe | None = None
    ) -> list[T]:
        """The results of several requests that are in flight at once; if one fails, so does the whole. See `send`."""
        closed = self._closed
        futures = [] if closed else [BACKGROUND.submit(self.sent(attempt, what, probe)) for attempt in attempts]
        self._pending.update(futures)
        try:
            if not closed:
                return [future.result() for future in futures]
        except CancelledError:
            pass  # by close(); raised below, so that the error has no context
        finally:
            for future in futures:
                future.cancel()  # one has failed, or on Ctrl-C: nobody waits for the others
            self._pending.difference_update(futures)
        raise ModelUnavailable(f"{what}: {self._ended}")

    def close(self, *, patience: float = 0.0) -> None:
        """Send nothing more, and close the connections, with `ModelUnavailable` for whoever still waits.

        Attempts under way have ``patience`` seconds to end, unless the provider is down: a reply that is given up is
        paid for, and would be again.
        """
        self._closed = True
        try:
            if patience > 0 and self._pending and not self._down.is_set():
                BACKGROUND.soon(self._down.set)  # nobody pauses any longer
                wait(tuple(self._pending), patience)
        finally:  # also on a second Ctrl-C
            for future in tuple(self._pending):
                future.cancel()
            if "http" in self.__dict__:
                BACKGROUND.close(self.http)

    # --- on the loop's thread ----------------------------------------------------------------------------------------

    async def sent(self, attempt: Callable[[], Awaitable[T]], what: str, probe: Probe | None = None) -> T:
        """As `send`, for whoever is on the loop's thread."""
        policy, request, problem = self.policy, object(), ""
        tried = failed = unusable = 0
        lost = NOTHING
        told: float | None = None

        def given_up(kind: type[ModelError], message: str) -> ModelError:
            return kind(message, calls=tried, input_tokens=lost.input_tokens, output_tokens=lost.output_tokens)

        while failed < policy.attempts and unusable < policy.replies and tried - failed < policy.pauses:
            if failed and not told:
                await self._pause(policy.back_off(failed, self._jitter))
            error: RagsmithError | None = None
            try:
                return await self._attempt(attempt, request, what, problem, retry=tried > 0)
            except TransientFailure as trouble:
                problem, told = redacted(trouble.problem), trouble.wait
                unusable += isinstance(trouble, UnusableReply)
                lost += trouble.usage or NOTHING
            except RequestRejected as trouble:
                tried += 1
                lost += trouble.usage or NOTHING
                error = given_up(trouble.error, f"{what}: {redacted(trouble.problem)}")
            except AccessRefused as trouble:
                error = ModelUnavailable(f"{what}: {redacted(trouble.problem)}")
            if error is not None:
                raise error  # out here it has no context, which would show what the server said
            tried += 1
            failed += not told
            await self._examine(probe)
        gave_up = f"{what}: {problem} (tried {tried} times)"
        if unusable and unusable >= min(policy.replies, failed):
            raise given_up(Unreadable, gave_up)
        self._breaker.gave_up(time.monotonic())
        await self._examine(probe)
        self._check(what, problem)
        raise given_up(ModelError, gave_up)

    async def _attempt(
        self, attempt: Callable[[], Awaitable[T]], request: object, what: str, problem: str, *, retry: bool
    ) -> T:
        """One attempt, when there is a free slot and the provider may be asked."""
        async with self._limiter.slot():
            await self._ready(what, problem)
            self.on_attempt()
            now = self._activity
            self._activity = replace(
                now, attempts=now.attempts + 1, retries=now.retries + retry, in_flight=now.in_flight + 1
            )
            sent = time.monotonic()
            try:
                result = await self._within_deadline(attempt)
            except AttemptFailed as trouble:
                if isinstance(trouble, TransientFailure) and not isinstance(trouble, UnusableReply):
                    self._failed(request, sent, trouble)
                else:
                    self._breaker.answered(time.monotonic())
                if trouble.usage is not None:
                    self.on_lost(trouble.usage)
                raise
            finally:
                self._activity = replace(self._activity, in_flight=self._activity.in_flight - 1)
        self._breaker.answered(time.monotonic())
        self._limiter.succeeded()
        self._down.clear()
        return result

    async def _within_deadline(self, attempt: Callable[[], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self.policy.deadline):
                return await attempt()
        except TimeoutError:
            pass
        raise TransientFailure(f"no complete reply within {self.policy.deadline:g} s", kind=LATE, usage=NOTHING)

    def _failed(self, request: object, sent: float, trouble: TransientFailure) -> None:
        now, told = time.monotonic(), trouble.wait
        if told is not None:
            self._limiter.hold(told, sent=sent, now=now)
            self._activity = replace(self._activity, waiting_until=self._limiter.until)
        alone = self._activity.in_flight == 1
        self._breaker.failed(request, sent, now, told or 0.0, alone=alone, kind=redacted(trouble.kind))

    async def _examine(self, probe: Probe | None) -> None:
        """Settle a suspicion that the provider is down, once for all who share it."""
        if not self._breaker.suspicion:
            return
        async with self._examining:
            if why := self._breaker.suspicion:
                trouble = await self._probed(probe)
                now = time.monotonic()
                if not trouble:
                    self._breaker.absolve(now)
                    return
                began = datetime.now().astimezone() - timedelta(seconds=now - self._breaker.since)
                self._breaker.open(now, f"{trouble} since {began:%H:%M:%S}: {why}")
                self._down.set()

    async def _probed(self, probe: Probe | None) -> str:
        """The trouble that a probe meets, or "" where it is answered; it counts as a request that is sent.

        A provider that tells everybody to wait has shown itself what it does, and is not asked against its will.
        """
        if probe is None or self._limiter.remaining(time.monotonic()):
            return self._breaker.kind
        self.on_lost(PROBE)
        self.on_attempt()
        self._activity = replace(self._activity, attempts=self._activity.attempts + 1)
        try:
            async with asyncio.timeout(self.policy.probe_deadline):
                await probe()
        except TimeoutError:
            return LATE
        except AttemptFailed as trouble:
            return (
                redacted(trouble.kind)
                if isinstance(trouble, TransientFailure) and not isinstance(trouble, UnusableReply)
                else ""
            )
        return ""

    async def _ready(self, what: str, problem: str) -> None:
        """Wait as long as the provider asked for.

        Raises:
            ModelUnavailable: it is down, or asked for longer than anybody should wait.
        """
        self._check(what, problem)
        while left := self._limiter.remaining(time.monotonic()):
            if left > self.policy.longest_wait:
                raise ModelUnavailable(
                    f"{what}: {self.name} asks to wait for {left:.0f} s: run the same command again after that"
                )
            await self._pause(left + self._jitter.uniform(0.0, min(1.0, SPREAD * left)))
            self._check(what, problem)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not on when the provider turns out to be down, or is closed."""
        if self._closed:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._down.wait()
        except TimeoutError:
            pass

    def _check(self, what: str, problem: str) -> None:
        """Raise if the provider is down, or closed."""
        if self._closed:
            raise ModelUnavailable(f"{what}: {self._ended}")
        if why := self._breaker.why_open(time.monotonic()):
            self._down.set()
            last = f"{problem}; " if problem else ""
            raise ModelUnavailable(f"{what}: {last}{self.name} seems to be down ({why}): run the same command later")
        self._down.clear()


def _nothing(*_: Usage) -> None:
    return
