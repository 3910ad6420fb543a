"""How large an effect is, by the conventions of Cohen (1988): gates object to medium ones, not to all that is shown."""

from __future__ import annotations

from math import asin, pi, sin, sqrt

MEDIUM_H = 0.5
"""Difference of two shares p and q as h = 2 asin(sqrt(p)) - 2 asin(sqrt(q))."""

MEDIUM_AUC = 0.14
"""What a shift of half a standard deviation (d = 0.5) adds to the 0.50 that a pair is in order by chance."""


def shifted(share: float, h: float) -> float:
    """The share that is ``h`` above ``share``, at most 1."""
    angle = min(pi / 2, asin(sqrt(share)) + h / 2)
    return sin(angle) ** 2
