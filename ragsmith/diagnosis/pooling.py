"""Estimates of several data sets taken together, where each data set is a draw of what there could be.

The mean is weighted as DerSimonian and Laird (1986) do: by the inverse of the variance within the data set plus the
variance between data sets, estimated by moments. Its interval is of Hartung and Knapp (2001), by Student's t with one
degree of freedom less than data sets, and never narrower than the weights alone would have it (Röver, Knapp and Friede
2015): with three or four data sets the usual normal interval is far too narrow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ragsmith.evaluation.statistics import student_quantile

FEWEST = 2
"""Data sets without which there is nothing to pool."""


@dataclass(frozen=True, slots=True)
class PooledEstimate:
    """The mean over ``datasets`` data sets with its 95 % interval, and the standard deviation ``between`` them.

    ``agree`` of them have the sign of the mean, and in ``unchanged`` the estimate is 0.
    """

    mean: float
    low: float
    high: float
    between: float
    datasets: int
    agree: int
    unchanged: int

    @property
    def shown(self) -> bool:
        """Whether the interval is clear of 0."""
        return self.low > 0 or self.high < 0


def pooled(means: Sequence[float], errors: Sequence[float]) -> PooledEstimate | None:
    """Pool the mean and standard error of each data set; None of fewer than `FEWEST`.

    An error of 0 says that nothing differed on any question that was asked, and is not known better than that: it
    counts as large as those of the other data sets are on average, in variance.
    """
    if len(means) != len(errors):
        raise ValueError(f"pooled: {len(means)} means and {len(errors)} errors; give one of each for a data set")
    if len(means) < FEWEST:
        return None
    positive = [error**2 for error in errors if error > 0]
    usual = math.fsum(positive) / len(positive) if positive else 1.0
    within = [error**2 if error > 0 else usual for error in errors]
    between = _between(means, within)
    weights = [1.0 / (variance + between) for variance in within]
    total = math.fsum(weights)
    mean = math.fsum(weight * one for weight, one in zip(weights, means, strict=True)) / total
    k = len(means)
    spread = math.fsum(weight * (one - mean) ** 2 for weight, one in zip(weights, means, strict=True)) / (k - 1)
    if positive:
        spread = max(1.0, spread)
    reach = student_quantile(0.975, k - 1) * math.sqrt(spread / total)
    agree = sum((one > 0 and mean > 0) or (one < 0 and mean < 0) for one in means)
    return PooledEstimate(
        mean, mean - reach, mean + reach, math.sqrt(between), k, agree, sum(one == 0 for one in means)
    )


def _between(means: Sequence[float], within: Sequence[float]) -> float:
    """The variance between data sets by the method of moments."""
    weights = [1.0 / variance for variance in within]
    total = math.fsum(weights)
    fixed = math.fsum(weight * one for weight, one in zip(weights, means, strict=True)) / total
    q = math.fsum(weight * (one - fixed) ** 2 for weight, one in zip(weights, means, strict=True))
    scale = total - math.fsum(weight**2 for weight in weights) / total
    return max(0.0, (q - (len(means) - 1)) / scale)
