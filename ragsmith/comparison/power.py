"""What a test could have shown: the smallest difference, the questions it takes, and the chance of showing one.

With normal quantiles before there is a test (Cohen 1988), and with Student's, by the number of groups, once there is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean

from ragsmith.comparison.difference import least_p, widened
from ragsmith.evaluation.statistics import EXACT_UP_TO, student_quantile, student_share

LEVEL, POWER = 0.05, 0.8
"""Two-sided level and power: the convention of Cohen (1988), and what the verdict of a search tests at."""

REACH = NormalDist().inv_cdf(1 - LEVEL / 2) + NormalDist().inv_cdf(POWER)
"""Standard errors, 2.80, that a true difference must be away from 0 to be shown with this power."""


def variance(differences: Mapping[str, float], groups: Sequence[Sequence[str]]) -> float:
    """Variance that one question adds to the mean of ``differences``, by question, where ``groups`` stay together.

    It is n times the cluster-robust variance of the mean (Liang and Zeger 1986, with G/(G-1)):
    ``n * G/(G-1) * sum over g of (sum over i in g of d_i - mean)^2 / n^2``. With groups of one question it is the
    sample variance. Groups may name questions that have no difference.
    """
    mean = fmean(differences.values())
    sums = [
        math.fsum(differences[one] - mean for one in group if one in differences)
        for group in groups
        if any(one in differences for one in group)
    ]
    if len(sums) < 2:
        raise ValueError(f"the variance between {len(sums)} groups is not known: give two at least")
    return len(sums) / (len(sums) - 1) * math.fsum(total**2 for total in sums) / len(differences)


def needed(of_one: float, difference: float) -> int:
    """Questions that show a true ``difference`` four times in five, ``of_one`` being the `variance` of one."""
    return max(2, math.ceil(of_one * (REACH / difference) ** 2))


def detectable(of_one: float, questions: int) -> float:
    """The difference that so many ``questions`` show four times in five."""
    return REACH * math.sqrt(of_one / questions)


def attainable(level: float, groups: int) -> float:
    """The highest level up to ``level`` that sign flips of so many ``groups`` can test at; 0 where there is none.

    Their p is a multiple of 2 ** (1 - groups); where patterns are drawn it is never below `least_p`.
    """
    if groups > EXACT_UP_TO:
        return level if level >= least_p(groups) else 0.0
    patterns = 2.0 ** (groups - 1)
    return math.floor(level * patterns + 1e-9) / patterns


def smallest(
    error: float, groups: int, level: float, power: float = POWER, *, effective: float | None = None
) -> float | None:
    """The smallest true difference that is shown at a two-sided ``level`` with this ``power``.

    ``error`` is the standard error of the mean by group, and ``effective`` the number of groups of one size that tell
    as much (`ragsmith.comparison.difference`). None where no difference could be shown.
    """
    tested = attainable(level, groups) if groups > 1 else 0.0
    if not tested:
        return None
    wide, degrees = widened(error, groups, effective)
    return wide * (student_quantile(1 - tested / 2, degrees) + student_quantile(power, degrees))


def chance(difference: float, error: float, groups: int, level: float, *, effective: float | None = None) -> float:
    """The power: how probable it is that a true ``difference`` is shown, on its own side, at a two-sided ``level``."""
    tested = attainable(level, groups) if groups > 1 else 0.0
    if not tested:
        return 0.0
    if not error:
        return float(difference != 0)
    wide, degrees = widened(error, groups, effective)
    return student_share(abs(difference) / wide - student_quantile(1 - tested / 2, degrees), degrees)
