"""Selective answering: the binomial bound against exact sums, correlated groups, and thresholds that keep a risk."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from fractions import Fraction

import pytest

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.selective import (
    AnswerCounts,
    binomial_cdf,
    calibrate_threshold,
    count_answers,
    fewest_answers,
    find_wrong,
    intraclass_correlation,
)
from ragsmith.text.declining import NOT_FOUND

Scored = Sequence[tuple[float, bool]]


def exact_cdf(count: int, n: int, p: Fraction) -> Fraction:
    return sum((math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(count + 1)), Fraction(0))


@pytest.mark.parametrize(
    ("count", "n", "p", "expected"),
    [
        (1, 3, 0.5, 4 / 8),
        (0, 10, 0.2, 0.8**10),
        (2, 5, 0.3, 0.16807 + 0.36015 + 0.3087),
        (-1, 4, 0.5, 0.0),
        (4, 4, 0.5, 1.0),
        (0, 4, 0.0, 1.0),
        (3, 4, 1.0, 0.0),
    ],
)
def test_binomial_tails_of_worked_examples(count: int, n: int, p: float, expected: float) -> None:
    assert binomial_cdf(count, n, p) == pytest.approx(expected, abs=1e-15)


def test_binomial_tails_are_those_of_exact_fractions() -> None:
    draw = random.Random(1)
    for _ in range(200):
        n = draw.randint(1, 60)
        count, p = draw.randint(0, n), Fraction(draw.randint(1, 19), 20)
        assert binomial_cdf(count, n, float(p)) == pytest.approx(float(exact_cdf(count, n, p)), rel=1e-11)
    assert binomial_cdf(2_500, 5_001, 0.5) == pytest.approx(0.5, rel=1e-9)  # C(5001, 2500) exceeds a float


def test_fewest_answers_are_the_first_whose_bound_is_low_enough() -> None:
    assert fewest_answers(0.2, 0.9) == 11  # 0.8 ** 10 is 0.107, and 0.8 ** 11 is 0.086
    assert fewest_answers(0.1, 0.9) == 22
    assert fewest_answers(0.5, 0.5) == 1
    for risk in (0.05, 0.3, 0.6):
        fewest = fewest_answers(risk, 0.9)
        assert binomial_cdf(0, fewest, risk) <= 0.1 + 1e-12 < binomial_cdf(0, fewest - 1, risk)


def steps(*runs: tuple[int, bool]) -> Scored:
    """Scores that fall by 1 from each answer to the next, for runs of right or wrong answers."""
    labels = [is_wrong for count, is_wrong in runs for _ in range(count)]
    return [(float(len(labels) - place), is_wrong) for place, is_wrong in enumerate(labels)]


def test_right_answers_need_no_threshold_and_too_few_have_none() -> None:
    assert calibrate_threshold(steps((11, False)), 0.2, 0.9) == -math.inf
    assert calibrate_threshold(steps((10, False)), 0.2, 0.9) is None
    assert calibrate_threshold([], 0.2, 0.9) is None
    assert calibrate_threshold(steps((50, True)), 0.2, 0.9) is None


def test_the_threshold_lies_below_the_last_answers_that_keep_the_risk() -> None:
    # with 22 right answers and k wrong ones, P(at most k of 22 + k) by 0.2 is 0.007, 0.040 and 0.115
    assert [exact_cdf(k, 22 + k, Fraction(1, 5)) <= Fraction(1, 10) for k in (0, 1, 2)] == [True, True, False]
    scored = steps((22, False), (30, True))
    assert calibrate_threshold(scored, 0.2, 0.9) == 52 - 23 + 0.5


def test_one_wrong_answer_at_the_top_does_not_end_the_calibration() -> None:
    scored = steps((1, True), (24, False), (75, True))
    tails = [exact_cdf(wrong, 24 + wrong, Fraction(1, 5)) <= Fraction(1, 10) for wrong in (1, 2, 3)]
    assert tails == [True, True, False]
    assert calibrate_threshold(scored, 0.2, 0.9) == 100 - 26 + 0.5
    assert calibrate_threshold(scored, 0.2, 0.9, start=0.0) is None  # it begins with 11 answers


def test_equal_scores_are_answered_together_and_order_and_scale_do_not_matter() -> None:
    scored = [(0.9, False)] * 25 + [(0.5, place < 20) for place in range(25)]
    found = calibrate_threshold(scored, 0.2, 0.9)
    assert found == pytest.approx(0.7)
    random.Random(3).shuffle(scored)
    assert calibrate_threshold(scored, 0.2, 0.9) == found
    scaled = calibrate_threshold([(10 * score - 3, wrong) for score, wrong in scored], 0.2, 0.9)
    assert scaled == pytest.approx(4.0)


def made_up(seed: int, n: int, rate: float, slope: float) -> Scored:
    draw = random.Random(seed)
    scores = [draw.random() for _ in range(n)]
    return [(score, draw.random() < min(1.0, max(0.0, rate - slope * (score - 0.5)))) for score in scores]


def test_answers_above_a_threshold_have_an_upper_bound_within_the_risk() -> None:
    found = 0
    for seed in range(300):
        scored = made_up(seed, 40 + seed % 100, 0.4, 0.7)
        threshold = calibrate_threshold(scored, 0.3, 0.9)
        if threshold is not None:
            found += 1
            kept = [wrong for score, wrong in scored if score >= threshold]
            assert binomial_cdf(sum(kept), len(kept), 0.3) <= 0.1 + 1e-9
    assert found > 50


@pytest.mark.parametrize("slope", [0.0, 0.5])
def test_the_true_risk_exceeds_the_stated_one_in_at_most_one_sample_in_ten(slope: float) -> None:
    samples, broken = 1_000, 0
    for seed in range(samples):
        threshold = calibrate_threshold(made_up(seed, 80, 0.25, slope), 0.2, 0.9)
        if threshold is not None:  # the error is linear in the score, so its mean is that of the middle
            broken += 0.25 - slope * ((max(0.0, threshold) + 1) / 2 - 0.5) > 0.2
    assert broken <= 0.1 * samples + 2 * math.sqrt(samples * 0.1 * 0.9)


def pair_correlation(values: Sequence[float], size: int) -> float:
    """Fisher's correlation over all ordered pairs of a group, for groups of one ``size``."""
    mean = sum(values) / len(values)
    parts = [values[at : at + size] for at in range(0, len(values), size)]
    pairs = [
        (a - mean) * (b - mean) for part in parts for i, a in enumerate(part) for j, b in enumerate(part) if i != j
    ]
    return sum(pairs) / len(pairs) / (sum((value - mean) ** 2 for value in values) / len(values))


def test_the_correlation_within_groups_is_near_that_of_all_pairs() -> None:
    draw = random.Random(5)
    for size in (2, 3, 8):
        lifts = [draw.gauss(0, 1) for _ in range(200)]
        values = [lift + draw.gauss(0, 1) for lift in lifts for _ in range(size)]
        groups = [place // size for place in range(len(values))]
        assert intraclass_correlation(values, groups) == pytest.approx(pair_correlation(values, size), abs=0.01)


def test_the_correlation_is_1_of_copies_and_0_where_it_is_not_known_or_negative() -> None:
    assert intraclass_correlation([0, 0, 1, 1, 1, 1], [7, 7, 3, 3, 5, 5]) == pytest.approx(1.0)
    assert intraclass_correlation([0, 1, 0, 1], [0, 0, 1, 1]) == 0.0
    assert intraclass_correlation([0, 1, 1], [0, 1, 2]) == 0.0
    assert intraclass_correlation([0, 1, 1], [0, 0, 0]) == 0.0
    assert intraclass_correlation([1, 1, 1, 1], [0, 0, 1, 1]) == 0.0
    assert intraclass_correlation([], []) == 0.0


@pytest.mark.parametrize("copies", [2, 5])
def test_copies_in_a_group_count_as_one_question(copies: int) -> None:
    found = set()
    for seed in range(40):
        scored = made_up(seed, 120, 0.3, 0.6)
        copied = [one for one in scored for _ in range(copies)]
        groups = [place // copies for place in range(len(copied))]
        alone = calibrate_threshold(scored, 0.3, 0.9, start=0.0)
        assert calibrate_threshold(copied, 0.3, 0.9, groups=groups, start=0.0) == alone
        found.add(alone)
    assert len(found) > 10


def test_each_in_a_group_of_its_own_is_independent() -> None:
    for seed in range(40):
        scored = made_up(seed, 80, 0.3, 0.6)
        assert calibrate_threshold(scored, 0.3, 0.9, groups=list(range(80))) == calibrate_threshold(scored, 0.3, 0.9)


def test_by_group_the_risk_is_kept_in_new_groups_that_are_wrong_together() -> None:
    """Half of the documents have a risk of 0, the others of .9, whatever the score: so .45 in new documents."""
    samples, exceeded = 600, {False: 0, True: 0}
    groups = [place // 10 for place in range(120)]
    for seed in range(samples):
        draw = random.Random(seed)
        risks = [draw.choice((0.0, 0.9)) for _ in range(12)]
        scored = [(draw.random(), draw.random() < risks[group]) for group in groups]
        for grouped in exceeded:
            exceeded[grouped] += calibrate_threshold(scored, 0.4, 0.9, groups=groups if grouped else None) is not None
    assert exceeded[True] <= 0.1 * samples < exceeded[False]


def test_wrong_are_poor_answers_and_answers_to_what_has_none() -> None:
    def record(answer: str, mark: float | None) -> dict[str, object]:
        refusal = float(answer == NOT_FOUND) if mark is None else None
        return {"answer": answer, "measures": {"judge": mark, "refusal": refusal}}

    records = {
        "good": record("At night.", 0.25),
        "poor": record("In spring.", 0.2),
        "no": record(NOT_FOUND, 0.0),
        "made up": record("Yes.", None),
        "none": record(NOT_FOUND, None),
    }
    found = Evaluation("key", (), (*records, "failed"), records, {"failed": {}})
    assert find_wrong(found, 0.25) == {"good": False, "poor": True, "no": None, "made up": True, "none": None}
    counts = count_answers(found, 0.25)
    assert counts == AnswerCounts(5, 3, 2)
    assert counts.describe("test") == "3 of 5 test questions answered, 2 of these answers wrong (67 %)"
    assert AnswerCounts(4, 0, 0).describe() == "0 of 4 questions answered"
