import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ragsmith.evaluation.statistics import (
    bootstrap_interval,
    holm,
    paired_test,
    student_quantile,
)

PVALUES = st.lists(st.integers(0, 100).map(lambda n: n / 100), max_size=8)


def test_the_interval_is_the_published_recipe() -> None:
    values = np.random.default_rng(5).random(37)
    resamples = np.random.default_rng(0).integers(0, 37, (10_000, 37))
    expected = np.percentile(values[resamples].mean(axis=1), [2.5, 97.5])
    assert bootstrap_interval(values) == pytest.approx(tuple(expected), abs=1e-12)


def test_a_large_sample_follows_the_same_recipe() -> None:
    values = np.random.default_rng(6).random(5_000)  # too large for the matrix that smaller samples share
    resamples = np.random.default_rng(3).integers(0, 5_000, (1_500, 5_000))
    expected = np.quantile(values[resamples].mean(axis=1), [0.05, 0.95])
    interval = bootstrap_interval(values, resamples=1_500, seed=3, level=0.9)
    assert interval == pytest.approx(tuple(expected), abs=1e-12)


def test_an_interval_of_equal_values_is_that_value() -> None:
    assert bootstrap_interval([0.1] * 7) == (0.1, 0.1)
    assert bootstrap_interval([0.3]) == (0.3, 0.3)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=1, max_size=9))
def test_p_is_the_share_of_all_sign_patterns(differences: list[int]) -> None:
    observed = abs(sum(differences))
    patterns = itertools.product((1, -1), repeat=len(differences))
    sums = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in patterns]
    result = paired_test([0.1 * d for d in differences], [0.0] * len(differences), resamples=50)
    assert result.p == pytest.approx(sum(s >= observed for s in sums) / len(sums))
    assert result.nonzero == sum(d != 0 for d in differences)


def test_many_differences_are_sampled_with_the_add_one_estimate() -> None:
    assert paired_test([1.0] * 40, [0.0] * 40, resamples=999).p == 1 / 1000
    # 13 of 21 with one sign: P(|heads - 10.5| >= 2.5) for 21 fair coins, from the binomial distribution
    a = [1.0] * 13 + [0.0] * 8
    exact = sum(math.comb(21, k) for k in range(22) if abs(k - 10.5) >= 2.5) / 2**21
    assert paired_test(a, [1 - value for value in a]).p == pytest.approx(exact, abs=0.015)


def test_a_comparison_reports_what_it_saw() -> None:
    a, b = [1.0, 0.5, 0.2, 0.9], [0.0, 0.5, 0.1, 1.0]
    result = paired_test(a, b)
    assert (result.n, result.nonzero) == (4, 3)
    assert result.mean_difference == pytest.approx(0.25)
    assert (result.low, result.high) == pytest.approx(bootstrap_interval([1.0, 0.0, 0.1, -0.1]))
    other = paired_test(b, a)
    assert (other.p, other.mean_difference) == (result.p, -result.mean_difference)


def test_rounding_errors_are_no_differences() -> None:
    result = paired_test([0.1 + 0.2] * 8, [0.3] * 8)
    assert (result.nonzero, result.p, result.low, result.high) == (0, 1.0, 0.0, 0.0)


def test_the_same_values_give_the_same_result() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.random(50), rng.random(50)
    first = paired_test(a, b, resamples=2_000)
    paired_test(b[:30], a[:30], resamples=2_000)
    assert paired_test(a, b, resamples=2_000) == first
    assert paired_test(a, b, resamples=2_000, seed=1) != first


def test_missing_values_do_not_vanish() -> None:
    for bad in (math.nan, math.inf):
        with pytest.raises(ValueError, match="value 1 is"):
            bootstrap_interval([0.5, bad])
        with pytest.raises(ValueError, match="paired_test: value 0 is"):
            paired_test([0.5], [bad])
    with pytest.raises(ValueError, match="3 values against 1"):
        paired_test([0.1, 0.2, 0.3], [0.1])
    with pytest.raises(ValueError, match="at least one question"):
        bootstrap_interval([])
    with pytest.raises(ValueError, match="level"):
        bootstrap_interval([0.5], level=95)


def holm_rejects(pvalues: list[float], alpha: float) -> set[int]:
    """Step down: smallest first, until one fails."""
    rejected: set[int] = set()
    for step, i in enumerate(sorted(range(len(pvalues)), key=lambda i: pvalues[i])):
        if pvalues[i] > alpha / (len(pvalues) - step):
            break
        rejected.add(i)
    return rejected


@settings(max_examples=80, deadline=None)
@given(pvalues=PVALUES, alpha=st.sampled_from([0.0123, 0.0511, 0.1017, 0.3019, 0.7013]))
def test_adjusted_values_reject_what_the_procedure_rejects(pvalues: list[float], alpha: float) -> None:
    adjusted = holm(pvalues)
    assert {i for i, p in enumerate(adjusted) if p <= alpha} == holm_rejects(pvalues, alpha)
    assert all(raw <= p <= 1 for raw, p in zip(pvalues, adjusted, strict=True))


@pytest.mark.parametrize("bad", [math.nan, -0.1, 1.1])
def test_what_is_not_a_p_value_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="is not a p-value"):
        holm([0.5, bad])


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 9, 30, 69, 200])
@pytest.mark.parametrize("probability", [0.01, 0.3, 0.5001, 0.9, 0.975, 0.999])
def test_students_quantile_agrees_with_scipy(probability: float, degrees: int) -> None:
    assert student_quantile(probability, degrees) == pytest.approx(stats.t.ppf(probability, degrees), rel=1e-8)


@pytest.mark.parametrize(("probability", "degrees"), [(0.0, 3), (1.0, 3), (0.9, 0)])
def test_a_quantile_that_is_none_is_refused(probability: float, degrees: int) -> None:
    with pytest.raises(ValueError, match="student_quantile"):
        student_quantile(probability, degrees)
