"""Statistics of paired differences: intervals, paired tests, and corrections for multiple comparisons.

All functions take one value for each question. A value that is not finite raises an error and is never left out, so the
caller decides which questions count. All randomness comes from ``seed``, so the same values give the same result.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragsmith.caches import bounded_cache

Vector = NDArray[np.float64]

MAX_EXACT_DIFFERENCES = 20
"""Maximum number of non-zero differences whose sign patterns are enumerated; for more, patterns are sampled."""

MIN_DIFFERENCES = 6
"""Minimum number of differences for a test: with five, the smallest two-sided p is 2**(1 - 5) = 0.06."""

_CACHED_CELLS = 4_000_000  # of a matrix of resamples: 32 MB, 400 questions × 10,000
_SIGN_BLOCK_CELLS = 160_000  # of a block of signs that fits into the cache of a processor


class Verdict(StrEnum):
    """Verdicts on the first pipeline of a pair."""

    BETTER = "better"
    WORSE = "worse"
    NOT_WORSE = "not worse"
    NO_DIFFERENCE = "no difference shown"
    TOO_FEW = "too few questions"


@dataclass(frozen=True, slots=True)
class PairedTest:
    """Comparison of two pipelines on the same ``n`` questions; differences are first minus second.

    ``low`` and ``high`` bound the mean difference (bootstrap), ``p`` is two-sided (sign flips) and raw, ``nonzero``
    counts the questions on which the two differ.
    """

    n: int
    mean_difference: float
    low: float
    high: float
    p: float
    nonzero: int


def bootstrap_interval(
    values: ArrayLike, *, resamples: int = 10_000, seed: int = 0, level: float = 0.95
) -> tuple[float, float]:
    """Return the percentile interval of the mean of ``values`` (Efron 1979)."""
    sample = _to_finite_array(values, "bootstrap_interval")
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"bootstrap_interval: level {level} has to lie between 0 and 1, resamples {resamples} above 0")
    if sample.min() == sample.max():
        return float(sample[0]), float(sample[0])
    tail = (1 - level) / 2
    low, high = np.quantile(resampled_means(sample, resamples, seed), [tail, 1 - tail])
    return float(low), float(high)


def paired_test(
    a: ArrayLike, b: ArrayLike, *, resamples: int = 10_000, seed: int = 0, level: float = 0.95
) -> PairedTest:
    """Compare two pipelines question by question; ``a[i]`` and ``b[i]`` belong to the same question.

    The test flips the signs of the differences (Fisher 1935): exact up to 20 that are not zero, else by ``resamples``
    random patterns with the add-one estimate (Phipson and Smyth 2010). The interval is ``bootstrap_interval``'s.
    """
    differences = paired_differences(a, b, "paired_test")
    low, high = bootstrap_interval(differences, resamples=resamples, seed=seed, level=level)
    p = sign_flip_p(differences, resamples=resamples, seed=seed)
    nonzero = int(np.count_nonzero(differences))
    return PairedTest(len(differences), float(differences.mean()), low, high, p, nonzero)


def sign_flip_test(a: ArrayLike, b: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> float:
    """Return the p of `paired_test` alone."""
    return sign_flip_p(paired_differences(a, b, "sign_flip_test"), resamples=resamples, seed=seed)


@bounded_cache(1024, key="a probability and degrees of freedom")
def student_quantile(probability: float, degrees: int) -> float:
    """Return a quantile of Student's t with ``degrees`` of freedom.

    Computed by bisection of the distribution function (Abramowitz and Stegun 26.7.3 and 26.7.4, exact for integers).
    """
    if not 0 < probability < 1 or degrees < 1:
        raise ValueError(f"student_quantile: {probability} has to lie between 0 and 1, degrees {degrees} above 0")
    if probability < 0.5:
        return -student_quantile(1 - probability, degrees)
    low, high = 0.0, 1.0
    while student_cdf(high, degrees) < probability:
        low, high = high, 2 * high
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, degrees) < probability else (low, middle)
    return high


def mean_upper_bound(values: Sequence[float], *, level: float = 0.95) -> float:
    """Return the upper end of a one-sided Student interval of the mean of at least two ``values``."""
    sample = _to_finite_array(values, "mean_upper_bound")
    error = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    return float(sample.mean()) + student_quantile(level, len(sample) - 1) * error


def student_cdf(t: float, degrees: int) -> float:
    """Return the distribution function of Student's t with ``degrees`` of freedom at ``t``."""
    if t < 0:
        return 1 - student_cdf(-t, degrees)
    theta = math.atan(t / math.sqrt(degrees))
    term = math.cos(theta) if degrees % 2 else 1.0
    total = 0.0 if degrees == 1 else term
    for j in range(3 if degrees % 2 else 2, degrees - 1, 2):
        term *= math.cos(theta) ** 2 * (j - 1) / j
        total += term
    between = math.sin(theta) * total
    return (1 + (2 / math.pi * (theta + between) if degrees % 2 else between)) / 2


def holm(pvalues: Sequence[float]) -> tuple[float, ...]:
    """Return p-values adjusted by Holm (1979), in the order given; ``<= alpha`` bounds the chance of a false claim."""
    raw = _to_probabilities(pvalues, "holm")
    order = np.argsort(raw, kind="stable")
    factors = np.arange(len(raw), 0, -1)  # reject while p_(i) <= alpha / (m - i + 1)
    adjusted = np.empty_like(raw)
    adjusted[order] = np.minimum(np.maximum.accumulate(raw[order] * factors), 1.0)
    return tuple(adjusted.tolist())


def paired_differences(a: ArrayLike, b: ArrayLike, where: str) -> Vector:
    """Return first minus second, 0 if they differ by rounding only; ``where`` names the caller in an error."""
    first, second = _to_finite_array(a, where), _to_finite_array(b, where)
    if len(first) != len(second):
        raise ValueError(f"{where}: {len(first)} values against {len(second)}; give both pipelines the same questions")
    differences = first - second
    # A rounding error must not count as evidence for its sign.
    differences[np.abs(differences) <= 1e-12 * np.maximum(np.abs(first), np.abs(second))] = 0.0
    return differences


def sign_flip_p(differences: ArrayLike, *, resamples: int = 10_000, seed: int = 0) -> float:
    """Return the two-sided p of the sign-flip test of ``differences``.

    It is the share of sign patterns whose sum is at least as far from 0 as the observed one.
    """
    sample = _to_finite_array(differences, "sign_flip_p")
    nonzero = sample[sample != 0]
    if not len(nonzero):
        return 1.0
    # Mathematically equal sums may differ by rounding, and have to be counted.
    observed = abs(nonzero.sum()) - 1e-12 * np.abs(nonzero).sum()
    if len(nonzero) <= MAX_EXACT_DIFFERENCES:
        sums = nonzero[:1]  # the first sign is fixed: a pattern and its opposite are equally far from 0
        for difference in nonzero[1:]:
            sums = np.concatenate((sums + difference, sums - difference))
        return float((np.abs(sums) >= observed).mean())
    rng = np.random.default_rng(seed)
    hits, n = 0, len(nonzero)
    at_once = max(1, _SIGN_BLOCK_CELLS // n)
    signs = np.empty((at_once, n))
    for rows in _block_sizes(resamples, n):
        drawn = rng.integers(0, 2, (rows, n), dtype=np.int8)
        for begin in range(0, rows, at_once):
            part = signs[: rows - begin]
            np.multiply(drawn[begin : begin + at_once], 2.0, out=part)
            np.subtract(part, 1.0, out=part)
            hits += int((np.abs(np.einsum("ij,j->i", part, nonzero)) >= observed).sum())
    return (hits + 1) / (resamples + 1)


def resampled_means(sample: Vector, resamples: int, seed: int) -> Vector:
    """Return the mean of each resample of ``sample``."""
    n = len(sample)
    if n * resamples <= _CACHED_CELLS:
        means: Vector = np.einsum("ij,j->i", resample_counts(n, resamples, seed), sample) / n
        return means
    rng = np.random.default_rng(seed)
    return np.concatenate([sample[rng.integers(0, n, (rows, n))].mean(axis=1) for rows in _block_sizes(resamples, n)])


@bounded_cache(6, key="numbers of values and resamples, and a seed")
def resample_counts(n: int, resamples: int, seed: int) -> Vector:
    """Return how often each resample draws each of ``n`` values, shape ``(resamples, n)``; shared, so read-only."""
    drawn = np.random.default_rng(seed).integers(0, n, (resamples, n))
    cells = (drawn + n * np.arange(resamples)[:, None]).ravel()
    counts = np.bincount(cells, minlength=n * resamples).reshape(resamples, n).astype(np.float64)
    counts.flags.writeable = False
    return counts


def _block_sizes(resamples: int, n: int) -> list[int]:
    """Cut ``resamples`` rows of ``n`` cells into blocks that fit in memory; the random stream runs through them."""
    rows = max(1, _CACHED_CELLS // n)
    return [min(rows, resamples - done) for done in range(0, resamples, rows)]


def _to_finite_array(values: ArrayLike, where: str) -> Vector:
    array = np.array(values, dtype=np.float64)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{where}: the values have shape {array.shape}; give one for each of at least one question")
    if not np.isfinite(array).all():
        place = int(np.flatnonzero(~np.isfinite(array))[0])
        raise ValueError(
            f"{where}: value {place} is {array[place]}; score the question, or leave it out of both pipelines"
        )
    return array


def _to_probabilities(pvalues: Sequence[float], where: str) -> Vector:
    array = np.array(pvalues, dtype=np.float64)
    bad = array[~((array >= 0) & (array <= 1))]
    if bad.size:
        raise ValueError(f"{where}: {bad[0]} is not a p-value; give numbers between 0 and 1")
    return array
