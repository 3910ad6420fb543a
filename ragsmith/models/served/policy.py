"""Limits and pauses of requests to a provider, and the ways in which an attempt fails."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ragsmith.errors import ModelError, RefusedContent
from ragsmith.models.usage import NOTHING, Usage

PROBE_USAGE = Usage(1, 0, 0, 32, 16)
"""Upper bound of the cost of a probe: a sentence in a template, and a word."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of a provider; times are in seconds."""

    in_flight: int = 32
    """Attempts in flight, over all threads."""
    attempts: int = 5
    """Attempts per request, apart from those after which the provider asked for a pause."""
    replies: int = 3
    """Unusable replies per request; fewer than ``attempts``, because at temperature 0 the next is likely the same."""
    pauses: int = 20
    """Pauses per request that the provider may ask for."""
    deadline: float = 45.0
    """Total time of one attempt, up to the last byte of the reply."""
    pause: float = 1.0
    """Pause before the second attempt, doubled before each further one up to ``longest_pause``."""
    longest_pause: float = 30.0
    longest_wait: float = 60.0
    """A provider that asks for a longer pause is unavailable: the run stops and can be resumed."""
    largest_response: int = 10 * 1024 * 1024
    """Bytes, after decompression."""
    failures_in_a_row: int = 5
    """Consecutive failed requests after which the provider is suspected to be down."""
    silence: float = 25.0
    """Time in which only failures of several requests raise that suspicion as well."""
    probe_deadline: float = 5.0
    """Total time of a probe."""
    rest: float = 30.0
    """How long no request is sent to a provider that is down, and none that answered a probe is suspected again."""

    def back_off(self, failed: int, draw: random.Random) -> float:
        """Return the pause after ``failed`` attempts: exponential, with jitter between half and the whole of it."""
        return min(self.longest_pause, self.pause * 2.0 ** (failed - 1)) * draw.uniform(0.5, 1.0)


class AttemptFailed(Exception):
    """An attempt had no result; ``problem`` says why, to be appended to ``MODEL: ``.

    ``usage`` is what the server reports: without tokens if the attempt may have cost some and the server does not say
    how many, and None if there was no reply.
    """

    usage: Usage | None = None
    wait: float | None = None

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class TransientFailure(AttemptFailed):
    """A failure that may pass: retried, after ``wait`` seconds if the provider asked for it.

    ``kind`` is the kind of failure, such as ``HTTP 503``, if ``problem`` is more specific.
    """

    def __init__(self, problem: str, wait: float | None = None, *, kind: str = "", usage: Usage | None = None) -> None:
        super().__init__(problem)
        self.wait = wait
        self.kind = kind or problem
        self.usage = usage


class UnusableReply(TransientFailure):
    """A successful response that cannot be used: retried a few times. It does not suggest that the provider is down."""

    def __init__(self, problem: str, usage: Usage | None = None) -> None:
        super().__init__(problem, usage=usage or NOTHING)


class RequestRejected(AttemptFailed):
    """The provider rejects this request, which is not retried and fails with ``error``; others are not affected."""

    def __init__(self, problem: str, error: type[ModelError] = RefusedContent) -> None:
        super().__init__(problem)
        self.error = error


class AccessRefused(AttemptFailed):
    """The provider refuses the key or the model, and so every request."""
