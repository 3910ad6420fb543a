"""How a provider is asked: limits, pauses, and the three ways in which an attempt fails."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits of a provider; times are in seconds."""

    in_flight: int = 32
    """Attempts under way at once, over all threads."""
    attempts: int = 5
    """Attempts of one request; the last failure is final. Those that were told to wait do not count."""
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
    """Requests given up one after the other before the provider counts as down."""
    silence: float = 25.0
    """Time in which attempts of several requests fail and none succeeds before the provider counts as down."""
    rest: float = 30.0
    """How long a provider that is down is left alone."""

    def back_off(self, failed: int, draw: random.Random) -> float:
        """Pause after ``failed`` attempts: exponential, and between half and the whole of it, so that few collide."""
        return min(self.longest_pause, self.pause * 2.0 ** (failed - 1)) * draw.uniform(0.5, 1.0)


class AttemptFailed(Exception):
    """An attempt gave no result; ``problem`` says why, in words that fit after ``MODEL: ``."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem


class Transient(AttemptFailed):
    """A trouble that may pass: tried again, not before ``wait`` seconds if the provider said so."""

    def __init__(self, problem: str, wait: float | None = None) -> None:
        super().__init__(problem)
        self.wait = wait


class Rejected(AttemptFailed):
    """The provider does not take this request: not tried again, and nothing follows for other requests."""


class Refused(AttemptFailed):
    """The provider refuses the key or the model: it would refuse every other request as well."""
