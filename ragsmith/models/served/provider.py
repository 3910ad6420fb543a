"""A provider: one endpoint with one credential, called from many threads through one event loop."""

from __future__ import annotations

import asyncio
import random
import weakref
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from ragsmith.errors import ModelError, ModelUnavailable, ProviderTrouble, RagsmithError, Unreadable
from ragsmith.models.served.http.background import BACKGROUND_LOOP
from ragsmith.models.served.policy import (
    PROBE_USAGE,
    AccessRefused,
    AttemptFailed,
    CircuitBreaker,
    Limiter,
    Policy,
    RequestRejected,
    TransientFailure,
    UnusableReply,
)
from ragsmith.models.served.reply_wait import NO_REPLY_IN_TIME, ReplyWait
from ragsmith.models.usage import NO_USAGE, Usage
from ragsmith.text.redaction import redacted

if TYPE_CHECKING:
    from ragsmith.models.served.http.transport import BoundedClient

T = TypeVar("T")
PAGE_SECONDS = 1.0
"""Maximum number of seconds that a page is waited for by which a server shows that it is there."""
Probe = Callable[[], Awaitable[object]]
"""A minimal request that shows whether a provider responds."""

JITTER_SHARE = 0.1
"""Share of a pause, at most 1 s, over which waiting requests are spread, as together they would be refused."""


@dataclass(frozen=True, slots=True)
class ProviderActivity:
    """Counts of a provider's requests; ``waiting_until`` is a time of ``time.monotonic``, or 0."""

    attempts: int = 0
    retries: int = 0
    in_flight: int = 0
    waiting_until: float = 0.0


class Provider:
    """Sends requests. Thread-safe.

    ``on_attempt`` is called before each attempt is sent, in the loop's thread, and must not block; it reserves
    a budget. If it raises, nothing is sent and the request fails with its exception. ``on_billable_failure`` is called
    with the usage of each failed attempt that may be billed, and of each probe before it is sent.
    """

    def __init__(self, name: str, policy: Policy | None = None) -> None:
        self.name = redacted(name)
        self.policy = policy or Policy()
        self.on_attempt: Callable[[], None] = lambda: None
        self.on_billable_failure: Callable[[Usage], None] = lambda _: None
        self._jitter = random.Random()  # not seeded: no result depends on it, and processes must differ
        self._wait = ReplyWait(name, self.policy)
        self._limiter = Limiter(self.policy.slots, learning=self._wait.is_private and self.policy.in_flight is None)
        self._breaker = CircuitBreaker(self.policy)
        self._probe_lock = asyncio.Lock()
        self._down = asyncio.Event()
        self._last_probe: Probe | None = None
        self._pending: set[Future[Any]] = set()
        self._closed = False
        self._activity = ProviderActivity()

    @property
    def learns_slots(self) -> bool:
        """Whether the number of attempts in flight is learnt, from one on."""
        return self._limiter.learning

    @property
    def slots(self) -> int:
        """The number of attempts that may be in flight now."""
        return self._limiter.slots

    @property
    def activity(self) -> ProviderActivity:
        """A consistent snapshot of the counts."""
        return self._activity

    @cached_property
    def http(self) -> BoundedClient:
        """The HTTP client for attempts."""
        from ragsmith.models.served.http.transport import BoundedClient  # noqa: PLC0415  HTTP takes 0.4 s to import

        client = BoundedClient(largest_response=self.policy.largest_response)
        BACKGROUND_LOOP.close_at_exit(client)
        weakref.finalize(self, BACKGROUND_LOOP.close, client, wait=False).atexit = False
        return client

    def send(self, attempt: Callable[[], Awaitable[T]], *, what: str, probe: Probe | None = None) -> T:
        """Return the result of ``attempt``, with as many attempts as the policy allows.

        ``what`` begins error messages. ``probe`` is sent if failures suggest that the provider is down.

        Raises:
            ModelError: every attempt failed: `ProviderTrouble`, `Unreadable` if replies were unusable, `RefusedContent`
                or `TooLong` if the request was rejected.
            ModelUnavailable: the provider refuses the key or the model, requests too long a pause, or is down.
        """
        return self.send_all([attempt], what=what, probe=probe)[0]

    def send_all(
        self, attempts: Sequence[Callable[[], Awaitable[T]]], *, what: str, probe: Probe | None = None
    ) -> list[T]:
        """Send several requests concurrently; if one fails, all do. See `send`."""
        closed = self._closed
        futures = (
            [] if closed else [BACKGROUND_LOOP.submit(self.send_async(attempt, what, probe)) for attempt in attempts]
        )
        self._pending.update(futures)
        try:
            if not closed:
                return [future.result() for future in futures]
        except CancelledError:
            pass  # by close(); raised below, so that the error has no context
        finally:
            for future in futures:
                future.cancel()  # after a failure or Ctrl-C, the others are not needed
            self._pending.difference_update(futures)
        raise self._closed_error(what)

    def close(self, *, patience: float = 0.0) -> None:
        """Close the connections; pending requests fail with `ModelUnavailable`.

        Attempts in flight have ``patience`` seconds to end, unless the provider is down, because a request whose reply
        is abandoned would be paid for again.
        """
        self._closed = True
        try:
            if patience > 0 and self._pending and not self._down.is_set():
                BACKGROUND_LOOP.call_soon(self._down.set)  # ends all pauses
                wait(tuple(self._pending), patience)
        finally:  # also on a second Ctrl-C
            for future in tuple(self._pending):
                future.cancel()
            if "http" in self.__dict__:
                BACKGROUND_LOOP.close(self.http)

    # --- on the loop's thread ----------------------------------------------------------------------------------------

    async def send_async(self, attempt: Callable[[], Awaitable[T]], what: str, probe: Probe | None = None) -> T:
        """Like `send`, in the loop's thread."""
        policy, request, problem, self._last_probe = self.policy, object(), "", probe
        n_attempts = failed = unusable = 0
        failed_usage = NO_USAGE
        wait: float | None = None

        def failure(kind: type[ModelError], message: str) -> ModelError:
            return kind(
                message,
                calls=n_attempts,
                input_tokens=failed_usage.input_tokens,
                output_tokens=failed_usage.output_tokens,
            )

        while failed < policy.attempts and unusable < policy.replies and n_attempts - failed < policy.pauses:
            if failed and not wait:
                await self._pause(policy.back_off(failed, self._jitter))
            error: RagsmithError | None = None
            try:
                return await self._attempt(attempt, request, what, problem, retry=n_attempts > 0)
            except TransientFailure as failed_attempt:
                problem, wait = redacted(failed_attempt.problem), failed_attempt.wait
                unusable += isinstance(failed_attempt, UnusableReply)
                failed += policy.attempts * failed_attempt.final
                failed_usage += failed_attempt.usage or NO_USAGE
            except RequestRejected as failed_attempt:
                n_attempts += 1
                failed_usage += failed_attempt.usage or NO_USAGE
                error = failure(failed_attempt.error, f"{what}: {redacted(failed_attempt.problem)}")
            except AccessRefused as failed_attempt:
                error = ModelUnavailable(f"{what}: {redacted(failed_attempt.problem)}")
            if error is not None:
                raise error  # outside the handler it has no context, which would show the server's message
            n_attempts += 1
            failed += not wait
            await self._probe_if_suspected(probe)
        message = f"{what}: {problem} (attempts: {n_attempts})"
        if unusable and unusable >= min(policy.replies, failed):
            raise failure(Unreadable, message)
        self._breaker.record_failed_request(_now())
        await self._probe_if_suspected(probe)
        self._check(what, problem)
        raise failure(ProviderTrouble, message)

    async def find_outage(self, get_page: Probe) -> str:
        """Return why requests would fail now, or "".

        ``get_page`` requests a page, which costs nothing. A server of few slots may be too busy for it: none in time is
        no outage while requests are in flight. If the provider seems to be down, the last probe of a request is sent
        instead, and its reply ends the cooldown.
        """
        if self._breaker.open_reason(_now()):
            if not (kind := await self._probe(self._last_probe)):
                self._breaker.record_answer(_now())
            return kind
        try:
            await self._wait.within(min(PAGE_SECONDS, self.policy.probe_deadline), get_page)
        except AttemptFailed as failed_attempt:  # a server without this page answers 404 or 403, and is not down
            kind = _get_outage_kind(failed_attempt)
            if kind == NO_REPLY_IN_TIME and self._activity.in_flight:
                return ""
            return failed_attempt.problem if "HTTP 401" in failed_attempt.problem else kind
        return ""

    async def _attempt(
        self, attempt: Callable[[], Awaitable[T]], request: object, what: str, problem: str, *, retry: bool
    ) -> T:
        """Make one attempt when a slot is free and the provider is ready."""
        async with self._limiter.slot():
            await self._ready(what, problem)
            if self._limiter.learning and (slots := await self._wait.ask_for_slots(self._get)):
                self._limiter.fix(slots)
            self.on_attempt()
            activity = self._activity
            self._activity = replace(
                activity,
                attempts=activity.attempts + 1,
                retries=activity.retries + retry,
                in_flight=activity.in_flight + 1,
            )
            sent, occupied = _now(), self._activity.in_flight
            try:
                result = await self._wait.run(attempt, self._get)
            except AttemptFailed as failed_attempt:
                self._record_failure(request, sent, failed_attempt)
                if failed_attempt.usage is not None:
                    self.on_billable_failure(failed_attempt.usage)
                raise
            finally:
                self._activity = replace(self._activity, in_flight=self._activity.in_flight - 1)
        now = _now()
        self._wait.record(now - sent)
        self._breaker.record_answer(now)
        self._limiter.succeeded(occupied, now - sent)
        self._down.clear()
        return result

    async def _get(self, url: str) -> bytes | None:
        """Return the body of a page of the server, b"" if it refuses it or is busy, or None if it cannot be reached."""
        try:
            response = await self._wait.within(self.policy.probe_deadline, lambda: self.http.get(url))
        except TransientFailure as failed_attempt:
            return b"" if failed_attempt.kind == NO_REPLY_IN_TIME else None
        except AttemptFailed:
            return b""
        return bytes(response.content)

    def _record_failure(self, request: object, sent: float, failed_attempt: AttemptFailed) -> None:
        now = _now()
        if not (kind := _get_outage_kind(failed_attempt)):
            self._breaker.record_answer(now)
            return
        if failed_attempt.wait is not None:
            self._limiter.pause_for(failed_attempt.wait, sent=sent, now=now)
            self._activity = replace(self._activity, waiting_until=self._limiter.until)
        alone = self._activity.in_flight == 1
        self._breaker.record_failure(request, sent, now, failed_attempt.wait or 0.0, alone=alone, kind=kind)

    async def _probe_if_suspected(self, probe: Probe | None) -> None:
        """Probe the provider if failures suggest that it is down; requests that wait share the result."""
        if not self._breaker.suspicion:
            return
        async with self._probe_lock:
            if why := self._breaker.suspicion:
                failed_attempt = await self._probe(probe)
                for failed in range(1, self.policy.probes):
                    if not failed_attempt or probe is None or self._limiter.remaining(_now()):
                        break
                    await self._pause(self.policy.back_off(failed, self._jitter))
                    failed_attempt = await self._probe(probe)
                now = _now()
                if not failed_attempt:
                    self._breaker.clear_suspicion(now)
                    return
                began = datetime.now().astimezone() - timedelta(seconds=now - self._breaker.since)
                self._breaker.open(now, f"{failed_attempt} since {began:%H:%M:%S}: {why}")
                self._down.set()

    async def _probe(self, probe: Probe | None) -> str:
        """Send ``probe``, which counts as an attempt, and return the kind of its failure, or "" for an answer.

        During a pause requested by the provider no probe is sent, and the kind of the last failure is returned.
        """
        if probe is None or self._limiter.remaining(_now()):
            return self._breaker.kind
        self.on_billable_failure(PROBE_USAGE)
        self.on_attempt()
        self._activity = replace(self._activity, attempts=self._activity.attempts + 1)
        try:
            await self._wait.within(self.policy.probe_deadline, probe)
        except AttemptFailed as failed_attempt:
            return _get_outage_kind(failed_attempt)
        return ""

    async def _ready(self, what: str, problem: str) -> None:
        """Wait for the end of a pause requested by the provider.

        Raises:
            ModelUnavailable: the provider is down, or the pause is too long.
        """
        self._check(what, problem)
        while left := self._limiter.remaining(_now()):
            if left > self.policy.longest_wait:
                raise ModelUnavailable(
                    f"{what}: {self.name} asks to wait for {left:.0f} s: run the same command again after that"
                )
            await self._pause(left + self._jitter.uniform(0.0, min(1.0, JITTER_SHARE * left)))
            self._check(what, problem)

    async def _pause(self, seconds: float) -> None:
        """Wait for ``seconds``, or until the provider is down or closed."""
        if self._closed:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._down.wait()
        except TimeoutError:
            pass

    def _check(self, what: str, problem: str) -> None:
        """Raise `ModelUnavailable` if the provider is down or closed."""
        if self._closed:
            raise self._closed_error(what)
        if why := self._breaker.open_reason(_now()):
            self._down.set()
            last = f"{problem}; " if problem else ""
            raise ModelUnavailable(f"{what}: {last}{self.name} seems to be down ({why}): run the same command later")
        self._down.clear()

    def _closed_error(self, what: str) -> ModelUnavailable:
        return ModelUnavailable(f"{what}: the connection to {self.name} was closed")


def _now() -> float:
    """Return the time of the running loop's clock, by default that of ``time.monotonic``."""
    return asyncio.get_running_loop().time()


def _get_outage_kind(failed_attempt: AttemptFailed) -> str:
    """Return the kind of a failure that suggests that the provider is down, or ""."""
    if not isinstance(failed_attempt, TransientFailure) or isinstance(failed_attempt, UnusableReply):
        return ""
    return redacted(failed_attempt.kind)
