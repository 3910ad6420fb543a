import itertools
import math
from collections.abc import Callable

import ir_measures
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ir_measures import AP, RR, R, Success, nDCG
from numpy.typing import ArrayLike, NDArray

from ragsmith.measures.metrics import (
    average_precision,
    exact_match,
    graded_ndcg_at,
    ndcg_at,
    recall_at,
    reciprocal_rank,
    redundancy,
    span_recall_at,
    success_at,
    token_f1,
)
from ragsmith.types import Span

IDS = "abcdefghijkl"
ORACLE = {
    R @ 5: recall_at,
    Success @ 5: success_at,
    nDCG @ 5: ndcg_at,
    AP: average_precision,
    RR: reciprocal_rank,
}


def test_worked_values() -> None:
    ranking, gold = list("abcdef"), {"b", "e", "x"}
    assert recall_at(ranking, gold) == pytest.approx(2 / 3)
    assert average_precision(ranking, gold) == pytest.approx(0.3)
    assert ndcg_at(ranking, gold) == pytest.approx(0.4776237035, abs=1e-10)
    assert reciprocal_rank(ranking, gold) == 0.5
    assert success_at(ranking, gold) == 1
    late = {"f"}
    assert recall_at(ranking, late) == ndcg_at(ranking, late) == success_at(ranking, late) == 0
    assert average_precision(ranking, late) == reciprocal_rank(ranking, late) == pytest.approx(1 / 6)


@settings(max_examples=60, deadline=None)
@given(st.permutations(IDS), st.integers(0, 12), st.sets(st.sampled_from(IDS), min_size=1))
def test_values_equal_those_of_ir_measures(order: list[str], found: int, gold: set[str]) -> None:
    ranking = order[:found]
    run = {"q": {key: float(-rank) for rank, key in enumerate(ranking)}}
    expected = (
        ir_measures.calc_aggregate(list(ORACLE), {"q": dict.fromkeys(gold, 1)}, run)
        if ranking
        else dict.fromkeys(ORACLE, 0)
    )
    assert {measure: own(ranking, gold) for measure, own in ORACLE.items()} == pytest.approx(expected)


def test_graded_gains_are_the_grades_and_the_ideal_ranks_by_them() -> None:
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
def test_graded_values_equal_those_of_ir_measures(order: list[str], found: int, percent: dict[str, int]) -> None:
    ranking = order[:found]
    run = {"q": {key: float(-rank) for rank, key in enumerate(ranking)}}
    expected = ir_measures.calc_aggregate([nDCG @ 10], {"q": percent}, run)[nDCG @ 10]  # linear, so units do not matter
    grades = {key: value / 100 for key, value in percent.items()}
    assert graded_ndcg_at(ranking, grades) == pytest.approx(expected)


@settings(max_examples=40, deadline=None)
@given(st.permutations(IDS), st.integers(1, 12), st.sets(st.sampled_from(IDS), min_size=1), st.integers(1, 12))
def test_equal_grades_give_the_binary_ndcg(order: list[str], found: int, gold: set[str], k: int) -> None:
    assert graded_ndcg_at(order[:found], dict.fromkeys(gold, 1.0), k) == ndcg_at(order[:found], gold, k)


def test_a_repeated_id_is_graded_once_and_a_question_without_gold_is_not() -> None:
    assert graded_ndcg_at("aab", {"a": 1.0, "b": 0.5}) == 1
    with pytest.raises(ValueError, match="without gold evidence"):
        graded_ndcg_at("a", {})
    with pytest.raises(ValueError, match="k is 0"):
        graded_ndcg_at("a", {"a": 1.0}, 0)


@pytest.mark.parametrize("metric", ORACLE.values())
def test_only_the_first_occurrence_counts(metric: Callable[[list[str], set[str]], float]) -> None:
    assert metric(list("abbaacbd"), {"b", "d"}) == metric(list("abcd"), {"b", "d"})


@pytest.mark.parametrize("metric", ORACLE.values())
def test_a_question_without_gold_is_not_scored(metric: Callable[[list[str], set[str]], float]) -> None:
    with pytest.raises(ValueError, match="without gold evidence"):
        metric(["a"], set())


@pytest.mark.parametrize("metric", [recall_at, ndcg_at, success_at])
def test_a_cut_below_one_is_refused(metric: Callable[[list[str], set[str], int], float]) -> None:
    with pytest.raises(ValueError, match="k is 0"):
        metric(["a"], {"a"}, 0)


def test_span_recall_takes_the_union_of_what_was_retrieved() -> None:
    gold = [Span("d", 0, 100), Span("e", 0, 10)]
    pieces = [Span("d", 0, 30), Span("d", 20, 50), Span("e", 6, 90)]
    assert span_recall_at(pieces, gold, k=1) == 0
    assert span_recall_at(pieces, gold, k=2) == 0.5  # 30 + 30 characters, 10 of them twice: exactly half
    assert span_recall_at([pieces[0], pieces[0], pieces[1]], gold, k=2) == 0.5
    assert span_recall_at([*pieces, Span("e", 0, 1)], gold, k=4) == 1
    nested = [Span("d", 0, 40), Span("d", 10, 20), Span("d", 30, 49)]  # 49 characters, many of them twice
    assert span_recall_at(nested, gold[:1]) == 0
    with pytest.raises(ValueError, match="without gold evidence"):
        span_recall_at(pieces, [])


SPAN = st.builds(
    lambda doc, start, size: Span(doc, start, start + size),
    st.sampled_from("de"),
    st.integers(0, 20),
    st.integers(1, 15),
)


@settings(max_examples=100, deadline=None)
@given(st.lists(SPAN, max_size=8), st.lists(SPAN, min_size=1, max_size=4), st.integers(1, 6))
def test_span_recall_agrees_with_counting_characters(retrieved: list[Span], evidence: list[Span], k: int) -> None:
    seen = {(span.doc, i) for span in list(dict.fromkeys(retrieved))[:k] for i in range(span.start, span.end)}
    gold = set(evidence)
    covered = [
        sum((span.doc, i) in seen for i in range(span.start, span.end)) / (span.end - span.start) for span in gold
    ]
    assert span_recall_at(retrieved, evidence, k) == sum(share >= 0.5 for share in covered) / len(gold)


@pytest.mark.parametrize(
    ("answer", "reference", "match", "f1"),
    [
        ("The Eiffel Tower!", "eiffel tower", 1, 1),
        ("in the tower", "the Eiffel tower", 0, 0.5),
        ("a a cat cat dog", "cat", 0, 0.5),
        ("cat cat cat", "cat cat dog", 0, 2 / 3),
        ("yes", "no", 0, 0),
        ("", "the", 1, 1),
        ("", "no", 0, 0),
        ("no", "", 0, 0),
    ],
)
def test_answers_are_compared_as_squad_does(answer: str, reference: str, match: float, f1: float) -> None:
    assert exact_match(answer, reference) == match
    assert token_f1(answer, reference) == pytest.approx(f1)


def test_redundancy_is_the_share_of_similar_pairs() -> None:
    vectors = np.array([[1, 0], [2, 0.1], [0, 1], [0, 0]])
    found = redundancy(vectors)
    assert found is not None
    assert found.ratio == pytest.approx(1 / 6, abs=1e-6)
    assert redundancy(vectors, threshold=-0.5) == type(found)(1, found.mean_cosine)
    assert found.mean_cosine == pytest.approx(np.mean(cosines(vectors)), abs=1e-6)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 8), st.integers(0, 1000))
def test_redundancy_agrees_with_one_pair_at_a_time(n: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(0.5, 1, (n, 3))
    found = redundancy(vectors, threshold=0.5)
    assert found is not None
    assert found.ratio == pytest.approx(np.mean(np.round(cosines(vectors), 6) > 0.5), abs=1e-6)
    assert found.mean_cosine == pytest.approx(np.mean(cosines(vectors)), abs=2e-6)


def cosines(vectors: NDArray[np.float64]) -> list[float]:
    return [
        float(np.dot(a, b) / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300))
        for a, b in itertools.combinations(vectors, 2)
    ]


@pytest.mark.parametrize("vectors", [[], [[1.0, 0.0]], np.empty((0, 3))])
def test_fewer_than_two_passages_have_no_redundancy(vectors: ArrayLike) -> None:
    assert redundancy(vectors) is None
