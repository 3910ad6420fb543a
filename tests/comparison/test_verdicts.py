"""Verdicts on two pipelines, and the questions that would show a difference."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import pytest

from ragsmith.comparison.difference import Power, compute_difference, corrected_error, most_dissenting
from ragsmith.comparison.questions import MIN_GROUPS, Clusters
from ragsmith.comparison.verdicts import Comparison, Declining, compare_pipelines, compare_two
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import Terms
from ragsmith.evaluation.statistics import Verdict, sign_flip_p
from ragsmith.pipelines.genes import make_gene
from ragsmith.reporting.wording import describe_comparison

NAMES = ("recall", "map", "ndcg", "mrr", "judge", "similarity")


def evaluation(key: str, scores: Sequence[float]) -> Evaluation:
    questions = tuple(f"q{place:03}" for place in range(len(scores)))
    records = {
        question: {"measures": dict.fromkeys(NAMES, score), "retrieved": [], "answer": key, "usage": {"calls": 1}}
        for question, score in zip(questions, scores, strict=True)
    }
    return Evaluation(key, (make_gene("retrieval", "vector"),), questions, records, {})


def with_unanswerable(answered: Evaluation, unanswerable: int, declined: int) -> Evaluation:
    """Add questions without an answer, the first ``declined`` of which are declined."""
    for record in answered.records.values():
        record["measures"]["false_refusal"] = 0.0
    others = {
        f"u{place}": {
            "measures": {**dict.fromkeys(NAMES), "refusal": float(place < declined)},
            "retrieved": [],
            "answer": "",
            "usage": {"calls": 1},
        }
        for place in range(unanswerable)
    }
    return replace(answered, questions=(*answered.questions, *others), records={**answered.records, **others})


def grouped(sizes: Sequence[int]) -> Clusters:
    names = iter(f"q{place:03}" for place in range(sum(sizes)))
    return Clusters(tuple(tuple(next(names) for _ in range(size)) for size in sizes), "document", len(sizes))


def against(differences: Sequence[float], sizes: Sequence[int], **how: float) -> Comparison:
    first = evaluation("first", [0.5 + value for value in differences])
    second = evaluation("second", [0.5] * len(differences))
    return compare_two(first, second, grouped(sizes), **how)  # type: ignore[arg-type]


def test_below_eight_groups_nothing_is_better_however_many_questions_there_are() -> None:
    seven = against([0.3] * 70, [10] * 7)
    assert seven.difference is not None
    assert (seven.difference.groups, seven.difference.p) == (7, 2**-6)
    assert seven.adjusted_p == 2**-6 < 0.05
    assert (seven.verdict, seven.detectable) == (Verdict.TOO_FEW, None)
    assert against([0.3] * 8, [1] * MIN_GROUPS).verdict is Verdict.BETTER
    assert against([-0.3] * 8, [1] * MIN_GROUPS).verdict is Verdict.WORSE


def test_what_is_behind_by_less_than_the_margin_is_not_worse() -> None:
    behind = [-0.01, -0.002, 0.005, 0.004] * 4
    assert against(behind, [1] * 16, margin=0.02).verdict is Verdict.NOT_WORSE
    assert against(behind, [1] * 16, margin=0.0001).verdict is Verdict.NO_DIFFERENCE
    assert against([0.0] * 8, [1] * 8).verdict is Verdict.NOT_WORSE
    assert against([0.2, -0.2] * 8, [1] * 16).verdict is Verdict.NO_DIFFERENCE


def test_each_look_halves_the_level_until_fresh_questions_are_needed() -> None:
    found = [against([0.3] * 8, [1] * 8, look=look).verdict for look in (1, 2, 3, 4, 5)]
    assert found == [Verdict.BETTER] * 3 + [Verdict.TOO_FEW] * 2  # 2**-7 * 2**(look - 1) <= 0.05 up to the third


def test_one_of_several_comparisons_has_to_show_more() -> None:
    first, others = evaluation("first", [0.8] * 8), {f"o{i}": evaluation(f"o{i}", [0.5] * 8) for i in range(7)}
    terms = Terms.from_evaluations([first, *others.values()], Fitness())
    found = compare_pipelines(first, others, terms, grouped([1] * 8))
    assert {one.adjusted_p for one in found} == {7 * 2**-7}
    assert {one.verdict for one in found} == {Verdict.TOO_FEW}
    assert {one.verdict for one in compare_pipelines(first, {"o0": others["o0"]}, terms, grouped([1] * 8))} == {
        Verdict.BETTER
    }


def test_what_is_excluded_is_the_interval_and_more_questions_would_settle_what_was_seen() -> None:
    draw = random.Random("open")
    found = against([draw.gauss(0.05, 0.2) for _ in range(40)], [2] * 20, margin=1e-9)
    assert found.verdict is Verdict.NO_DIFFERENCE
    assert found.difference is not None
    assert found.detectable is not None
    assert found.excluded == (pytest.approx(-found.difference.low), pytest.approx(found.difference.high))
    seen = abs(found.difference.mean_difference)
    times = (found.detectable / seen) ** 2
    assert found.more_groups == pytest.approx(20 * times - 20, abs=1)
    assert found.more_questions == pytest.approx(40 * times - 40, abs=2)
    level = against([0.001, -0.0009] * 20, [2] * 20, margin=1e-9)
    assert level.more_questions is None  # it would take hundreds of times the questions


@pytest.mark.parametrize(("groups", "family"), [(8, 1), (8, 5), (16, 5)])
def test_predicted_power_is_the_share_of_worlds_in_which_the_difference_is_shown(groups: int, family: int) -> None:
    draw = random.Random(f"power:{groups}:{family}")
    level, shift, names = 0.05 / family, 0.4 / groups**0.5, [place // 2 for place in range(2 * groups)]
    shown, predicted, worlds = 0, [], 200
    for _ in range(worlds):
        lifts = [draw.gauss(shift, 0.1) for _ in range(groups)]
        differences = [lift + draw.gauss(0, 0.08) for lift in lifts for _ in range(2)]
        found = compute_difference(differences, [0.0] * len(differences), names)
        shown += found.p <= level and found.mean_difference > 0
        predicted.append(Power(differences, names, level).at(shift))
    assert 0.3 < shown / worlds < 0.99
    assert shown / worlds == pytest.approx(fmean(predicted), abs=0.08)  # two standard errors of 200 worlds


def test_the_smallest_difference_is_shown_four_times_in_five() -> None:
    draw = random.Random("smallest")
    for groups in (8, 20, 60):
        power = Power([draw.gauss(0, 0.1) for _ in range(groups)], range(groups), 0.05)
        least = power.smallest()
        assert least is not None
        assert 0.8 <= power.at(least) < 0.83
        assert power.at(0.0) < 0.07
        above = power.smallest(above=0.5)
        assert above is not None
        assert above > 0.5 > least
    few = Power([0.1, -0.1, 0.2, 0.0, 0.1], range(5), 0.05)
    assert (few.smallest(), few.at(0.5)) == (None, 0.0)


def test_with_few_groups_nearly_all_have_to_agree() -> None:
    assert [most_dissenting(8, 0.05 / family) for family in (1, 5, 7)] == [0, 0, None]
    assert [most_dissenting(groups, 0.05) for groups in (9, 12, 16)] == [1, 2, 3]
    for groups, dissenting in ((8, 0), (9, 1), (12, 2)):
        at_most, more = ([-1.0] * count + [1.0] * (groups - count) for count in (dissenting, dissenting + 1))
        assert sign_flip_p(at_most) <= 0.05 < sign_flip_p(more)


def test_questions_without_gold_are_no_groups_and_only_declining_is_compared_on_them() -> None:
    first, second = ([0.5 + lift] * 16 for lift in (0.2, 0.0))
    alone = compare_two(evaluation("first", first), evaluation("second", second), grouped([2] * 8))
    ours, theirs = (
        with_unanswerable(evaluation(*one), 6, declined) for *one, declined in (("a", first, 5), ("b", second, 0))
    )
    clusters = replace(grouped([2] * 8), without_gold=tuple(f"u{place}" for place in range(6)))
    both = compare_two(ours, theirs, clusters)
    assert both.difference == alone.difference
    assert (both.verdict, both.detectable) == (alone.verdict, alone.detectable)
    assert alone.declining is None
    assert both.declining == Declining(6, (5, 0), 16, (0, 0), 2.0**-4)


def test_without_any_gold_declining_is_compared_and_no_failure_is_claimed() -> None:
    empty = evaluation("a", [])
    ours, theirs = with_unanswerable(empty, 8, 6), with_unanswerable(empty, 8, 0)
    found = compare_two(ours, theirs, Clusters(without_gold=ours.questions), name="naive RAG")
    assert (found.difference, found.verdict) == (None, None)
    assert found.declining == Declining(8, (6, 0), 0, (0, 0), 2.0**-5)
    assert describe_comparison(found) == (
        "Compared with naive RAG by declining alone: none of the test questions has gold. Of 8 questions without an "
        "answer it declines 6, naive RAG 0 (p = 0.031, unadjusted)."
    )


@pytest.mark.parametrize(("failed", "imputed"), [("q000", True), ("u0", False), (None, False)])
def test_only_a_failure_of_the_leader_on_a_question_with_gold_has_the_lowest_score(
    failed: str | None, imputed: bool
) -> None:
    ours, theirs = (
        with_unanswerable(evaluation(*one), 2, 0) for one in (("first", [0.7] * 16), ("second", [0.5] * 16))
    )
    kept = {question: record for question, record in ours.records.items() if question != failed}
    clusters = replace(grouped([2] * 8), without_gold=("u0", "u1"))
    assert compare_two(replace(ours, records=kept), theirs, clusters).imputed is imputed


def test_groups_of_different_sizes_tell_less_than_as_many_of_one_size() -> None:
    draw = random.Random("sizes")
    scores = [draw.gauss(0, 0.2) for _ in range(40)]
    even = compute_difference(scores, [0.0] * 40, [place // 4 for place in range(40)])
    assert even.effective == 10.0
    assert corrected_error(even.error, 10, even.effective) == (pytest.approx(even.error), 9)
    uneven = compute_difference(scores, [0.0] * 40, [max(0, place - 30) for place in range(40)])
    assert uneven.effective == pytest.approx(40**2 / (31**2 + 9))
    wide, degrees = corrected_error(uneven.error, 10, uneven.effective)
    assert (degrees, wide > 1.2 * uneven.error) == (1, True)


def test_where_no_p_can_be_small_enough_nothing_is_detectable_and_no_questions_are_asked_for() -> None:
    able, spent = (against([0.1, 0.01, -0.02] * 10, [1] * 30, look=look) for look in (7, 11))
    assert able.detectable is not None
    assert (spent.verdict, spent.detectable, spent.more_questions) == (Verdict.TOO_FEW, None, None)
    assert Power([0.1, 0.01, -0.02] * 10, range(30), 0.05 / 2**10).at(1.0) == 0.0


def test_spent_questions_are_told_from_too_few() -> None:
    assert "looked at 5 times before" in describe_comparison(against([0.1] * 10, [1] * 10, look=6))
    assert against([0.1] * 10, [1] * 10, look=6).spent
    few = against([0.3, -0.3, 0.3] + [0.0] * 7, [1] * 10, look=2)
    assert (few.verdict, few.spent) == (Verdict.TOO_FEW, False)
    assert describe_comparison(few).startswith("Too few questions")
    assert not against([0.1] * 7, [1] * 7, look=9).spent
