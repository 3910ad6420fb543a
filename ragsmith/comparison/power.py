"""The power of tests: the smallest detectable difference, and the number of questions and the power for a difference.

Quantiles are normal before a test (Cohen 1988), and Student's, by the number of groups, after it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist, fmean

from ragsmith.comparison.difference import least_p, widened
from ragsmith.evaluation.statistics import EXACT_UP_TO, student_quantile, student_share

LEVEL, POWER = 0.05, 0.8
"""Two-sided level and power: the convention of Cohen (1988), and the level of verdicts."""

REACH = NormalDist().inv_cdf(1 - LEVEL / 2) + NormalDist().inv_cdf(POWER)
"""Standard errors, 2.80, between 0 and a true difference that is shown with this power."""


def variance(differences: Mapping[str, float], groups: Sequence[Sequence[str]]) -> float:
    """The variance of one question for the mean of ``differences``, with correlation within ``groups``.

    It is n times the cluster-robust variance of the mean (Liang and Zeger 1986, with G/(G-1)):
    ``n * G/(G-1) * sum over g of (sum over i in g of d_i - mean)^2 / n^2``. With groups of one question it is the
    sample variance. Questions without a difference are ignored.
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
    """The number of questions that show a true ``difference`` with power 0.8; ``of_one`` is the `variance` of one."""
    return max(2, math.ceil(of_one * (REACH / difference) ** 2))


def detectable(of_one: float, questions: int) -> float:
    """The difference that ``questions`` show with power 0.8."""
    return REACH * math.sqrt(of_one / questions)


def attainable(level: float, groups: int) -> float:
    """The highest level up to ``level`` that sign flips of ``groups`` can attain; 0 if there is none.

    Their p is a multiple of 2 ** (1 - groups), or at least `least_p` if patterns are drawn.
    """
    if groups > EXACT_UP_TO:
        return level if level >= least_p(groups) else 0.0
    patterns = 2.0 ** (groups - 1)
    return math.floor(level * patterns + 1e-9) / patterns


def smallest(
    error: float, groups: int, level: float, power: float = POWER, *, effective: float | None = None
) -> float | None:
    """The smallest true difference that is shown at a two-sided ``level`` with this ``power``; None if none is.

    ``error`` is the standard error of the mean by group, ``effective`` the effective number of groups.
    """
    tested = attainable(level, groups) if groups > 1 else 0.0
    if not tested:
        return None
    wide, degrees = widened(error, groups, effective)
    return wide * (student_quantile(1 - tested / 2, degrees) + student_quantile(power, degrees))


def chance(difference: float, error: float, groups: int, level: float, *, effective: float | None = None) -> float:
    """The power: the probability that a true ``difference`` is shown, with its sign, at a two-sided ``level``."""
    tested = attainable(level, groups) if groups > 1 else 0.0
    if not tested:
        return 0.0
    if not error:
        return float(difference != 0)
    wide, degrees = widened(error, groups, effective)
    return student_share(abs(difference) / wide - student_quantile(1 - tested / 2, degrees), degrees)
