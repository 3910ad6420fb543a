"""Pooling over data sets: against the formulas written anew, and against published figures."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from ragsmith.diagnosis.estimates import pool_estimates
from ragsmith.evaluation.statistics import student_quantile

# the thirteen trials of BCG (Colditz et al. 1994): log relative risks and their variances, as reanalysed everywhere
RISKS = [-0.8893, -1.5854, -1.3481, -1.4416, -0.2175, -0.7861, -1.6209]
RISKS += [0.0120, -0.4694, -1.3713, -0.3394, 0.4459, -0.0173]
VARIANCES = [0.3256, 0.1946, 0.4154, 0.0200, 0.0512, 0.0069, 0.2230, 0.0040, 0.0564, 0.0730, 0.0124, 0.5325, 0.0714]


def by_matrices(means: np.ndarray, errors: np.ndarray) -> tuple[float, float, float]:
    """Mean, variance between, and half the interval: generalised least squares, the trace form of the moments."""
    k = len(means)
    precision = np.diag(1 / errors**2)
    ones = np.ones((k, 1))
    residual_maker = precision - precision @ ones @ np.linalg.inv(ones.T @ precision @ ones) @ ones.T @ precision
    q = float(means @ residual_maker @ means)
    between = max(0.0, (q - (k - 1)) / float(np.trace(residual_maker)))
    inverse = np.linalg.inv(np.diag(errors**2 + between))
    variance = 1 / float((ones.T @ inverse @ ones).item())
    mean = variance * float((ones.T @ inverse @ means).item())
    spread = float((means - mean) @ inverse @ (means - mean)) / (k - 1)
    return mean, between, student_quantile(0.975, k - 1) * np.sqrt(max(1.0, spread) * variance)


cases = st.integers(2, 9).flatmap(
    lambda k: st.tuples(
        st.lists(st.floats(-0.3, 0.3), min_size=k, max_size=k), st.lists(st.floats(0.005, 0.1), min_size=k, max_size=k)
    )
)


@hypothesis_settings(max_examples=300)
@given(cases)
def test_the_mean_and_its_interval_are_those_of_the_formulas(case: tuple[list[float], list[float]]) -> None:
    means, errors = map(np.array, case)
    found = pool_estimates(means.tolist(), errors.tolist())
    assert found is not None
    mean, between, reach = by_matrices(means, errors)
    assert found.mean == pytest.approx(mean, abs=1e-9)
    assert found.between_sd**2 == pytest.approx(between, abs=1e-9)
    assert (found.low, found.high) == pytest.approx((mean - reach, mean + reach), abs=1e-8)
    assert found.agree == sum(np.sign(means) * np.sign(found.mean) > 0)
    assert found.excludes_zero == (abs(found.mean) > found.high - found.mean)


def test_the_trials_of_bcg_come_out_as_published() -> None:
    found = pool_estimates(RISKS, np.sqrt(VARIANCES).tolist())
    assert found is not None
    assert found.mean == pytest.approx(-0.714, abs=1e-3)
    assert found.between_sd**2 == pytest.approx(0.309, abs=1e-3)
    assert (found.agree, found.datasets) == (11, 13)


def test_a_data_set_on_which_nothing_differs_is_not_infinitely_sure() -> None:
    found = pool_estimates([0.1, 0.12, 0.0], [0.02, 0.04, 0.0])
    sure = pool_estimates([0.1, 0.12, 0.0], [0.02, 0.04, 0.001**0.5])
    assert found is not None
    assert sure is not None
    # 0.001 is the mean of 0.0004 and 0.0016
    assert (found.mean, found.low, found.between_sd) == pytest.approx((sure.mean, sure.low, sure.between_sd))
    assert found.unchanged == 1
    nothing = pool_estimates([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    assert nothing is not None
    assert (nothing.mean, nothing.low, nothing.high, nothing.agree) == (0, 0, 0, 0)
    unknown = pool_estimates([0.1, 0.3], [0.0, 0.0])  # Student's interval of the two means
    assert unknown is not None
    assert (unknown.mean, unknown.high) == pytest.approx((0.2, 0.2 + 12.7062047 * 0.1))


def test_one_data_set_is_not_pooled() -> None:
    assert pool_estimates([0.1], [0.01]) is None
    with pytest.raises(ValueError, match="argument 2 is longer"):
        pool_estimates([0.1, 0.2], [0.01])
