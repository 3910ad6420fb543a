"""Means of people's marks, sharpened by the judge's scores (PPI++; Angelopoulos, Duchi and Zrnic 2023).

People mark a random sample of ``n`` questions, and the judge scores these and ``N`` others. With marks *y* and scores
*f*, the estimate is

    mean(y) + lambda * (mean of f over the others - mean of f over the sample)

for any lambda without the judge's bias, which the sample cancels. The lambda with the least variance is
``cov(y, f) / ((1 + n / N) * var(f))``, estimated from the sample and clipped to [0, 1]: a judge that does not follow
people's marks gets no weight, and the estimate is their mean.

The normal interval of the paper is for large samples of independent questions. For samples from 30 and groups of
questions, two things differ. The variance is that of the jackknife that leaves out whole groups, marked and unmarked
questions alike, and estimates lambda anew each time (Miller 1974); groups with and without marks are two samples. The
interval is the score interval of a share (Wilson 1927) of as many questions as have this variance, since means near the
end of their range are skewed, at the quantile of Student's t with the effective number of groups of the sample (Kish
1965), minus 1. Coverage in simulated worlds is in docs/verdicts.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from ragsmith.comparison.difference import effective_groups
from ragsmith.evaluation.statistics import Vector, student_quantile
from ragsmith.measures.judge_calibration import wilson_interval


@dataclass(frozen=True, slots=True)
class PoweredMean:
    """A mean over all questions with its interval of 95 %, from ``n`` questions that people marked.

    ``weight`` is that of the judge's scores, the lambda of PPI++, from 0 to 1.
    """

    mean: float
    low: float
    high: float
    n: int
    weight: float


def estimate_powered_mean(
    marks: ArrayLike, scores: ArrayLike, groups: Sequence[int], *, lowest: float = 0.0
) -> PoweredMean:
    """Estimate the mean of ``marks`` over all questions, of which only some are marked.

    ``marks[i]`` is in [``lowest``, 1], or NaN for a question that is not marked, ``scores[i]`` the judge's score, and
    ``groups[i]`` the group of question i. For differences of two pipelines ``lowest`` is -1. With scores of 0 it is
    the mean of the marks alone.

    If the groups do not differ, their variance is unknown. The interval then has the distance by which the largest
    share of other marks that a sample of so many groups misses with probability 0.025 would move the mean (Clopper
    and Pearson 1934).

    Raises:
        ValueError: the marked questions are in fewer than two groups.
    """
    marked, judged = np.asarray(marks, dtype=np.float64), np.asarray(scores, dtype=np.float64)
    known = np.isfinite(marked)
    seen, values = known.astype(np.float64), np.where(known, marked, 0.0)
    _, places = np.unique(np.asarray(groups), return_inverse=True)
    rows = (seen, values, seen * judged, values * judged, seen * judged**2, np.ones(len(judged)), judged)
    sums = np.array([np.bincount(places, part) for part in rows])
    sizes = sums[0][sums[0] > 0]
    if len(sizes) < 2:
        raise ValueError(f"estimate_powered_mean: marks in {len(sizes)} groups; give marks in two groups at least")
    total = sums.sum(axis=1, keepdims=True)
    means, weights = _combine(np.hstack([total, total - sums]))
    mean = min(1.0, max(lowest, float(means[0])))
    effective, width = effective_groups(sizes), 1 - lowest
    parts = [means[1:][part] for part in (sums[0] > 0, sums[0] == 0) if part.any()]
    variance = sum((len(part) - 1) * float(part.var()) for part in parts) / width**2
    if variance < 1e-12:
        reach = (1 - 0.025 ** (1 / effective)) * max(1 - mean, mean - lowest)
        low, high = max(lowest, mean - reach), min(1.0, mean + reach)
    else:
        share = min(1 - 0.5 / effective, max(0.5 / effective, (mean - lowest) / width))
        quantile = student_quantile(0.975, max(1, round(effective) - 1))
        low, high = (lowest + width * end for end in wilson_interval(share, share * (1 - share) / variance, quantile))
    return PoweredMean(mean, min(low, mean), max(high, mean), int(known.sum()), float(weights[0]))


def _combine(sums: Vector) -> tuple[Vector, Vector]:
    """Return the estimate and its weight for each column of sums.

    The rows are the number of marked questions, the sums of *y*, *f*, *yf* and *ff* over them, the number of all
    questions and the sum of *f* over these.
    """
    n, y, f, yf, ff, count, every_f = sums
    spread = ff - f**2 / n
    slope = np.divide(yf - y * f / n, spread, out=np.zeros_like(n), where=spread > 1e-9 * n)
    weight = np.clip(slope * (count - n) / count, 0.0, 1.0)  # 1 / (1 + n / N), where N = count - n
    return y / n + weight * ((every_f - f) / np.maximum(count - n, 1) - f / n), weight
