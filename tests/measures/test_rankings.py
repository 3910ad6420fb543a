"""The formulas of rankings, by hand and against `ir_measures`."""

import math

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, R, Success, nDCG

from ragsmith.measures.rankings import (
    average_precision,
    graded_ndcg_at,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    success_at,
)

IDS = "abcdefghijkl"
ORACLE = {
    R @ 5: recall_at,
    Success @ 5: success_at,
    nDCG @ 5: ndcg_at,
    AP: average_precision,
    RR: reciprocal_rank,
}


@settings(max_examples=60, deadline=None)
@given(st.permutations(IDS), st.integers(0, 12), st.sets(st.sampled_from(IDS), min_size=1))
def test_values_equal_those_of_ir_measures(order, found, gold):
    ranking = order[:found]
    run = {"q": {key: float(-rank) for rank, key in enumerate(ranking)}}
    expected = (
        ir_measures.calc_aggregate(list(ORACLE), {"q": dict.fromkeys(gold, 1)}, run)
        if ranking
        else dict.fromkeys(ORACLE, 0)
    )
    assert {measure: own(ranking, gold) for measure, own in ORACLE.items()} == pytest.approx(expected)


def test_graded_gains_are_the_grades_and_the_ideal_ranks_by_them():
    grades = {"a": 1.0, "b": 0.5}
    ideal = 1 / 1 + 0.5 / math.log2(3)
    assert graded_ndcg_at("ab", grades) == 1
    assert graded_ndcg_at("ba", grades) == pytest.approx((0.5 / 1 + 1 / math.log2(3)) / ideal)
    assert graded_ndcg_at("xb", grades) == pytest.approx((0.5 / math.log2(3)) / ideal)
    assert graded_ndcg_at("ba", grades, k=1) == 0.5


@settings(max_examples=60, deadline=None)
@given(
    st.permutations(IDS), st.integers(1, 12), st.dictionaries(st.sampled_from(IDS), st.integers(50, 100), min_size=1)
)
def test_graded_values_equal_those_of_ir_measures(order, found, percent):
    ranking = order[:found]
    run = {"q": {key: float(-rank) for rank, key in enumerate(ranking)}}
    expected = ir_measures.calc_aggregate([nDCG @ 10], {"q": percent}, run)[nDCG @ 10]  # linear, so units do not matter
    grades = {key: value / 100 for key, value in percent.items()}
    assert graded_ndcg_at(ranking, grades) == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(st.permutations(IDS), st.integers(1, 12), st.sets(st.sampled_from(IDS), min_size=1), st.integers(1, 12))
def test_equal_grades_give_the_binary_ndcg(order, found, gold, k):
    assert graded_ndcg_at(order[:found], dict.fromkeys(gold, 1.0), k) == ndcg_at(order[:found], gold, k)


def test_a_repeated_id_is_graded_once_and_a_question_without_gold_is_not():
    assert graded_ndcg_at("aab", {"a": 1.0, "b": 0.5}) == 1
    with pytest.raises(ValueError, match="without gold evidence"):
        graded_ndcg_at("a", {})
    with pytest.raises(ValueError, match="k is 0"):
        graded_ndcg_at("a", {"a": 1.0}, 0)


@pytest.mark.parametrize("metric", ORACLE.values())
def test_only_the_first_occurrence_counts(metric):
    assert metric(list("abbaacbd"), {"b", "d"}) == metric(list("abcd"), {"b", "d"})


@pytest.mark.parametrize("metric", ORACLE.values())
def test_a_question_without_gold_is_not_scored(metric):
    with pytest.raises(ValueError, match="without gold evidence"):
        metric(["a"], set())


@pytest.mark.parametrize("metric", [recall_at, ndcg_at, success_at])
def test_a_cut_below_one_is_refused(metric):
    with pytest.raises(ValueError, match="k is 0"):
        metric(["a"], {"a"}, 0)
