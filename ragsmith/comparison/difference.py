"""The difference between two pipelines on the same questions: interval, test and power by group of questions.

Questions of a group are not independent, so whole groups are resampled, and whole groups change their sign. Power is
simulated, with the test and the number of groups that there are.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragsmith.caches import bounded_cache
from ragsmith.evaluation.statistics import (
    MAX_EXACT_DIFFERENCES,
    Vector,
    paired_differences,
    resample_counts,
    sign_flip_p,
    student_quantile,
)

RESAMPLES = 10_000
"""Number of bootstrap resamples, and of random sign patterns."""

_CELLS = 4_000_000  # of a matrix of resamples, 32 MB; for more groups, it is made in blocks
_SHARED_CELLS = 128_000_000  # of a matrix that comparisons share, a byte each: 12,800 groups
_ROWS = 16  # of the shared matrix that are processed at once, as they fit into the cache of a processor


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference, first minus second, of two pipelines on ``n`` questions in ``groups``.

    ``low`` and ``high`` bound the mean difference (95 %, bootstrap by group), ``error`` is its standard error by group,
    and ``p`` is two-sided (sign flips by group) and raw. ``nonzero`` counts the questions on which the two differ, and
    ``telling`` the groups whose sums are not 0, which determine the least possible p (`min_p`). ``effective`` is the
    effective number of groups (Kish 1965: ``n ** 2 / sum of squared sizes``).
    """

    n: int
    mean_difference: float
    low: float
    high: float
    p: float
    nonzero: int
    groups: int
    telling: int
    error: float
    effective: float = 1.0

    @property
    def corrected_error(self) -> tuple[float, int]:
        """The error corrected for groups of different sizes, and its degrees of freedom: `corrected_error`."""
        return corrected_error(self.error, self.groups, self.effective)


def min_p(groups: int) -> float:
    """Return the least possible p of sign flips of ``groups``: 2 ** (1 - groups), or that of the patterns drawn."""
    return 2.0 ** (1 - groups) if groups <= MAX_EXACT_DIFFERENCES else 1 / (RESAMPLES + 1)


def corrected_error(error: float, groups: int, effective: float | None = None) -> tuple[float, int]:
    """Return a standard error corrected by G / (G - 1) at the ``effective`` G, and its degrees of freedom."""
    if effective is None or effective <= 1:
        return error, max(1, groups - 1)
    wider = effective / (effective - 1) / (groups / (groups - 1))
    return error * math.sqrt(wider), max(1, round(effective) - 1)


def compute_difference(a: ArrayLike, b: ArrayLike, groups: Sequence[int], *, seed: int = 0) -> Difference:
    """Compare two pipelines by their scores ``a[i]`` and ``b[i]`` on question i of the group ``groups[i]``.

    The test flips the signs of the sums of groups (Fisher 1935, by cluster), exactly for up to 20. The interval is that
    of `cluster_interval`.
    """
    each = paired_differences(a, b, "compute_difference")
    sums, sizes = _sum_by_group(each, groups)
    low, high = cluster_interval(each, groups, seed=seed)
    return Difference(
        len(each),
        float(each.mean()),
        low,
        high,
        sign_flip_p(sums, resamples=RESAMPLES, seed=seed),
        int((each != 0).sum()),
        len(sums),
        int((sums != 0).sum()),
        _cluster_error(sums, sizes),
        effective_groups(sizes),
    )


def noninferiority_p(a: ArrayLike, b: ArrayLike, groups: Sequence[int], margin: float, *, seed: int = 0) -> float:
    """Return the two-sided p of the difference plus ``margin``, which tests that the first is not behind by as much.

    It is 1 if the first is behind by more.
    """
    sums, _ = _sum_by_group(paired_differences(a, b, "noninferiority_p") + margin, groups)
    return sign_flip_p(sums, resamples=RESAMPLES, seed=seed) if sums.sum() > 0 else 1.0


def cluster_interval(
    values: ArrayLike, groups: Sequence[int], *, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Return an interval of the mean of ``values`` from resamples of whole groups.

    It is the percentile interval at a level that corrects its narrowness for few groups: the quantiles of Student's t,
    times sqrt(G / (G - 1)), as those of a normal distribution (Hesterberg 2015, "expanded percentile"), where G is the
    effective number of groups (see `Difference`). For one group it is the range of the values.
    """
    each = np.asarray(values, dtype=np.float64)
    sums, sizes = _sum_by_group(each, groups)
    count = len(sums)
    if count < 2:
        return float(each.min()), float(each.max())
    if each.min() == each.max():
        return float(each[0]), float(each[0])
    effective = effective_groups(sizes)
    degrees = max(1, round(effective) - 1)
    reach = math.sqrt(effective / max(effective - 1, 0.5)) * student_quantile((1 + level) / 2, degrees)
    tail = NormalDist().cdf(-reach)
    low, high = np.quantile(_resampled_means(sums, sizes, seed), [tail, 1 - tail])
    return float(low), float(high)


def _resampled_means(sums: Vector, sizes: Vector, seed: int) -> Vector:
    """Return the mean over questions of each resample of groups."""
    count = len(sums)
    if count * RESAMPLES <= _CELLS:
        counts = resample_counts(count, RESAMPLES, seed)
        means: Vector = np.einsum("ij,j->i", counts, sums) / np.einsum("ij,j->i", counts, sizes)
        return means
    if count * RESAMPLES > _SHARED_CELLS:
        return np.concatenate([sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1) for drawn in _drawn(count, seed)])
    shared, found, block = _shared_counts(count, seed), np.empty(RESAMPLES), np.empty((_ROWS, count))
    for begin in range(0, RESAMPLES, _ROWS):
        of_block = block[: RESAMPLES - begin]
        np.copyto(of_block, shared[begin : begin + _ROWS])
        found[begin : begin + _ROWS] = np.einsum("ij,j->i", of_block, sums) / np.einsum("ij,j->i", of_block, sizes)
    return found


def _drawn(count: int, seed: int) -> Iterator[NDArray[np.int64]]:
    """Yield the groups of each resample, in blocks of resamples."""
    rng = np.random.default_rng(seed)
    rows = max(1, _CELLS // count)
    for begin in range(0, RESAMPLES, rows):
        yield rng.integers(0, count, (min(rows, RESAMPLES - begin), count))


@bounded_cache(1, key="a number of questions and a seed")
def _shared_counts(count: int, seed: int) -> NDArray[np.uint8]:
    """Return the counts of each group in each resample, shared by all comparisons of as many groups.

    A byte is enough: one of a thousand groups is never drawn 256 times.
    """
    counts = np.empty((RESAMPLES, count), dtype=np.uint8)
    rows = (row for block in _drawn(count, seed) for row in block)
    for place, row in enumerate(rows):
        counts[place] = np.bincount(row, minlength=count)
    counts.flags.writeable = False
    return counts


def _sum_by_group(each: Vector, groups: Sequence[int]) -> tuple[Vector, Vector]:
    """Return the sum, 0 if it is a rounding error, and the number of questions of each group."""
    if len(groups) != len(each):
        raise ValueError(
            f"compute_difference: {len(groups)} groups for {len(each)} questions; give the group of each question"
        )
    _, places = np.unique(np.asarray(groups), return_inverse=True)
    sums = np.bincount(places, each).astype(np.float64)
    sums[np.abs(sums) <= 1e-12 * np.bincount(places, np.abs(each))] = 0.0
    return sums, np.bincount(places).astype(np.float64)


def effective_groups(sizes: ArrayLike) -> float:
    """Return the effective number of groups of these ``sizes``, or weights (Kish 1965)."""
    each = np.asarray(sizes, dtype=np.float64)
    return float(each.sum() ** 2 / (each**2).sum())


def _cluster_error(sums: Vector, sizes: Vector) -> float:
    """Return the standard error of the mean by group (Liang and Zeger 1986, with G/(G-1)); 0 for one group."""
    count, n = len(sums), sizes.sum()
    if count < 2:
        return 0.0
    residuals = sums - sizes * (sums.sum() / n)
    return float(math.sqrt(count / (count - 1) * (residuals**2).sum()) / n)


POWER = 0.8
"""The power of "shows a difference": the convention of Cohen (1988)."""


def cluster_variance(differences: Mapping[str, float], groups: Sequence[Sequence[str]]) -> float:
    """Return the variance of one question for the mean of ``differences``, with correlation within ``groups``.

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


WORLDS = 500
"""Number of simulated worlds for `Power`."""

_ENUMERATED = 12  # groups whose sign patterns are all used: 2,048


class Power:
    """The power of the test of `difference` at a two-sided ``level``, against a shift of every question.

    No formula fits: with few groups, nearly all of them have to agree. So worlds are simulated. Each has as many groups
    as there are, or ``count``; these are the observed groups, centred, drawn with replacement and smoothed by a normal
    kernel of Silverman's bandwidth, 1.06 G ** -0.2 (Silverman and Young 1987). The spread of each world is drawn too,
    from its distribution given the observed one (chi-square with G - 1 degrees of freedom), as few groups leave it
    open: the mean of the power over it is what a reader may expect. G is the effective number of groups, which also
    corrects the spread by ``G / (G - 1)``.
    """

    def __init__(
        self, differences: ArrayLike, groups: Sequence[int], level: float, *, count: int | None = None, seed: int = 0
    ) -> None:
        each = np.asarray(differences, dtype=np.float64)
        sums, sizes = _sum_by_group(each, groups)
        effective = max(effective_groups(sizes), 1.5)
        residuals = (sums - sizes * each.mean()) * math.sqrt(effective / (effective - 1))
        self._count = count or len(sums)
        self._level = level if level >= min_p(self._count) else 0.0
        rng = np.random.default_rng(seed)
        drawn = rng.integers(0, len(sums), (WORLDS, self._count))
        self._sizes, bandwidth = sizes[drawn], 1.06 * len(sums) ** -0.2
        kernel = math.sqrt((residuals**2).sum() / (sizes**2).sum()) * self._sizes * rng.standard_normal(drawn.shape)
        smoothed = (residuals[drawn] + bandwidth * kernel) / math.hypot(1, bandwidth)
        self._sums = smoothed * np.sqrt((effective - 1) / rng.chisquare(max(1.0, effective - 1), (WORLDS, 1)))
        exact = self._count <= _ENUMERATED
        patterns = min(RESAMPLES, max(1_000, math.ceil(20 / level)))  # p next to the level is then precise enough
        signs = _all_signs(self._count) if exact else rng.integers(0, 2, (patterns, self._count)) * 2.0 - 1.0
        # The sum of a pattern is linear in the shift, so two matrices serve all shifts.
        self._fixed, self._by_shift = self._sums @ signs.T, self._sizes @ signs.T
        self._extra = 0 if exact else 1

    def at(self, shift: float, *, above: float = 0.0) -> float:
        """Return the probability that a true ``shift`` is shown, with an observed mean difference above ``above``."""
        total = self._sums.sum(axis=1) + shift * self._sizes.sum(axis=1)
        reached = np.abs(self._fixed + shift * self._by_shift) >= (np.abs(total) * (1 - 1e-9))[:, None]
        p = (reached.sum(axis=1) + self._extra) / (reached.shape[1] + self._extra)
        return float(((p <= self._level + 1e-12) & (total > above * self._sizes.sum(axis=1))).mean())

    def smallest(self, power: float = POWER, *, above: float = 0.0) -> float | None:
        """Return the smallest true difference that is shown with this ``power``; None if none is."""
        if not self._level or self._count < 2:
            return None
        scale = float(np.abs(self._sums).sum() / self._sizes.sum())
        if not scale:
            return above
        high = scale
        while self.at(high, above=above) < power:
            high *= 2
            if high > 1e6 * scale + above:
                return None
        low = 0.0
        while high - low > 0.005 * high:  # the worlds leave more than that open
            middle = (low + high) / 2
            low, high = (middle, high) if self.at(middle, above=above) < power else (low, middle)
        return high


@bounded_cache(16, key="a number of groups")
def _all_signs(count: int) -> NDArray[np.float64]:
    """Return every pattern of ``count`` signs but for a common sign, shape ``(2 ** (count - 1), count)``."""
    rest = (np.arange(2 ** (count - 1))[:, None] >> np.arange(count - 1)) & 1
    return np.hstack([np.ones((len(rest), 1)), rest * 2.0 - 1.0])


def most_dissenting(groups: int, level: float) -> int | None:
    """Return how many of ``groups`` of equal sums may be on the other side where p is at most ``level``; None if none.

    The p of sign flips is then that of the sign test, ``2 * sum over i <= k of C(groups, i) / 2 ** groups``.
    """
    tail, found = 0.0, None
    for dissenting in range((groups + 1) // 2):
        tail += math.comb(groups, dissenting) * 2.0 ** (1 - groups)
        if tail > level + 1e-12:
            break
        found = dissenting
    return found
