"""The limiter: a pause that a provider asked for holds for every request to it."""

from __future__ import annotations


class Limiter:
    """Knows until when nothing may be sent, on the clock of ``time.monotonic``; belongs to one thread."""

    def __init__(self) -> None:
        self.until = 0.0

    def hold(self, seconds: float, now: float) -> None:
        """Send nothing for ``seconds`` from ``now``; a longer pause that was told before stays."""
        self.until = max(self.until, now + seconds)

    def remaining(self, now: float) -> float:
        """Seconds until something may be sent; 0 when it may."""
        return max(0.0, self.until - now)
