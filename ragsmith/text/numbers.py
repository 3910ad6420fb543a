"""Formats of numbers, intervals and probabilities."""

import re
from functools import partial
from typing import Protocol

MISSING = "–"
"""Shown for an unknown number."""

WHOLE = re.compile(r"\[\S+, \S+\]|(?:p )?[=<] \d\S*|\(n \d+\)")
"""Parts of a line that are not broken at its end."""


class Interval(Protocol):
    """A mean and its confidence interval, if known."""

    @property
    def mean(self) -> float:
        """The mean."""

    @property
    def low(self) -> float | None:
        """The lower bound."""

    @property
    def high(self) -> float | None:
        """The upper bound."""


class Counted(Interval, Protocol):
    """A mean with its number of questions, None if it is over all questions."""

    @property
    def n(self) -> int | None:
        """The number of questions."""


def plain(value: float | None, digits: int = 3) -> str:
    """Format a number: ``0.712``; a dash if it is unknown."""
    return MISSING if value is None else f"{value:.{digits}f}"


tenths = partial(plain, digits=1)
"""``2.0``."""
whole = partial(plain, digits=0)
"""``512``."""


def signed(value: float | None, digits: int = 3) -> str:
    """Format a number with its sign: ``+0.051``, ``−0.020``, but ``0.000``."""
    if value is None:
        return MISSING
    if round(value, digits) == 0:
        return f"{0:.{digits}f}"
    return f"{value:+.{digits}f}".replace("-", "−")


signed_tenths = partial(signed, digits=1)
"""``+1.0``."""


def share(value: float | None) -> str:
    """Format a percentage: ``43 %``; values other than 0 and 1 are never rounded to 0 or 100 %."""
    if value is None:
        return MISSING
    if 0 < value < 0.01:
        return "< 1 %"
    if 0.99 < value < 1:
        return "> 99 %"
    return f"{100 * value:.0f} %"


def probability(value: float | None) -> str:
    """Format a probability: ``0.012``, or ``< 0.001``."""
    if value is None:
        return MISSING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def interval(low: float | None, high: float | None, *, sign: bool = False, digits: int = 3) -> str:
    """Format an interval: ``[0.650, 0.771]``."""
    if low is None or high is None:
        return ""
    write = signed if sign else plain
    return f"[{write(low, digits)}, {write(high, digits)}]"


def by_group(low: float | None, high: float | None) -> str:
    """Format the interval of a difference by group of questions, or the reason that there is none."""
    return interval(low, high, sign=True) or "(too few groups)"


def mean(score: Counted | None, *, sign: bool = False) -> str:
    """Format a mean with its interval, if known, and its number of questions, if not all: ``0.712 [0.650, 0.771] (n
    67)``.
    """
    if score is None:
        return MISSING
    value = signed(score.mean) if sign else plain(score.mean)
    counted = "" if score.n is None else f"(n {score.n})"
    return " ".join(part for part in (value, interval(score.low, score.high, sign=sign), counted) if part)


def change(score: Counted | None) -> str:
    """Format a difference: ``+0.051 [−0.010, +0.112]``; without an interval there were too few groups of questions."""
    return f"{mean(score, sign=True)}{' (too few groups)' if score is not None and score.low is None else ''}"


def estimate(found: Interval | None) -> str:
    """Format an estimate: ``+0.051 [−0.010, +0.112]`` or ``+0.051 (too few groups)``."""
    return MISSING if found is None else f"{signed(found.mean)} {by_group(found.low, found.high)}"
