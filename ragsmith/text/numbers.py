"""How numbers are written, the same wherever they are shown."""

import re
from functools import partial
from typing import Protocol

MISSING = "–"

WHOLE = re.compile(r"\[\S+, \S+\]|(?:p )?[=<] \d\S*|\(n \d+\)")
"""What is not torn apart at the end of a line."""


class Interval(Protocol):
    """A mean with its interval, where that is known."""

    @property
    def mean(self) -> float:
        """The mean."""

    @property
    def low(self) -> float | None:
        """The lower end."""

    @property
    def high(self) -> float | None:
        """The upper end."""


class Counted(Interval, Protocol):
    """A mean that says of how many questions it is, unless it is of all."""

    @property
    def n(self) -> int | None:
        """The number of questions."""


def plain(value: float | None, digits: int = 3) -> str:
    """``0.712``; a dash for what is not known."""
    return MISSING if value is None else f"{value:.{digits}f}"


tenths = partial(plain, digits=1)
"""``2.0``."""
whole = partial(plain, digits=0)
"""``512``."""


def signed(value: float | None, digits: int = 3) -> str:
    """``+0.051``, ``−0.020`` with a minus sign, and ``0.000`` without any."""
    if value is None:
        return MISSING
    if round(value, digits) == 0:
        return f"{0:.{digits}f}"
    return f"{value:+.{digits}f}".replace("-", "−")


signed_tenths = partial(signed, digits=1)
"""``+1.0``."""


def share(value: float | None) -> str:
    """``43 %``; what is not quite nothing or all is not rounded to it."""
    if value is None:
        return MISSING
    if 0 < value < 0.01:
        return "< 1 %"
    if 0.99 < value < 1:
        return "> 99 %"
    return f"{100 * value:.0f} %"


def probability(value: float | None) -> str:
    """``0.012``, or ``< 0.001``."""
    if value is None:
        return MISSING
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def interval(low: float | None, high: float | None, *, sign: bool = False, digits: int = 3) -> str:
    """``[0.650, 0.771]``."""
    if low is None or high is None:
        return ""
    write = signed if sign else plain
    return f"[{write(low, digits)}, {write(high, digits)}]"


def by_group(low: float | None, high: float | None) -> str:
    """Return an interval of a difference by group of questions, or why there is none."""
    return interval(low, high, sign=True) or "(too few groups)"


def mean(score: Counted | None, *, sign: bool = False) -> str:
    """``0.712 [0.650, 0.771]``, or the mean alone where there is no interval; ``(n 67)`` if not of all questions."""
    if score is None:
        return MISSING
    value = signed(score.mean) if sign else plain(score.mean)
    counted = "" if score.n is None else f"(n {score.n})"
    return " ".join(part for part in (value, interval(score.low, score.high, sign=sign), counted) if part)


def change(score: Counted | None) -> str:
    """``+0.051 [−0.010, +0.112]``; without an interval there were too few groups of questions."""
    return f"{mean(score, sign=True)}{' (too few groups)' if score is not None and score.low is None else ''}"


def estimate(found: Interval | None) -> str:
    """``+0.051 [−0.010, +0.112]`` or ``+0.051 (too few groups)``."""
    return MISSING if found is None else f"{signed(found.mean)} {by_group(found.low, found.high)}"
