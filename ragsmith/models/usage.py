"""Costs of model calls: usages, and meters that add them up."""

from __future__ import annotations

import operator
from dataclasses import dataclass, replace

MIN_CHARACTERS_PER_TOKEN = 3
"""Characters per token for upper bounds on the tokens of ASCII text; tokenisers rarely produce more tokens."""
AVERAGE_CHARACTERS_PER_TOKEN = 4
"""Characters per token for estimates: the average of English prose in OpenAI's documentation of its tokeniser."""


def estimate_max_tokens(text: str) -> int:
    """Estimate an upper bound on the tokens of ``text``; two characters outside ASCII count as three tokens."""
    other = sum(character > "\x7f" for character in text)
    return (len(text) - other) // MIN_CHARACTERS_PER_TOKEN + 3 * other // 2 + 1


@dataclass(frozen=True, slots=True)
class Usage:
    """The cost of some calls; ``seconds`` is the time spent waiting for remote models when the calls were made.

    ``cut`` counts replies that reached their token limit and were used nevertheless.
    """

    calls: int = 0
    texts_embedded: int = 0
    pairs_scored: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cut: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(*map(operator.add, _values(self), _values(other)))

    def shares(self, n: int) -> list[Usage]:
        """Split evenly over ``n``; the first share gets the remainders."""
        *counts, seconds, _ = _values(self)
        each = replace(Usage(*(count // n for count in counts)), seconds=seconds / n)
        return [each + Usage(*(count % n for count in counts)), *[each] * (n - 1)]


_values = operator.attrgetter(*Usage.__slots__)

NO_USAGE = Usage()
ONE_CALL = Usage(calls=1)


@dataclass(slots=True)
class Meter:
    """Adds up usages in place, which is cheaper than a new `Usage` for each sum."""

    calls: int = 0
    texts_embedded: int = 0
    pairs_scored: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    cut: int = 0

    def add(self, usage: Usage) -> None:
        """Add ``usage``."""
        # field by field: a loop over names takes five times as long, and a search adds 100,000 usages
        self.calls += usage.calls
        self.texts_embedded += usage.texts_embedded
        self.pairs_scored += usage.pairs_scored
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.seconds += usage.seconds
        self.cut += usage.cut

    def total(self) -> Usage:
        """Return the sum so far; `NO_USAGE` without a call, text or pair."""
        return Usage(*_values(self)) if self.calls or self.texts_embedded or self.pairs_scored else NO_USAGE
