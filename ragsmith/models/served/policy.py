"""How a provider is asked: limits, pauses, and the ways in which an attempt fails."""

from __future__ import annotations

import random
from dataclasses import dataclass

from ragsmith.errors import ModelError, RefusedContent
from ragsmith.models.usage import NOTHING, Usage

PROBE = Usage(1, 0, 0, 32, 16)
"""What the request costs at most that decides whether a provider is down: a sentence in a template, and a word."""


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of a provider; times are in seconds."""

    in_flight: int = 32
    """Attempts under way at once, over all threads."""
    attempts: int = 5
    """Attempts of one request; the last failure is final. Those that were told to wait do not count."""
    replies: int = 3
    """Replies of one request that cannot be used; fewer than ``attempts``, as at temperature 0 the next is alike."""
    pauses: int = 20
    """Times that one request may be told to wait."""
    deadline: float = 45.0
    """Total time of one attempt, from its sending to the last byte: a reply that drips in does not extend it."""
    pause: float = 1.0
    """Before the second attempt; doubled before each further one, up to ``longest_pause``."""
    longest_pause: float = 30.0
    longest_wait: float = 60.0
    """A provider that asks for a longer pause than this is unavailable: the run stops and can be resumed."""
    largest_response: int = 10 * 1024 * 1024
    """Bytes, after decompression."""
    failures_in_a_row: int = 5
    """Requests that the provider fails one after the other before it is suspected to be down."""
    silence: float = 25.0
    """Time in which attempts of several requests fail and none is answered before it is suspected, too."""
    probe_deadline: float = 5.0
    """Total time of the request that decides whether a provider that is suspected is down."""
    rest: float = 30.0
    """How long a provider that is down is left alone, and one that answered a probe is not suspected."""

    def back_off(self, failed: int, draw: random.Random) -> float:
        """Pause after ``failed`` attempts: exponential, and between half and the whole of it, so that few collide."""
        return min(self.longest_pause, self.pause * 2.0 ** (failed - 1)) * draw.uniform(0.5, 1.0)


class AttemptFailed(Exception):
    """An attempt gave no result; ``problem`` says why, in words that fit after ``MODEL: ``.

    ``usage`` is what the server says that it counted, without tokens where it may have been paid and does not say, and
    None where it has made no reply.
    """

    usage: Usage | None = None

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class TransientFailure(AttemptFailed):
    """A trouble that may pass: tried again, not before ``wait`` seconds if the provider said so.

    ``kind`` is the sort of trouble, as in ``HTTP 503``, where the problem says more.
    """

    def __init__(self, problem: str, wait: float | None = None, *, kind: str = "", usage: Usage | None = None) -> None:
        super().__init__(problem)
        self.wait = wait
        self.kind = kind or problem
        self.usage = usage


class UnusableReply(TransientFailure):
    """A reply came, with success, and cannot be used: tried again a few times. The provider is not to be distrusted."""

    def __init__(self, problem: str, usage: Usage | None = None) -> None:
        super().__init__(problem, usage=usage or NOTHING)


class RequestRejected(AttemptFailed):
    """The provider does not take this request: not tried again, and nothing follows for other requests.

    ``error`` is what the request fails with.
    """

    def __init__(self, problem: str, error: type[ModelError] = RefusedContent) -> None:
        super().__init__(problem)
        self.error = error


class AccessRefused(AttemptFailed):
    """The provider refuses the key or the model: it would refuse every other request as well."""
