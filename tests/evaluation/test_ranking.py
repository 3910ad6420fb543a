"""Who is the best where some questions failed: nobody rises by failing, and what cannot be told is not told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.ranking import (
    Terms,
    best_evaluation,
    common_questions,
    find_significantly_better,
    find_undecided,
    rank_evaluations,
)
from ragsmith.pipelines.genes import Candidate, make_gene

QUESTIONS = tuple(f"q{place:02}" for place in range(20))
FAILURE = {"stage": "generation.answer", "kind": "refused content", "error": "RefusedContent: no"}

Scores = Sequence[float | None]
"""Of each question in turn; None where it failed."""


def _record(score: float, answer: str) -> dict[str, Any]:
    measures = dict.fromkeys(("recall", "map", "ndcg", "mrr", "judge", "similarity"), score)
    return {"measures": measures, "retrieved": [], "answer": answer, "usage": {"calls": 1}}


def evaluation(key: str, scores: Scores) -> Evaluation:
    asked = dict(zip(QUESTIONS, scores, strict=False))
    records = {q: _record(score, f"{key} {q}") for q, score in asked.items() if score is not None}
    failures = {q: FAILURE for q, score in asked.items() if score is None}
    candidate: Candidate = (make_gene("retrieval", "vector"),)
    return Evaluation(key, candidate, tuple(asked), records, failures)


def without(scores: Scores, *places: int) -> list[float | None]:
    return [None if place in places else score for place, score in enumerate(scores)]


def order(evaluations: Sequence[Evaluation], max_failure_rate: float = 0.1) -> list[str]:
    return [
        one.key
        for one in rank_evaluations(evaluations, Terms.from_evaluations(evaluations, Fitness(), max_failure_rate))
    ]


def scores_of(evaluations: Sequence[Evaluation], max_failure_rate: float = 0.1) -> Mapping[str, float | None]:
    terms = Terms.from_evaluations(evaluations, Fitness(), max_failure_rate)
    return {one.key: terms.score(one) for one in evaluations}


def test_a_question_that_all_failed_on_counts_for_none_of_them() -> None:
    both = [evaluation("good", without([0.8] * 20, 3, 4)), evaluation("bad", without([0.2] * 20, 3, 4, 5))]
    terms = Terms.from_evaluations(both, Fitness())
    assert list(terms.excluded) == ["q03", "q04"]
    assert terms.excluded["q03"] == FAILURE
    assert len(terms.counted) == 18
    assert terms.score(both[0]) == pytest.approx(0.8)
    assert [terms.count_missing(one) for one in both] == [0, 1]
    late = evaluation("late", [*[0.8] * 3, 0.0, 0.0, *[0.8] * 15])  # it finished what had been excluded before
    assert terms.score(late) == pytest.approx(0.8)


def test_a_question_that_any_candidate_finished_is_not_excluded() -> None:
    rows = [
        evaluation("a", without([0.8] * 20, 3)),
        evaluation("b", without([0.7] * 20, 3)),
        evaluation("c", [0.1] * 20),
    ]
    assert Terms.from_evaluations(rows, Fitness()).excluded == {}
    assert scores_of(rows)["a"] == pytest.approx(0.8 * 19 / 20)


def test_what_is_left_has_to_be_half_of_the_questions_to_decide() -> None:
    half, more = ([evaluation("a", without([0.8] * 20, *range(n)))] for n in (10, 11))
    assert Terms.from_evaluations(half, Fitness()).can_decide
    assert not Terms.from_evaluations(more, Fitness()).can_decide
    assert not Terms.from_evaluations([evaluation("a", [None] * 20)], Fitness()).can_decide


def test_a_candidate_may_miss_its_share_and_no_more() -> None:
    rows = [evaluation("two", without([0.9] * 20, 1, 2)), evaluation("three", without([0.9] * 20, 1, 2, 3))]
    rows += [evaluation("none", [0.5] * 20)]
    assert order(rows) == ["two", "none"]
    assert order(rows, max_failure_rate=0.15) == ["two", "three", "none"]
    assert order(rows, max_failure_rate=0.0) == ["none"]


def test_a_share_is_met_exactly_whatever_its_binary_fraction() -> None:
    questions = tuple(map(str, range(100)))
    for share in range(1, 100):  # 0.29 * 100 is less than 29
        failures = dict.fromkeys(questions[:share], FAILURE)
        records = {question: _record(0.5, question) for question in questions[share:]}
        one = Evaluation("one", (make_gene("retrieval", "vector"),), questions, records, failures)
        terms = Terms(questions, {}, share / 100, 0.0, Fitness())
        assert terms.admits(one)
        assert not replace(terms, max_failure_rate=share / 100 - 0.001).admits(one)


@pytest.mark.parametrize("seed", range(40))
def test_failing_never_raises_a_score_or_a_place(seed: int) -> None:
    rng = Random(seed)
    rows = {key: [rng.choice([0.0, 0.2, 0.5, 0.7, 1.0]) for _ in QUESTIONS] for key in "abcdef"}
    unlucky = {key: without(scores, *rng.sample(range(20), rng.randrange(3))) for key, scores in rows.items()}
    before = [evaluation(key, scores) for key, scores in unlucky.items()]
    one = rng.choice("abcdef")
    answered = [place for place in range(20) if unlucky[one][place] is not None]
    weakest = sorted(answered, key=lambda place: rows[one][place])[: rng.randrange(1, 3)]
    after = [evaluation(key, without(s, *weakest) if key == one else s) for key, s in unlucky.items()]
    told, now = scores_of(before)[one], scores_of(after)[one]
    assert told is not None
    assert now is None or now <= told + 1e-12
    above, still_above = (set(o[: o.index(one)] if one in o else "abcdef") for o in (order(before), order(after)))
    assert above <= still_above


def test_a_failure_is_ranked_as_the_lowest_score_even_below_zero(tmp_path: Path) -> None:
    rows = [evaluation("a", without([0.9] * 20, 1)), evaluation("b", [0.5] * 20)]
    assert Terms.from_evaluations(rows, Fitness()).lowest == 0.0
    (tmp_path / "below.py").write_text("def below(measures):\n    return measures['recall'] - 3.0\n")
    assert Terms.from_evaluations(rows, Fitness.from_spec(f"{tmp_path / 'below.py'}:below")).lowest == -2.5


def test_a_leader_that_is_shown_worse_where_both_finished_has_not_won() -> None:
    good = evaluation("good", without([0.9] * 20, *range(8)))  # incomplete: it cannot win, but it is there
    worst = evaluation("worst", [0.15] * 20)
    assert order([good, worst]) == ["worst"]
    above = find_significantly_better(worst, [good, worst], Fitness())
    assert above is good
    assert common_questions([good, worst]) == QUESTIONS[8:]


def test_a_difference_that_could_be_chance_does_not_unseat_the_leader() -> None:
    rng = Random(1)
    leader = evaluation("leader", [rng.random() for _ in QUESTIONS])
    other = evaluation("other", without([rng.random() + 0.02 for _ in QUESTIONS], 2, 5))
    assert find_significantly_better(leader, [leader, other], Fitness()) is None


def test_with_few_questions_one_failure_leaves_the_better_one_open() -> None:
    best = evaluation("best", without([0.9, 0.5] * 4, 3))
    second, behind = evaluation("second", [0.7, 0.5] * 4), evaluation("behind", without([0.1] * 8, 3))
    rows = [best, second, behind]
    assert order(rows) == ["second"]
    assert find_undecided(second, rows, Fitness()) == [best]


def test_what_failed_by_trouble_of_a_provider_alone_is_open() -> None:
    leader, nothing = evaluation("leader", [0.7] * 20), evaluation("nothing", [None] * 20)
    trouble = dict.fromkeys(QUESTIONS, FAILURE | {"kind": "provider trouble"})
    assert find_undecided(leader, [leader, nothing], Fitness()) == []
    unheard = replace(nothing, failures=trouble)
    assert find_undecided(leader, [leader, unheard], Fitness()) == [unheard]


def test_where_too_few_questions_are_left_to_show_anything_the_mean_decides() -> None:
    leader = evaluation("leader", [0.2] * 20)
    few = evaluation("few", without([0.9] * 20, *range(15)))
    assert find_significantly_better(leader, [leader, few], Fitness()) is few
    assert find_significantly_better(leader, [leader, evaluation("none", [None] * 20)], Fitness()) is None


def test_without_failures_nobody_stands_against_the_first() -> None:
    rng = Random(2)
    rows = [evaluation(str(n), [rng.random() for _ in QUESTIONS]) for n in range(30)]
    leader = best_evaluation(rows, Terms.from_evaluations(rows, Fitness()))
    assert leader is not None
    assert leader.mean("fitness") == max(one.mean("fitness") for one in rows)  # type: ignore[type-var]
    assert find_significantly_better(leader, rows, Fitness()) is None


def test_who_was_named_the_winner_stands_first_and_for_all_that_do_the_same() -> None:
    first, second = evaluation("a", [0.5]), evaluation("b", [0.4])
    twin = replace(second, key="c")  # does the same
    terms = Terms.from_evaluations([first, second, twin], Fitness())
    assert [one.key for one in rank_evaluations([first, second, twin], terms)] == ["a", "b"]
    assert [one.key for one in rank_evaluations([first, second, twin], terms, "c")] == ["c", "a"]
