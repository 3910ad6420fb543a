"""Forecast of the spending of a search: it is planned again when there are replies whose lengths a plan can learn."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from ragsmith.building import LOGGER
from ragsmith.gateway.budget import NOTHING_SPENT, Limits, Spent

FIRST_REQUESTS = 100
"""Number of requests after which a search is planned again; after ten times as many, again."""


@dataclass
class Forecast:
    """The spending ``expected`` of a search in total; nothing before `FIRST_REQUESTS`, or without ``plan_rest``.

    ``plan_rest`` returns the spending for what the cache lacks. ``due_at`` is the number of requests after which it is
    called next.
    """

    limits: Limits
    plan_rest: Callable[[], Spent] | None
    expected: Spent = NOTHING_SPENT
    due_at: int = FIRST_REQUESTS

    def update(self, spent: Spent) -> Spent:
        """Return the expected spending if ``spent`` was spent so far.

        It is logged as progress the first time, and whenever it has moved by more than a quarter.
        """
        if self.plan_rest is not None and spent.calls >= self.due_at:
            self.due_at = 10 * spent.calls
            expected = spent + self.plan_rest()
            if expected.differs_from(self.expected):
                self.expected = expected
                LOGGER.info(
                    "%s",
                    self._describe(spent),
                    extra={"fields": {"what": "forecast", "sent": spent.calls, **asdict(expected)}},
                )
        return self.expected

    def _describe(self, spent: Spent) -> str:
        text = f"after {spent.calls:,} requests: {self.expected} are expected in total"
        if (name := self.limits.exceeded(self.expected)) is None:
            return text
        limit, rest = self.limits.by_name[name], self.expected + -spent
        calls = spent.calls + rest.calls * (limit - getattr(spent, name)) / getattr(rest, name)
        return f"{text}, and --max-{name} {limit:g} pauses the search after about {calls:,.0f} requests"
