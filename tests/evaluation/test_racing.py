"""Races: who is dropped, who never is, and how often the tests are wrong."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ragsmith.errors import UsageError
from ragsmith.evaluation.racing import Racing, Standing, Track

QUESTIONS = 70


def standing(exact: np.ndarray, sampled: np.ndarray, answered: int = QUESTIONS) -> Standing:
    known = np.full(QUESTIONS, np.nan)
    known[:answered] = sampled[:answered]
    return Standing(exact, known)


def field(rng: np.random.Generator, size: int, level: float = 0.3) -> list[Standing]:
    """Pipelines alike: R of a question is common to all, answers differ by chance."""
    common = rng.random(QUESTIONS) / 2
    return [standing(common.copy(), level * rng.random(QUESTIONS)) for _ in range(size)]


def begun(finished: list[Standing], racing: Racing | None = None) -> Track:
    track = Track(QUESTIONS, racing or Racing(front=5))
    for one in finished:
        track.finish(one)
    return track


def test_looks_are_after_each_block_and_the_last_has_all_questions() -> None:
    assert Racing(block=10).looks(35) == (10, 20, 30, 35)
    assert Racing(block=10).looks(30) == (10, 20, 30)
    assert Racing(block=50).looks(30) == (30,)
    assert Racing().looks(0) == ()
    assert Racing(block=10, error=0.06).level(30) == pytest.approx(0.02)


@pytest.mark.parametrize(("block", "error", "front"), [(0, 0.05, 5), (10, 0.0, 5), (10, 1.0, 5), (10, 0.05, 0)])
def test_numbers_that_make_no_race_are_refused(block: int, error: float, front: int) -> None:
    with pytest.raises(UsageError, match="give"):
        Racing(block, error, front)


def test_whoever_is_far_behind_leaves_and_who_is_ahead_stays() -> None:
    rng = np.random.default_rng(1)
    finished = field(rng, 6)
    track = begun(finished)
    worse = standing(finished[0].exact, finished[0].sampled - 0.2, 10)
    better = standing(finished[0].exact, finished[0].sampled + 0.2, 10)
    assert track.behind(10, {1: worse, 2: better}) == [1]


def test_nobody_leaves_at_the_last_look_or_from_a_field_that_is_not_larger_than_the_front() -> None:
    rng = np.random.default_rng(2)
    finished = field(rng, 6)
    worse = standing(finished[0].exact, finished[0].sampled - 0.3)
    assert begun(finished).behind(QUESTIONS, {1: worse}) == []
    assert begun(finished[:4]).behind(10, {1: worse}) == []


def test_rankings_alone_drop_whom_no_answers_seen_so_far_could_save() -> None:
    rng = np.random.default_rng(3)
    finished = field(rng, 8)
    track = begun(finished)
    nothing = np.full(QUESTIONS, np.nan)
    worse, alike = Standing(finished[0].exact - 0.3, nothing), Standing(finished[0].exact, nothing)
    assert track.hopeless({1: worse, 2: alike}) == [1]
    assert begun(finished[:4]).hopeless({1: worse}) == []


def test_the_bar_of_rankings_is_a_prediction_interval() -> None:
    """Against scipy: the upper end of where the mean of one more may lie."""
    rng = np.random.default_rng(4)
    finished = field(rng, 9)
    track = begun(finished)
    means = [float(one.sampled.mean()) for one in finished]
    level = Racing(front=5).level(QUESTIONS)
    highest = np.mean(means) + stats.t.ppf(1 - level, 8) * np.std(means, ddof=1) * np.sqrt(1 + 1 / 9)
    bar = sorted((float((one.exact + one.sampled).mean()) for one in finished), reverse=True)[4]
    nothing = np.full(QUESTIONS, np.nan)
    for margin, expected in ((-1e-9, [1]), (1e-9, [])):
        exact = np.full(QUESTIONS, bar - highest + margin)
        assert track.hopeless({1: Standing(exact, nothing)}) == expected


def test_a_candidate_as_good_as_the_others_is_seldom_dropped() -> None:
    """Of candidates that are in truth like all the others, and end above the front, at most the stated share leaves."""
    rng = np.random.default_rng(5)
    racing = Racing(error=0.05, front=5)
    able = wrong = 0
    for _ in range(400):
        finished = field(rng, 10)
        track = begun(finished, racing)
        candidate = 0.3 * rng.random(QUESTIONS)
        bar = sorted((one.value() for one in finished), reverse=True)[racing.front - 1]
        whole = standing(finished[0].exact, candidate)
        if whole.value() < bar:
            continue
        able += 1
        looks = racing.looks(QUESTIONS)[:-1]
        wrong += any(track.behind(met, {0: standing(finished[0].exact, candidate, met)}) for met in looks)
    assert able > 100
    assert wrong / able <= racing.error


def test_a_question_that_counts_for_nobody_changes_nothing() -> None:
    rng = np.random.default_rng(6)
    finished = field(rng, 6)
    for one in finished:
        one.exact[3] = one.sampled[3] = np.nan
    worse = standing(finished[0].exact, finished[0].sampled - 0.2, 10)
    assert begun(finished).behind(10, {1: worse}) == [1]


def test_an_estimate_adds_what_the_questions_still_to_come_are_easier_by() -> None:
    exact = np.zeros(QUESTIONS)
    easy_later = np.concatenate((np.zeros(10), np.full(QUESTIONS - 10, 0.7)))
    track = begun([standing(exact, easy_later)])
    assert track.dropped(standing(exact, easy_later, 10), 10).estimate == pytest.approx(easy_later.mean())
    unanswered = Standing(exact + 0.1, np.full(QUESTIONS, np.nan))
    assert track.dropped(unanswered, 0).estimate == pytest.approx(0.1 + easy_later.mean())
