"""Limits and pauses of requests to a provider, how attempts fail, and when a provider counts as down."""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import fmean

from ragsmith.errors import ModelError, RefusedContent
from ragsmith.models.usage import NO_USAGE, Usage

PROBE_USAGE = Usage(1, 0, 0, 32, 16)
"""Upper bound of the cost of a probe: a sentence in a template, and a word."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of a provider; times are in seconds."""

    in_flight: int | None = None
    """Attempts in flight, over all threads; None learns the number, up to ``most_in_flight``."""
    most_in_flight: int = 32
    """Maximum of a learnt number of attempts in flight."""
    attempts: int = 5
    """Attempts per request, not counting those after which the provider requested a pause."""
    replies: int = 3
    """Unusable replies per request; fewer than ``attempts``, because at temperature 0 the next one is likely equal."""
    pauses: int = 20
    """Pauses per request that the provider may request."""
    deadline: float | None = None
    """Total time of one attempt, up to the last byte of the reply; None learns it."""
    patience: float = 45.0
    """Minimum of a learnt deadline, and the time after which a private server is again asked for a sign of life."""
    longest_deadline: float = 600.0
    """Maximum of a learnt deadline, and its minimum for a private server that gives signs of life; an attempt that took
    as long is not repeated."""
    pause: float = 1.0
    """Pause before the second attempt, doubled before each further one up to ``longest_pause``."""
    longest_pause: float = 30.0
    """Maximum pause between two attempts."""
    longest_wait: float = 60.0
    """Longest pause that the provider may request; after a longer one, the run stops and can be resumed."""
    largest_response: int = 10 * 1024 * 1024
    """Bytes, after decompression."""
    failures_in_a_row: int = 5
    """Consecutive failed requests after which the provider is suspected to be down."""
    silence: float = 25.0
    """Time without a success after which failures of several requests raise the same suspicion."""
    probes: int = 3
    """Probes without an answer, with pauses as between attempts, after which a suspected provider counts as down."""
    probe_deadline: float = 5.0
    """Total time of a probe."""
    cooldown: float = 30.0
    """Time without requests to a provider that is down, and without suspicion of one that answered a probe."""

    @property
    def slots(self) -> int:
        """The maximum number of attempts in flight, which does not depend on what is learnt."""
        return self.in_flight or self.most_in_flight

    def back_off(self, failed: int, draw: random.Random) -> float:
        """Return the pause after ``failed`` attempts: exponential, with jitter between 50% and 100%."""
        return min(self.longest_pause, self.pause * 2.0 ** (failed - 1)) * draw.uniform(0.5, 1.0)


class AttemptFailed(Exception):
    """A failed attempt; messages append the reason ``problem`` to ``MODEL: ``.

    ``usage`` is reported by the server: without tokens if the attempt may be billed for an unknown number, and None if
    there was no reply.
    """

    usage: Usage | None = None
    wait: float | None = None

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class TransientFailure(AttemptFailed):
    """A temporary failure, which is retried, after ``wait`` seconds if the provider requested a pause.

    ``kind`` is the kind of failure, such as ``HTTP 503``, if ``problem`` is more specific. If ``final``, the attempt
    took so long that the request is not repeated.
    """

    def __init__(
        self,
        problem: str,
        wait: float | None = None,
        *,
        kind: str = "",
        usage: Usage | None = None,
        final: bool = False,
    ) -> None:
        super().__init__(problem)
        self.final = final
        self.wait = wait
        self.kind = kind or problem
        self.usage = usage


class UnusableReply(TransientFailure):
    """A reply that keeps the protocol and has no usable content, which is retried a few times.

    The cause is the model, so the provider is not down.
    """

    def __init__(self, problem: str, usage: Usage | None = None) -> None:
        super().__init__(problem, usage=usage or NO_USAGE)


class RequestRejected(AttemptFailed):
    """The provider rejects this request, which is not retried and fails with ``error``; others are not affected."""

    def __init__(self, problem: str, error: type[ModelError] = RefusedContent) -> None:
        super().__init__(problem)
        self.error = error


class AccessRefused(AttemptFailed):
    """The provider refuses the key or the model, and therefore every request."""


MIN_ROUND = 4
"""Minimum number of replies on which a number of slots is compared with half of it."""
MAX_REPLIES = 128
"""Number of replies whose seconds are remembered for each number of slots, because the speed of a server changes."""
MAX_SLOWDOWN = 1.5
"""Maximum ratio of the seconds of a reply when the slots double: 1 while all requests are worked on, 2 if half of them
wait."""


class Limiter:
    """Slots for attempts, and the end (``until``, of the event loop's clock) of the pause that the provider requested.

    As in TCP's congestion control (Jacobson 1988), each pause halves the number of slots; each success adds one, up to
    ``max_slots``. Otherwise all requests would be repeated at the end of a pause, and most would be refused until their
    attempts are exhausted. Not thread-safe.

    If ``learning``, there is one slot until the first reply, and then the number doubles with each round of replies, as
    in slow start, while replies do not slow down. As in TCP Vegas (Brakmo and Peterson 1995), slower replies are a sign
    of a queue: by Little's law, the throughput of twice as many slots is the same if replies take twice as long. The
    number is then halved, and the next trial comes after twice as many rounds.
    """

    def __init__(self, max_slots: int, *, learning: bool = False) -> None:
        self.until = 0.0
        self.slots = 1 if learning else max_slots
        self.learning = learning
        self._max_slots = max_slots
        self._surplus = 0  # slots that are removed when they become free
        self._free = asyncio.Semaphore(self.slots)
        self._last_halved = float("-inf")
        self._seconds: dict[int, deque[float]] = {}  # of recent replies, by the number of occupied slots
        self._n_round = 0
        self._rounds: dict[int, int] = {}  # before the next trial of twice as many slots, if the last one failed

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[None]:
        """Wait for a slot, first come, first served, and occupy it in the block."""
        await self._free.acquire()
        try:
            yield
        finally:
            self._release()

    def fix(self, slots: int) -> None:
        """Set the number of slots that the server has, which is not learnt then."""
        self.learning, self._max_slots = False, min(slots, self._max_slots)
        self._resize(self._max_slots)

    def succeeded(self, occupied: int = 0, seconds: float = 0.0) -> None:
        """Add a slot after a success, or learn from a reply after ``seconds``, sent when ``occupied`` slots were."""
        if not self.learning:
            self._resize(min(self._max_slots, self.slots + 1))
        elif occupied == self.slots:  # else the requests were fewer, and their seconds say nothing about the slots
            self._seconds.setdefault(occupied, deque(maxlen=MAX_REPLIES)).append(seconds)
            self._n_round += 1
            if self._n_round >= (max(occupied, MIN_ROUND) * self._rounds.get(occupied, 1) if occupied > 1 else 1):
                self._end_round()

    def _end_round(self) -> None:
        self._n_round = 0
        half, replies = self._seconds.get(self.slots // 2, ()), self._seconds[self.slots]
        if len(half) >= MIN_ROUND and fmean(replies) > MAX_SLOWDOWN * fmean(half):
            replies.clear()
            self._rounds[self.slots // 2] = 2 * self._rounds.get(self.slots // 2, 1)
            self._resize(self.slots // 2)
        else:
            self._rounds.pop(self.slots // 2, None)
            self._resize(min(self._max_slots, 2 * self.slots))

    def pause_for(self, seconds: float, *, sent: float, now: float) -> None:
        """Pause for ``seconds`` from ``now``, unless a longer pause is under way, after an attempt sent at ``sent``.

        Attempts that were in flight together halve the slots only once.
        """
        self.until = max(self.until, now + seconds)
        if sent > self._last_halved:
            self._last_halved = now
            self._resize(max(1, self.slots // 2))

    def _resize(self, slots: int) -> None:
        self._surplus += max(0, self.slots - slots)
        added, self.slots = max(0, slots - self.slots), slots
        for _ in range(added):
            self._release()

    def remaining(self, now: float) -> float:
        """Return the seconds left of the pause."""
        return max(0.0, self.until - now)

    def _release(self) -> None:
        if self._surplus:
            self._surplus -= 1
        else:
            self._free.release()


MIN_FAILING_REQUESTS = 3
"""Minimum number of failing requests before silence counts, so that one unanswerable request stops no others."""
MAX_SILENCE_RATIO = 2.0
"""Maximum ratio of the silence, including pauses that the provider requested, to `Policy.silence`."""


class CircuitBreaker:
    """Circuit breaker: suspects an outage after consecutive failed requests, or a period of failures only.

    The caller resolves a ``suspicion`` with `open` or `clear_suspicion`. Times are seconds of one clock. Not
    thread-safe.
    """

    def __init__(self, policy: Policy) -> None:
        self.suspicion = ""
        """Why the provider may be down; "" if there is no unresolved suspicion."""
        self.since = 0.0
        """The time of the first failure behind the suspicion."""
        self.kind = ""
        """The kind of the last failure."""
        self._policy = policy
        self._last_answer = self._trusted_until = float("-inf")
        self._failing: set[object] = set()
        self._since: float | None
        self._opened: float | None
        self._paused: float
        self._pause_until: float
        self._reset()

    def record_answer(self, now: float) -> None:
        """Record that an attempt was answered, including a rejection or an unusable reply."""
        self._last_answer = now
        self._reset()

    def record_failure(
        self, request: object, sent: float, now: float, pause: float = 0.0, *, alone: bool = True, kind: str = ""
    ) -> None:
        """Record a failed attempt of ``request``, sent at ``sent``; ``pause`` is the requested pause in seconds.

        ``alone`` is whether no other attempt is in flight. A request to pause arrives sooner than a reply, so it raises
        no suspicion while other attempts are in flight.
        """
        began = max(sent, self._last_answer)
        self._since = began if self._since is None else min(self._since, began)
        self.kind = kind
        self._failing.add(request)
        silence = now - self._since
        requested = min(silence, self._paused - max(0.0, self._pause_until - now))
        self._paused += max(0.0, now + pause - max(now, self._pause_until))  # pauses of several requests overlap
        self._pause_until = max(self._pause_until, now + pause)
        min_silence = self._policy.silence
        exceeds_maximum = silence >= min_silence and silence + pause >= MAX_SILENCE_RATIO * min_silence
        if (
            len(self._failing) >= MIN_FAILING_REQUESTS
            and (alone or not pause)
            and (silence - requested >= min_silence or exceeds_maximum)
        ):
            self._suspect(now, f"only failures for {silence:.0f} s")

    def record_failed_request(self, now: float) -> None:
        """Record that a request failed after all its attempts."""
        self._failed_requests += 1
        if self._failed_requests >= self._policy.failures_in_a_row:
            self._suspect(now, f"{self._failed_requests} requests in a row failed")

    def clear_suspicion(self, now: float) -> None:
        """Clear the suspicion, and raise no other during the cooldown."""
        self._trusted_until = now + self._policy.cooldown
        self.record_answer(now)

    def open(self, now: float, why: str) -> None:
        """Confirm the suspicion, unless an attempt was answered in the meantime."""
        if self.suspicion:
            self._opened, self._why, self.suspicion = now, why, ""

    def open_reason(self, now: float) -> str:
        """Return why no request may be sent now, or ""; after the cooldown the provider is tried again."""
        if self._opened is None or now < self._opened + self._policy.cooldown:
            return self._why
        self._reset()
        return ""

    def _suspect(self, now: float, why: str) -> None:
        if self._opened is None and now >= self._trusted_until:
            self.suspicion, self.since = why, self._since if self._since is not None else now

    def _reset(self) -> None:
        self._failed_requests, self._since, self._opened, self._why, self.suspicion = 0, None, None, "", ""
        self._paused, self._pause_until = 0.0, float("-inf")
        self._failing.clear()
