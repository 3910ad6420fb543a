"""How numbers are written, the same wherever they are shown."""

from __future__ import annotations

import re

from ragsmith.reporting.values import Coverage, Score

MISSING = "–"

WHOLE = re.compile(r"\[\S+, \S+\]|(?:p )?[=<] \d\S*|\(n \d+\)")
"""What is not torn apart at the end of a line."""


def plain(value: float | None, digits: int = 3) -> str:
    """``0.712``; a dash for what is not known."""
    return MISSING if value is None else f"{value:.{digits}f}"


def signed(value: float | None, digits: int = 3) -> str:
    """``+0.051``, ``−0.020`` with a minus sign, and ``0.000`` without any."""
    if value is None:
        return MISSING
    if round(value, digits) == 0:
        return f"{0:.{digits}f}"
    return f"{value:+.{digits}f}".replace("-", "−")


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


def by_group(low: float | None, high: float | None) -> str:
    """An interval of a difference by group of questions; or why there is none."""
    return "(too few groups)" if low is None or high is None else interval(low, high, sign=True)


def interval(low: float | None, high: float | None, *, sign: bool = False, digits: int = 3) -> str:
    """``[0.650, 0.771]``."""
    if low is None or high is None:
        return ""
    write = signed if sign else plain
    return f"[{write(low, digits)}, {write(high, digits)}]"


def mean(score: Score | None, *, sign: bool = False) -> str:
    """``0.712 [0.650, 0.771]``, or the mean alone where there is no interval; ``(n 67)`` if not of all questions."""
    if score is None:
        return MISSING
    value = signed(score.mean) if sign else plain(score.mean)
    counted = "" if score.n is None else f"(n {score.n})"
    return " ".join(part for part in (value, interval(score.low, score.high, sign=sign), counted) if part)


def coverage(found: Coverage) -> str:
    """``70 = 70 + 0``: attempted = scored + failed; what was not attempted is named."""
    text = f"{found.attempted} = {found.scored} + {found.failed}"
    left = found.questions - found.attempted
    return f"{text}, {left} not attempted" if left else text
