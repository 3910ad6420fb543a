"""The circuit breaker: when a provider answers nobody, asking on would only cost time (Nygard 2007, Release It!).

Failures of the provider alone count: no connection, no reply in time, 5xx and 429. A reply is an answer, whatever it
says and however useless it is. What failures suggest is a suspicion, which a request of its own settles: requests that
can never be answered may come in a row, too.
"""

from __future__ import annotations

from ragsmith.models.served.policy import Policy

SEVERAL = 3
"""Requests that must have failed before silence counts: one that can never be answered does not stop the others."""
PATIENCE = 2.0
"""Pauses that the provider asked for do not count as silence, but with them it may last only so many times as long."""


class Breaker:
    """Suspects a provider that fails requests in a row, or all attempts for long; belongs to one thread.

    Whoever uses it settles a ``suspicion`` by `open` or `absolve`. Times are seconds of one clock, handed in.
    """

    def __init__(self, policy: Policy) -> None:
        self.suspicion = ""
        """What suggests that the provider is down; "" when nothing does, or that is settled."""
        self.since = 0.0
        """The beginning of the failures that suggest it."""
        self.kind = ""
        """The sort of the last failure."""
        self._policy = policy
        self._given_up = 0
        self._failing: set[object] = set()
        self._since: float | None = None
        self._last_answer = float("-inf")
        self._trusted_until = float("-inf")
        self._told = 0.0
        self._told_until = float("-inf")
        self._opened: float | None = None
        self._why = ""

    def answered(self, now: float) -> None:
        """An attempt was answered, be it with a refusal of that request or with a reply of no use."""
        self._last_answer = now
        self._reset()

    def failed(
        self, request: object, sent: float, now: float, told: float = 0.0, *, alone: bool = True, kind: str = ""
    ) -> None:
        """An attempt of ``request``, under way since ``sent``, failed; the provider asked for ``told`` seconds more.

        ``alone`` says that no other attempt is under way. To be told to wait is quick, to be answered is not: as long
        as others are under way it says nothing. ``kind`` is the sort of the failure.
        """
        began = max(sent, self._last_answer)
        self._since = began if self._since is None else min(self._since, began)
        self.kind = kind
        self._failing.add(request)
        silent = now - self._since
        expected = min(silent, self._told - max(0.0, self._told_until - now))
        self._told += max(0.0, now + told - max(now, self._told_until))  # pauses told to several requests overlap
        self._told_until = max(self._told_until, now + told)
        least = self._policy.silence
        in_vain = silent >= least and silent + told >= PATIENCE * least
        if len(self._failing) >= SEVERAL and (alone or not told) and (silent - expected >= least or in_vain):
            self._suspect(now, f"nothing but failures for {silent:.0f} s")

    def gave_up(self, now: float) -> None:
        """The provider failed a request for good."""
        self._given_up += 1
        if self._given_up >= self._policy.failures_in_a_row:
            self._suspect(now, f"{self._given_up} requests in a row failed")

    def absolve(self, now: float) -> None:
        """The suspicion was wrong: what fails, fails by itself. For a while nothing is suspected."""
        self._trusted_until = now + self._policy.rest
        self.answered(now)

    def open(self, now: float, why: str) -> None:
        """The suspicion was right, and ``why`` says so; unless something was answered in the meantime."""
        if self.suspicion:
            self._opened, self._why, self.suspicion = now, why, ""

    def why_open(self, now: float) -> str:
        """Why nothing is to be sent now; "" when it may. After a rest the provider gets another chance."""
        if self._opened is None or now < self._opened + self._policy.rest:
            return self._why
        self._reset()
        return ""

    def _suspect(self, now: float, why: str) -> None:
        if self._opened is None and now >= self._trusted_until:
            self.suspicion, self.since = why, self._since if self._since is not None else now

    def _reset(self) -> None:
        self._given_up, self._since, self._opened, self._why, self.suspicion = 0, None, None, "", ""
        self._told, self._told_until = 0.0, float("-inf")
        self._failing.clear()
