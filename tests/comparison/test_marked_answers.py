"""The judge against people's marks, by a table that is computed by hand, and which answers are drawn."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ragsmith.comparison.difference import cluster_interval
from ragsmith.comparison.marked_answers import (
    MarkableAnswer,
    compare_judge,
    draw_answers,
    evaluate_marks,
    read_marks,
)
from ragsmith.comparison.questions import Clusters
from ragsmith.errors import UsageError
from ragsmith.evaluation.statistics import Vector


def test_kappa_is_that_of_a_table_computed_by_hand() -> None:
    """People: 3 wrong, 2 partly, 5 right; judge: 3, 3, 4. Observed distance 4 of 10 steps; by chance
    (3 * (3 + 2 * 4) + 2 * (3 + 4) + 5 * (2 * 3 + 3)) / 10 = 9.2.
    """
    scores = [0.0, 0.25, 1.0, 0.5, 0.75, 0.75, 1.0, 0.5, 0.5, 0.25]
    marks = [0.0, 0.0, 0.0, 0.5, 0.5, 1.0, 1.0, 1.0, 1.0, 1.0]
    table, kappa, _, over, under = compare_judge(scores, marks, range(10))
    assert table == ((2, 0, 1), (0, 1, 1), (1, 2, 2))
    assert kappa == pytest.approx(1 - (2 + 1 + 2 + 2) / 9.2)
    assert (over.hits, over.n, under.hits, under.n) == (1, 3, 1, 5)


@pytest.mark.parametrize(("score", "place"), [(0.0, 0), (0.25, 0), (0.37, 0), (0.5, 1), (0.62, 1), (0.75, 2), (1.0, 2)])
def test_a_score_is_the_nearest_mark(score: float, place: int) -> None:
    table, kappa, interval, _, _ = compare_judge([score], [0.0], [0])
    assert table[0][place] == 1
    assert (kappa is None) == (interval is None) == (place == 0)


def weighted_kappa(pairs: Sequence[tuple[int, int]], weights: Vector) -> float:
    """Linear kappa of answers of unequal weight, from its definition."""
    total = weights.sum()
    observed = sum(w * abs(i - j) for (i, j), w in zip(pairs, weights, strict=True)) / total
    each = [
        (i, j, v * w)
        for (i, _), v in zip(pairs, weights, strict=True)
        for (_, j), w in zip(pairs, weights, strict=True)
    ]
    return 1 - observed / (sum(w * abs(i - j) for i, j, w in each) / total**2)


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 5)), min_size=4, max_size=24))
@settings(max_examples=40, deadline=None)
def test_the_interval_of_kappa_is_that_of_its_derivatives_by_group(drawn: list[tuple[int, int, int]]) -> None:
    pairs, groups = [(mark, judged) for mark, judged, _ in drawn], [group for *_, group in drawn]
    assume(any(i != j for i, j in pairs))
    _, kappa, interval, _, _ = compare_judge([j / 2 for _, j in pairs], [i / 2 for i, _ in pairs], groups)
    assert kappa is not None
    assert interval is not None
    ones, step = np.ones(len(pairs)), 1e-5
    assert kappa == pytest.approx(weighted_kappa(pairs, ones))
    moved = [
        len(pairs) * (weighted_kappa(pairs, ones + one) - weighted_kappa(pairs, ones - one)) / (2 * step)
        for one in step * np.eye(len(pairs))
    ]
    low, high = cluster_interval(kappa + np.array(moved), groups)
    assert interval == (pytest.approx(max(low, -1), abs=1e-6), pytest.approx(min(high, 1), abs=1e-6))


def test_the_interval_has_the_kappa_of_answers_that_are_judged_alike_by_question() -> None:
    rng, shares, follows = np.random.default_rng(2), [0.3, 0.2, 0.5], 0.7

    def draw(questions: int) -> tuple[Vector, Vector]:
        """Marks and scores of two answers to each question; the judge errs together on half of the questions."""
        alike = rng.random((questions, 1)) < 0.5
        marks = np.where(alike, *(rng.choice(3, (questions, n), p=shares) for n in (1, 2)))
        errs = np.where(alike, *(rng.random((questions, n)) > follows for n in (1, 2)))
        return marks.ravel() / 2, np.where(errs, rng.choice(3, (questions, 2), p=[0.15, 0.25, 0.6]), marks).ravel() / 2

    marks, scores = draw(200_000)
    kappa = compare_judge(scores, marks, [0] * len(marks))[1]
    assert kappa is not None
    held = 0
    for _ in range(200):
        marks, scores = draw(30)
        interval = compare_judge(scores, marks, [at // 2 for at in range(60)])[2]
        assert interval is not None
        held += interval[0] <= kappa <= interval[1]
    assert 180 <= held <= 198  # 190 are expected, with a deviation of 3


def test_a_judge_that_agrees_with_every_mark_may_still_miss_some() -> None:
    marks = [0.0, 0.5, 1.0, 1.0] * 8
    lows = []
    for groups in (range(32), [at // 4 for at in range(32)]):
        _, kappa, interval, _, _ = compare_judge(marks, marks, groups)
        assert interval is not None
        assert (kappa, interval[1]) == (1, 1)
        lows.append(interval[0])
    # by chance (2 * 8 * (8 + 2 * 16) + 2 * 8 * 16) / 32**2 = 7 / 8 apart; at most 2 apart
    assert lows == [pytest.approx(1 - 2 * (1 - 0.025 ** (1 / n)) / (7 / 8)) for n in (32, 8)]


def answers_of(count: int, same: int = 0) -> dict[str, dict[str, tuple[MarkableAnswer, float]]]:
    return {
        role: {
            f"q{at:02}": (MarkableAnswer(f"Q{at}", "R", "both" if at < same else f"{role} {at}"), (at % 5) / 4 + more)
            for at in range(count)
        }
        for role, more in (("winner", 0.0), ("naive", 0.0))
    }


CLUSTERS = Clusters(tuple(tuple(f"q{at:02}" for at in range(begin, begin + 4)) for begin in range(0, 40, 4)))


def test_means_and_the_difference_are_estimated_for_marked_answers() -> None:
    answers = answers_of(40, same=4)
    marks = {one: "right" for one, _ in answers["winner"].values()}
    marks |= {one: "wrong" if at % 2 else "partly" for at, (one, _) in enumerate(answers["naive"].values()) if at >= 4}
    found = evaluate_marks(answers, CLUSTERS, {**marks, MarkableAnswer("other", "R", "x"): "wrong"})
    assert found
    assert sum(map(sum, found.table)) == 76  # the four answers that both gave count once
    means = {role: each["marks"].mean for role, each in found.means.items()}
    assert means == {"winner": 1, "naive": pytest.approx((4 + 18 / 2) / 40), "difference": pytest.approx(1 - 13 / 40)}
    assert {role: each["judge"].mean for role, each in found.means.items()} == {
        "winner": pytest.approx(0.5),
        "naive": pytest.approx(0.5),
        "difference": 0,
    }


def test_cannot_tell_is_missing_and_few_groups_have_no_means() -> None:
    answers = answers_of(40)
    marked = [one for one, _ in answers["winner"].values()]
    found = evaluate_marks(answers, CLUSTERS, dict.fromkeys(marked[:28], "right") | {marked[39]: "cannot tell"})
    assert found
    assert (sum(map(sum, found.table)), found.untold, found.means) == (28, 1, {})
    assert evaluate_marks(answers, CLUSTERS, {marked[0]: "cannot tell"}) is None
    assert evaluate_marks(answers, CLUSTERS, {}) is None


def test_each_question_is_drawn_as_often_and_every_sample_covers_the_groups() -> None:
    answers = answers_of(40)
    drawn: Counter[str] = Counter()
    for seed in range(400):
        listed = draw_answers(answers, CLUSTERS, 20, seed)
        assert len(listed) == len(set(listed)) == 20
        questions = {question for question, _ in listed}
        assert len(questions) == 10
        assert CLUSTERS.count(questions) >= 7
        drawn.update(questions)
    assert all(70 < drawn[f"q{at:02}"] < 130 for at in range(40))  # 100 are expected, with a deviation of 9
    assert draw_answers(answers, CLUSTERS, 20, 1) == draw_answers(answers, CLUSTERS, 20, 1)


def test_all_answers_are_drawn_if_there_are_no_more() -> None:
    answers = answers_of(40, same=10)
    listed = draw_answers(answers, CLUSTERS, 1_000, 0)
    assert {one for _, one in listed} == {one for each in answers.values() for one, _ in each.values()}
    assert len(listed) == 70
    assert draw_answers({}, CLUSTERS, 10, 0) == []


def test_the_last_mark_of_an_answer_counts_and_a_line_that_was_cut_off_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / "marks.jsonl"
    assert read_marks(file) == {}
    row = {"dataset": "yard", "question": "Q", "reference": "R", "answer": "A\x85"}
    lines = [json.dumps({**row, "mark": mark}) for mark in ("wrong", "right")]
    file.write_text(f"\n{lines[0]}\n{lines[1][:40]}\n{lines[1]}\n{lines[0][:30]}")
    assert read_marks(file) == {MarkableAnswer("Q", "R", "A\x85"): "right"}
    file.write_bytes(b"\xff\n")
    with pytest.raises(UsageError, match=r"marks\.jsonl.*UTF-8"):
        read_marks(file)
