"""Differences by group: against brute force, and against SciPy and statsmodels where they have the method."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.comparison.difference import _shared_counts, cluster_interval, compute_difference, min_p, noninferiority_p
from ragsmith.evaluation.statistics import sign_flip_p, student_cdf, student_quantile

CASES = 500


def case(number: int, most_groups: int = 7) -> tuple[list[float], list[float], list[int]]:
    """Scores of two pipelines on questions in groups of different sizes, alike within a group; tenths, so some tie."""
    draw = random.Random(f"case {number}")
    a, b, groups = [], [], []
    for group in range(draw.randint(2, most_groups)):
        lift = draw.choice([-0.2, 0.0, 0.0, 0.2])
        for _ in range(draw.randint(1, 5)):
            a.append(round(draw.random() + lift, 1))
            b.append(round(draw.random(), 1))
            groups.append(group)
    return a, b, groups


def summed(a: Sequence[float], b: Sequence[float], groups: Sequence[int]) -> list[float]:
    return [
        math.fsum(x - y for x, y, of in zip(a, b, groups, strict=True) if of == group) for group in sorted(set(groups))
    ]


def test_the_p_is_the_share_of_sign_patterns_of_groups_that_are_as_far_from_zero() -> None:
    for number in range(CASES):
        a, b, groups = case(number)
        sums = summed(a, b, groups)
        seen = abs(math.fsum(sums)) - 1e-9
        patterns = list(itertools.product((1, -1), repeat=len(sums)))
        share = sum(abs(sum(s * x for s, x in zip(signs, sums, strict=True))) >= seen for signs in patterns)
        assert compute_difference(a, b, groups).p == pytest.approx(share / len(patterns), abs=1e-12)


def test_students_share_is_scipys() -> None:
    stats = pytest.importorskip("scipy.stats", reason="SciPy is compared with where it is installed: it is in [dev]")
    draw = random.Random("students")
    for _ in range(CASES):
        t, degrees = draw.uniform(-6, 6), draw.randint(1, 60)
        assert student_cdf(t, degrees) == pytest.approx(stats.t.cdf(t, degrees), abs=1e-10)


def test_the_interval_is_scipys_bootstrap_of_groups_at_the_expanded_level() -> None:
    """With the same number of resamples; both draw at random, so they agree to the noise of quantiles."""
    stats = pytest.importorskip("scipy.stats", reason="SciPy is compared with where it is installed: it is in [dev]")
    apart = []
    for number in range(CASES):
        a, b, groups = case(number, 12)
        sums, sizes = np.array(summed(a, b, groups)), np.bincount(groups).astype(float)
        low, high = cluster_interval(np.array(a) - np.array(b), groups)
        alike = sizes.sum() ** 2 / (sizes**2).sum()  # so many groups of one size tell as much
        reach = stats.t.ppf(0.975, max(1, round(alike) - 1)) * math.sqrt(alike / max(alike - 1, 0.5))
        theirs = stats.bootstrap(
            (sums, sizes),
            lambda s, n, axis: s.sum(axis=axis) / n.sum(axis=axis),
            paired=True,
            vectorized=True,
            method="percentile",
            n_resamples=1_000,
            confidence_level=2 * stats.norm.cdf(reach) - 1,
            rng=number,
        ).confidence_interval
        wide = max(high - low, 1e-9)
        apart.append(max(abs(low - theirs.low), abs(high - theirs.high)) / wide)
    assert np.median(apart) < 0.03
    assert max(apart) < 0.35  # few groups: the ends of the range, which fewer resamples may miss


def test_the_error_is_that_of_statsmodels_by_cluster() -> None:
    reason = "statsmodels is compared with where it is installed: it is in [dev]"
    api = pytest.importorskip("statsmodels.api", reason=reason)
    for number in range(CASES):
        a, b, groups = case(number)
        each = np.array(a) - np.array(b)
        n, count = len(each), len(set(groups))
        fitted = api.OLS(each, np.ones(n)).fit(cov_type="cluster", cov_kwds={"groups": np.array(groups)})
        # statsmodels corrects by G/(G-1) * (n-1)/(n-k), and k is 1
        assert compute_difference(a, b, groups).error == pytest.approx(float(fitted.bse[0]), abs=1e-12), (number, count)


@given(st.lists(st.tuples(st.integers(-9, 9), st.integers(0, 5)), min_size=2, max_size=24))
def test_what_is_turned_round_has_the_same_p_and_the_interval_turned_round(rows: list[tuple[int, int]]) -> None:
    a, groups = [value / 10 for value, _ in rows], [group for _, group in rows]
    zero = [0.0] * len(a)
    one, other = compute_difference(a, zero, groups), compute_difference(zero, a, groups)
    assert one.p == other.p
    assert one.mean_difference == -other.mean_difference
    assert (one.low, one.high) == pytest.approx((-other.high, -other.low), abs=1e-2)
    assert one.low - 1e-9 <= one.mean_difference <= one.high + 1e-9


@given(st.lists(st.integers(-9, 9), min_size=2, max_size=12))
def test_a_question_that_is_asked_again_in_its_group_adds_no_evidence(values: list[int]) -> None:
    a = [value / 10 for value in values]
    once = compute_difference(a, [0.0] * len(a), list(range(len(a))))
    thrice = compute_difference(a * 3, [0.0] * 3 * len(a), list(range(len(a))) * 3)
    assert thrice.p == once.p
    assert thrice.error == pytest.approx(once.error)
    assert (thrice.low, thrice.high) == pytest.approx((once.low, once.high))


def test_more_groups_than_are_enumerated_are_drawn_and_say_the_same() -> None:
    draw = random.Random("many")
    sums = [draw.gauss(0.3, 1) for _ in range(200)]
    found = compute_difference(sums, [0.0] * 200, list(range(200)))
    t = np.mean(sums) / (np.std(sums, ddof=1) / math.sqrt(200))
    assert found.p == pytest.approx(2 * (1 - student_cdf(abs(t), 199)), abs=0.01)
    assert found.error == pytest.approx(np.std(sums, ddof=1) / math.sqrt(200))


def test_comparisons_of_as_many_groups_share_what_is_drawn_and_say_what_each_would_alone() -> None:
    """Against groups and signs that are drawn in the same blocks, and added up one resample at a time."""
    count, seed = 601, 3
    numbers = np.random.default_rng(5)
    sizes = numbers.integers(1, 4, count)
    groups = np.repeat(np.arange(count), sizes).tolist()
    before = _shared_counts.cache_info().misses
    for scale in (1.0, 4.0):
        each = np.round(numbers.normal(0.1, 1.0, len(groups)) * scale) / 4
        found = compute_difference(each, np.zeros(len(each)), groups, seed=seed)
        sums = np.bincount(groups, each)
        stream = np.random.default_rng(seed)
        drawn = np.concatenate([stream.integers(0, count, (min(6655, 10_000 - b), count)) for b in (0, 6655)])
        effective = sizes.sum() ** 2 / (sizes**2).sum()
        reach = math.sqrt(effective / (effective - 1)) * student_quantile(0.975, round(effective) - 1)
        tail = NormalDist().cdf(-reach)
        means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
        assert (found.low, found.high) == pytest.approx(tuple(np.quantile(means, [tail, 1 - tail])), abs=1e-14)
        told = sums[sums != 0]
        stream, rows = np.random.default_rng(seed), 4_000_000 // len(told)
        blocks = [stream.integers(0, 2, (n, len(told)), dtype=np.int8) for n in (rows, 10_000 - rows)]
        as_far = np.abs((np.concatenate(blocks) * 2.0 - 1.0) @ told) >= abs(told.sum()) - 1e-9
        assert found.p == (as_far.sum() + 1) / 10_001
    assert _shared_counts.cache_info().misses == before + 1


def test_of_one_group_nothing_is_known_but_the_range() -> None:
    found = compute_difference([0.5, 0.9], [0.4, 0.4], [0, 0])
    assert (found.low, found.high) == pytest.approx((0.1, 0.5))
    assert (found.p, found.groups, found.error) == (1.0, 1, 0.0)


def test_the_least_p_is_what_all_groups_on_one_side_come_to() -> None:
    for groups in (1, 2, 8, 20):
        assert sign_flip_p([1.0] * groups) == min_p(groups) == 2.0 ** (1 - groups)
    assert sign_flip_p([1.0] * 40) == min_p(40)


def test_a_margin_counts_for_every_question() -> None:
    a, b, groups = [0.5] * 16, [0.51] * 16, [number // 2 for number in range(16)]
    assert noninferiority_p(a, b, groups, 0.02) == 2**-7  # +0.01 on every one of eight groups
    assert noninferiority_p(a, b, groups, 0.005) == 1.0


def test_groups_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="1 groups for 2 questions"):
        compute_difference([0.1, 0.2], [0.1, 0.1], [0])
