"""A circuit breaker, which stops requests to a provider that is down (Nygard 2007, Release It!).

Only failures of the provider count: no connection, no reply in time, 5xx and 429. Any reply counts as an answer, even
an unusable one. Since unanswerable requests may also follow each other, failures only raise a suspicion, which a probe
confirms or clears.
"""

from __future__ import annotations

from ragsmith.models.served.policy import Policy

SEVERAL = 3
"""Number of failing requests before silence counts, so that a single unanswerable one does not stop the others."""
PATIENCE = 2.0
"""Pauses that the provider asked for do not count as silence; including them it may last this many times as long."""


class Breaker:
    """Suspects a provider of being down after consecutive failed requests, or a time of failures only; single-threaded.

    The caller resolves a ``suspicion`` with `open` or `absolve`. Times are seconds of one clock.
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

    def answered(self, now: float) -> None:
        """Record that an attempt was answered, including a rejection or an unusable reply."""
        self._last_answer = now
        self._reset()

    def failed(
        self, request: object, sent: float, now: float, pause: float = 0.0, *, alone: bool = True, kind: str = ""
    ) -> None:
        """Record a failed attempt of ``request``, sent at ``sent``; the provider asked for a ``pause`` (seconds).

        ``alone``: no other attempt is in flight. Replies take longer than requests to wait, so the latter raise no
        suspicion while others are in flight.
        """
        began = max(sent, self._last_answer)
        self._since = began if self._since is None else min(self._since, began)
        self.kind = kind
        self._failing.add(request)
        silent = now - self._since
        expected = min(silent, self._paused - max(0.0, self._pause_until - now))
        self._paused += max(0.0, now + pause - max(now, self._pause_until))  # pauses of several requests overlap
        self._pause_until = max(self._pause_until, now + pause)
        least = self._policy.silence
        in_vain = silent >= least and silent + pause >= PATIENCE * least
        if len(self._failing) >= SEVERAL and (alone or not pause) and (silent - expected >= least or in_vain):
            self._suspect(now, f"nothing but failures for {silent:.0f} s")

    def gave_up(self, now: float) -> None:
        """Record that a request failed after all its attempts."""
        self._failed_requests += 1
        if self._failed_requests >= self._policy.failures_in_a_row:
            self._suspect(now, f"{self._failed_requests} requests in a row failed")

    def absolve(self, now: float) -> None:
        """Clear the suspicion, and raise no other for a while."""
        self._trusted_until = now + self._policy.rest
        self.answered(now)

    def open(self, now: float, why: str) -> None:
        """Confirm the suspicion, unless an attempt was answered in the meantime."""
        if self.suspicion:
            self._opened, self._why, self.suspicion = now, why, ""

    def why_open(self, now: float) -> str:
        """Return why no request may be sent now, or ""; after a rest the provider is tried again."""
        if self._opened is None or now < self._opened + self._policy.rest:
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
