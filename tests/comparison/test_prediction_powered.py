"""PPI++ for means of marks, against the formulas of the paper and of textbooks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from ragsmith.comparison.prediction_powered import estimate_powered_mean

Y = [1.0, 0.5, 0.0, 1.0, 1.0, 0.0, 0.5, 1.0]
F = [0.75, 0.75, 0.25, 1.0, 0.5, 0.25, 0.25, 1.0]
OTHERS = [1.0, 1.0, 0.75, 0.5, 0.25, 0.75, 1.0, 0.0, 0.5, 0.75, 1.0, 0.25]
NOT_MARKED = [np.nan] * len(OTHERS)


def ppi_plus_plus(y: list[float], f: list[float], others: list[float]) -> tuple[float, float]:
    """Equation (2) of the paper with lambda of its example 6.1, for a mean; and lambda."""
    if not others:
        return float(np.mean(y)), 0.0
    slope = np.cov(y, f)[0, 1] / np.var(f, ddof=1)
    weight = float(np.clip(slope / (1 + len(y) / len(others)), 0, 1))
    return float(np.mean(y) + weight * (np.mean(others) - np.mean(f))), weight


def without(values: list[float], place: int) -> list[float]:
    return [value for at, value in enumerate(values) if at != place]


def test_the_mean_is_that_of_the_paper() -> None:
    found = estimate_powered_mean(Y + NOT_MARKED, F + OTHERS, range(20))
    mean, weight = ppi_plus_plus(Y, F, OTHERS)
    assert (found.mean, found.weight, found.n) == (pytest.approx(mean), pytest.approx(weight), 8)
    assert 0.5 < weight < 1


def test_the_interval_is_a_score_interval_with_the_variance_of_the_jackknife() -> None:
    found = estimate_powered_mean(Y + NOT_MARKED, F + OTHERS, range(20))
    left_out = [ppi_plus_plus(without(Y, at), without(F, at), OTHERS)[0] for at in range(8)]
    others_left_out = [ppi_plus_plus(Y, F, without(OTHERS, at))[0] for at in range(12)]
    samples = (left_out, others_left_out)
    variance = sum((len(s) - 1) / len(s) * sum((one - np.mean(s)) ** 2 for one in s) for s in samples)
    count = found.mean * (1 - found.mean) / variance
    alpha = 2 * stats.norm.sf(stats.t.ppf(0.975, 7))
    expected = proportion_confint(found.mean * count, count, alpha=alpha, method="wilson")
    assert (found.low, found.high) == pytest.approx(expected)


def test_without_the_judge_it_is_the_classical_mean_with_its_variance() -> None:
    found = estimate_powered_mean(Y + NOT_MARKED, np.zeros(20), range(20))
    variance = np.var(Y, ddof=1) / 8
    count = found.mean * (1 - found.mean) / variance
    alpha = 2 * stats.norm.sf(stats.t.ppf(0.975, 7))
    assert (found.mean, found.weight) == (pytest.approx(np.mean(Y)), 0)
    expected = proportion_confint(found.mean * count, count, alpha=alpha, method="wilson")
    assert (found.low, found.high) == pytest.approx(expected)


def test_a_judge_against_people_has_no_weight() -> None:
    found = estimate_powered_mean(Y + NOT_MARKED, 1 - np.array(F + OTHERS), range(20))
    assert found == estimate_powered_mean(Y + NOT_MARKED, np.zeros(20), range(20))


def test_a_perfect_judge_gives_the_mean_of_all_and_a_narrow_interval() -> None:
    rng = np.random.default_rng(0)
    true = rng.choice([0, 0.5, 1], 400)
    marks = np.where(np.arange(400) < 40, true, np.nan)
    found, alone = (estimate_powered_mean(marks, scores, range(400)) for scores in (true, 0 * true))
    assert (found.mean, found.weight) == (pytest.approx(true.mean()), pytest.approx(360 / 400))
    assert found.high - found.low < 0.4 * (alone.high - alone.low)


def test_a_constant_bias_of_the_judge_changes_nothing() -> None:
    plain, kind = (estimate_powered_mean(Y + NOT_MARKED, np.array(F + OTHERS) + more, range(20)) for more in (0, 0.3))
    assert (kind.mean, kind.low, kind.high) == pytest.approx((plain.mean, plain.low, plain.high))


def test_questions_of_a_group_count_as_one() -> None:
    once = estimate_powered_mean(Y + NOT_MARKED, F + OTHERS, range(20))
    groups = [*range(20)] * 3
    thrice = estimate_powered_mean((Y + NOT_MARKED) * 3, (F + OTHERS) * 3, groups)
    assert (thrice.mean, thrice.low, thrice.high) == pytest.approx((once.mean, once.low, once.high))
    assert thrice.n == 24
    apart = estimate_powered_mean((Y + NOT_MARKED) * 3, (F + OTHERS) * 3, range(60))
    assert apart.high - apart.low < 0.7 * (once.high - once.low)


def test_equal_marks_have_the_bound_of_clopper_and_pearson() -> None:
    found = estimate_powered_mean([1.0] * 30 + [np.nan] * 5, np.linspace(0, 1, 35), range(35))
    low, high = proportion_confint(30, 30, method="beta")
    assert (found.mean, found.low, found.high) == (1, pytest.approx(low), high)
    same = estimate_powered_mean([0.0] * 30, np.linspace(-1, 1, 30), range(30), lowest=-1.0)
    assert (same.mean, same.high) == (0, pytest.approx(1 - low))
    assert same.low == pytest.approx(low - 1)


def test_marks_in_one_group_are_refused() -> None:
    with pytest.raises(ValueError, match="marks in 1 groups; give marks in two groups at least"):
        estimate_powered_mean([1.0, 0.0, np.nan], [1.0, 0.5, 0.5], [0, 0, 1])
