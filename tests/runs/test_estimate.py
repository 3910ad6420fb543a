"""Means shrunk to what was expected: worked examples, the formulas written out, and what follows from them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.runs.choice import shrink_means, shrinkage


def drawn(seed: int, pipelines: int, questions: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores with a difficulty of questions, and a prior."""
    draw = np.random.default_rng(seed)
    scores = draw.normal(0.5, 0.2, (1, questions)) + draw.normal(0, 0.1, (pipelines, questions))
    loadings = draw.normal(0, 0.02, (pipelines, 3))
    return scores, draw.normal(0, 0.02, pipelines), loadings @ loadings.T


def test_two_questions_say_nothing_of_how_noise_goes_together() -> None:
    scores = np.array([[0.9, 0.1], [0.5, 0.5], [0.1, 0.8]])
    _, share = shrinkage(scores)
    assert share == 1.0
    worth, _ = shrink_means(scores, np.zeros(3), np.zeros((3, 3)), 0.01)
    assert np.ptp(worth) < 0.1 * np.ptp(scores.mean(axis=1))


@given(st.integers(0, 10_000), st.integers(0, 5), st.integers(0, 11))
def test_a_failure_does_not_raise_an_estimate(seed: int, pipeline: int, question: int) -> None:
    scores, expected, covariance = drawn(seed, 6, 12)
    scores = np.clip(scores, 0.05, 1)
    common = scores.mean(axis=1)[:, None] + scores.mean(axis=0) - scores.mean()
    scores[pipeline, question] = common[pipeline, question]  # what it is taken for where the noise is worked out
    failed = scores.copy()
    failed[pipeline, question] = np.nan
    with_it, _ = shrink_means(scores, expected, covariance, 0.02)
    without, _ = shrink_means(failed, expected, covariance, 0.02, lowest=0.0)
    others = np.arange(6) != pipeline
    assert without[pipeline] - without[others].mean() < with_it[pipeline] - with_it[others].mean() + 1e-6


def test_where_the_prior_is_certain_it_decides() -> None:
    scores, expected, _ = drawn(1, 5, 30)
    worth, _ = shrink_means(scores, expected, np.zeros((5, 5)), 0.0)
    assert worth - worth.mean() == pytest.approx(expected - expected.mean(), abs=1e-9)


@given(st.integers(0, 10_000), st.integers(2, 8), st.integers(3, 20))
def test_it_is_the_conditional_mean_of_a_normal_distribution_with_a_vague_level(
    seed: int, pipelines: int, questions: int
) -> None:
    scores, expected, covariance = drawn(seed, pipelines, questions)
    means = scores.mean(axis=1)
    known = covariance + 0.01**2 * np.eye(pipelines)
    around, share = shrinkage(scores - scores.mean(axis=0))
    alone = np.diag(np.diag(around)) * pipelines / (pipelines - 1)
    noise = ((1 - share) * around + share * alone) / questions
    vague = 1e4
    whole = known + noise + vague
    worth = expected + (known + vague) @ np.linalg.solve(whole, means - expected)
    found, sd = shrink_means(scores, expected, covariance, 0.01)
    assert found - found.mean() == pytest.approx(worth - worth.mean(), abs=1e-4)
    assert found.mean() == pytest.approx(means.mean())
    assert (sd >= 0).all()


@given(st.integers(0, 10_000), st.floats(-3, 3))
def test_what_all_pipelines_share_changes_nothing(seed: int, level: float) -> None:
    scores, expected, covariance = drawn(seed, 6, 12)
    worth, sd = shrink_means(scores, expected, covariance, 0.02)
    shifted, same = shrink_means(scores, expected + level, covariance + level**2, 0.02)
    assert shifted == pytest.approx(worth, abs=1e-7)
    assert same == pytest.approx(sd, abs=1e-6)


def test_the_shrinkage_of_a_covariance_is_that_of_the_paper_written_out() -> None:
    rows = np.random.default_rng(5).normal(0, 1, (4, 9))
    n = rows.shape[1]
    centred = rows - rows.mean(axis=1, keepdims=True)
    products = np.einsum("ik,jk->ijk", centred, centred)
    s = products.sum(axis=2) / (n - 1)
    variances = n / (n - 1) ** 3 * ((products - products.mean(axis=2, keepdims=True)) ** 2).sum(axis=2)
    off = ~np.eye(4, dtype=bool)
    covariance, share = shrinkage(rows)
    assert share == pytest.approx(min(1.0, variances[off].sum() / (s[off] ** 2).sum()))
    assert covariance == pytest.approx(s)
