"""Forecast of the spending of a search: it is planned again when there are replies whose lengths a plan can learn."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from ragsmith.building import LOGGER
from ragsmith.errors import RagsmithError, warn_caller
from ragsmith.gateway.budget import NOTHING_SPENT, Limits, Spent

FIRST_REQUESTS = 100
"""Number of requests after which a search is planned again; after ten times as many, again."""


@dataclass
class Forecast:
    """The spending ``expected`` of a search in total; nothing before `FIRST_REQUESTS`, or without ``plan_rest``.

    ``plan_rest`` returns the spending for what the cache lacks, without money if a price is not known. ``is_bound`` is
    whether it returns an upper bound, as for a crossfit, whose searches share replies; there is no second plan then, as
    what the first search still lacks says nothing of the folds. ``due_at`` is the number of requests after which it is
    called next.
    """

    limits: Limits
    plan_rest: Callable[[], Spent] | None
    is_bound: bool = False
    expected: Spent = NOTHING_SPENT
    due_at: float = FIRST_REQUESTS

    def update(self, spent: Spent) -> Spent:
        """Return the expected spending if ``spent`` was spent so far.

        It is logged as progress the first time, and whenever it has moved by more than a quarter. If planning fails,
        the search goes on with the last forecast, and there is a warning.
        """
        if self.plan_rest is not None and spent.calls >= self.due_at:
            self.due_at = float("inf") if self.is_bound else 10 * spent.calls
            try:
                rest = self.plan_rest()
            except RagsmithError as error:
                warn_caller(f"the rest of this search could not be planned: {error}")
                return self.expected
            # without all prices, the money spent so far is no part of a total
            expected = replace(spent + rest, cost=spent.cost + rest.cost if rest.cost or not rest.calls else 0.0)
            if expected.differs_from(self.expected):
                self.expected = expected
                LOGGER.info(
                    "%s",
                    self._describe(spent, rest),
                    extra={"fields": {"what": "forecast", "sent": spent.calls, **asdict(expected)}},
                )
        return self.expected

    def _describe(self, spent: Spent, rest: Spent) -> str:
        text = f"after {spent.calls:,} requests: {'at most ' * self.is_bound}{self.expected} are expected in total"
        pauses = [  # the part of the rest that is spent until then
            (max(0.0, (limit - getattr(spent, name)) / getattr(rest, name)), name, limit)
            for name, limit in self.limits.by_name.items()
            if getattr(rest, name) and getattr(self.expected, name) > limit
        ]
        if not pauses:
            return text
        part, name, limit = min(pauses)
        calls = spent.calls + rest.calls * part
        return f"{text}, and --max-{name} {limit:g} pauses the search after about {calls:,.0f} requests"
