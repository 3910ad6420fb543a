"""Learning linear scores from lists, against plain loops over the definition and scipy's minimiser."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learned_ranking import loss_of, random_questions
from scipy import optimize

from ragsmith.techniques.listwise import (
    MIN_QUESTIONS,
    QUESTION_WEIGHTS,
    RIDGE,
    RankingQuestions,
    WeightPrior,
    adapt_weights,
    choose_question_weight,
    is_informative,
    minimize_loss,
    score_rows,
    solve,
    standardize,
)

NAMES = ("a", "b", "c", "d")
TRUE = (1.5, -1.0, 0.5, 0.0)


def positive_definite(seed, size):
    root = np.random.default_rng(seed).normal(size=(size, size))
    return root @ root.T / size + 0.1 * np.eye(size)


def general(seed=1, weights=(0.4, 0.3, -0.2, 0.1), questions=30):
    return WeightPrior(NAMES, np.array(weights), positive_definite(seed, len(NAMES)), questions)


def found_by_scipy(observations, counts, centre, curvature):
    def loss(weights):
        away = weights - centre
        total, gradient = float(away @ curvature @ away) / 2, curvature @ away
        for count, observation in zip(counts, observations, strict=True):
            value, slope = loss_of(weights, observation)
            total, gradient = total + count * value, gradient + count * slope
        return total, gradient

    return optimize.minimize(loss, np.zeros(len(centre)), jac=True, method="BFGS", options={"gtol": 1e-9}).x


def weights_from(observations, known, without=""):
    return solve(observations, general=known, without=without)["weights"]


# --- the minimum -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_the_minimum_is_where_another_minimiser_finds_it(seed):
    draw = np.random.default_rng(seed)
    observations = random_questions(seed, TRUE, 15)
    counts, centre, curvature = draw.uniform(0.1, 5, 15), draw.normal(size=4), positive_definite(seed, 4)
    found = minimize_loss(RankingQuestions.from_observations(observations), counts, centre, curvature)
    assert found == pytest.approx(found_by_scipy(observations, counts.tolist(), centre, curvature), abs=5e-7)


def test_the_minimum_is_found_from_far_away():
    observations = random_questions(3, TRUE, 15)
    centre, curvature = np.array([60.0, -80.0, 70.0, 90.0]), 0.01 * np.eye(4)
    found = minimize_loss(RankingQuestions.from_observations(observations), np.ones(15), centre, curvature)
    assert found == pytest.approx(found_by_scipy(observations, [1.0] * 15, centre, curvature), abs=1e-5)


# --- what teaches, and what does not ---------------------------------------------------------------------------------

rows = st.lists(st.tuples(*[st.integers(-8, 8).map(lambda n: n / 4)] * 4).map(list), min_size=2, max_size=5)


@st.composite
def lists_of_questions(draw):
    found = []
    for signals in draw(st.lists(rows, min_size=MIN_QUESTIONS, max_size=12)):
        labels = draw(st.lists(st.booleans(), min_size=len(signals), max_size=len(signals)))
        found.append({"question": "", "signals": signals, "relevant": labels, "group": draw(st.sampled_from("xyz"))})
    return found


@settings(max_examples=40)
@given(lists_of_questions(), st.randoms(use_true_random=False))
def test_the_order_of_questions_and_candidates_does_not_matter(observations, by):
    shuffled = []
    for one in by.sample(observations, len(observations)):
        order = by.sample(range(len(one["relevant"])), len(one["relevant"]))
        shuffled.append({**one, **{key: [one[key][place] for place in order] for key in ("signals", "relevant")}})
    found, again = (solve(these, general=general(), without="") for these in (observations, shuffled))
    assert again["times"] == found["times"]
    assert again["weights"] == pytest.approx(found["weights"], abs=1.5e-6)


@settings(max_examples=25)
@given(lists_of_questions(), rows, st.integers(0, 12))
def test_a_question_without_relevant_and_other_candidates_teaches_nothing(observations, signals, place):
    idle = [
        {"question": "", "signals": signals, "relevant": [False] * len(signals), "group": ""},
        {"question": "", "signals": signals, "relevant": [True] * len(signals), "group": "x"},
        {"question": "", "signals": signals[:1], "relevant": [True], "group": "new"},
        {"question": "", "signals": [], "relevant": [], "group": ""},
    ]
    assert not any(map(is_informative, idle))
    padded = [*observations[:place], *idle, *observations[place:]]
    assert solve(padded, general=general(), without="") == solve(observations, general=general(), without="")


# --- how often one's own questions count -----------------------------------------------------------------------------


def test_without_questions_the_general_weights_are_taken():
    known, observations = general(), random_questions(1, TRUE)
    named = dict(zip(NAMES, known.weights.tolist(), strict=True))
    assert solve([], general=known, without="") == {"times": 0, "weights": named}
    assert adapt_weights(RankingQuestions.from_observations(observations), known, 0).tolist() == known.weights.tolist()
    assert adapt_weights(RankingQuestions.from_observations([]), known, 30).tolist() == known.weights.tolist()


@pytest.mark.parametrize(("count", "groups", "told"), [(MIN_QUESTIONS - 1, 4, False), (40, 1, False), (40, 4, True)])
def test_own_questions_count_where_enough_of_them_in_several_groups_clearly_say_otherwise(count, groups, told):
    wrong = general(weights=(-1.5, 1.0, -0.5, 0.0))
    observations = random_questions(11, (3.0, -2.0, 1.0, 0.0), count, groups=groups)
    assert (choose_question_weight(observations, wrong) > 0) is told
    found = solve(observations, general=wrong, without="")
    assert (found["times"] > 0) is told
    assert (found["weights"]["a"] > 0) is told


def test_own_questions_do_not_count_where_they_say_nothing():
    draw = np.random.default_rng(4)
    observations = random_questions(12, (0.0,) * 4, 40)
    for one in observations:
        one["relevant"] = (np.arange(len(one["relevant"])) == draw.integers(len(one["relevant"]))).tolist()
    assert choose_question_weight(observations, general(weights=(0.0,) * 4, questions=200)) == 0


# --- without a signal ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("held", range(4))
def test_without_a_signal_the_quadratic_is_minimised_with_its_weight_at_0(held):
    known = general(seed=9)
    system = np.zeros((5, 5))  # of the minimum under one linear condition, with its multiplier
    system[:4, :4], system[4, held], system[held, 4] = known.curvature, 1, 1
    expected = np.linalg.solve(system, [*(known.curvature @ known.weights), 0])[:4]
    fewer = known.without(NAMES[held])
    assert fewer.signals == NAMES[:held] + NAMES[held + 1 :]
    assert fewer.weights == pytest.approx(np.delete(expected, held))
    assert fewer.curvature.tolist() == np.delete(np.delete(known.curvature, held, 0), held, 1).tolist()
    assert fewer.questions == known.questions
    assert known.without("") is known


def test_without_a_signal_own_questions_teach_the_others():
    known, observations = general(weights=(-1.5, 1.0, -0.5, 0.0)), random_questions(11, (3.0, -2.0, 1.0, 0.0), 40)
    found = solve(observations, general=known, without="b")
    assert found["times"] > 0
    fewer = [{**one, "signals": np.delete(one["signals"], 1, axis=1).tolist()} for one in observations]
    left = known.without("b")
    expected = found_by_scipy(fewer, [float(found["times"])] * 40, left.weights, left.questions * left.curvature)
    assert list(found["weights"].values()) == pytest.approx(expected, abs=1e-6)
    assert list(found["weights"]) == ["a", "c", "d"]


def test_a_signal_that_is_not_there_cannot_be_left_out():
    with pytest.raises(ValueError, match="there is no signal 'e': use one of a, b, c, d"):
        general().without("e")


# --- signals and scores ----------------------------------------------------------------------------------------------

columns = st.lists(st.tuples(st.integers(-99, 99), st.integers(-99, 99)), min_size=1, max_size=12).map(np.array)


@settings(max_examples=60)
@given(columns, st.floats(-1e4, 1e4))
def test_signals_have_mean_0_and_deviation_1_but_constant_ones_are_0(found, constant):
    signals = standardize([*found.T.astype(float), np.full(len(found), constant)])
    assert signals.mean(axis=0) == pytest.approx(np.zeros(3), abs=1e-6)
    spread = [float(len(set(column)) > 1) for column in found.T.tolist()]
    assert signals.std(axis=0) == pytest.approx(np.array([*spread, 0.0]), abs=1e-6)


def test_the_signal_that_is_left_out_counts_nothing():
    signals, names = np.array([[1.0, 2.0], [3.0, -1.0]]), ("one", "other")
    assert score_rows(signals, names, {"one": 2.0, "other": 0.5}).tolist() == [3.0, 5.5]
    assert score_rows(signals, names, {"other": 0.5}, "one").tolist() == [1.0, -0.5]
    assert score_rows(np.zeros((0, 2)), names, {"other": 0.5, "one": 0.0}).tolist() == []


@pytest.mark.parametrize(
    ("weights", "without"),
    [
        ({}, ""),
        ({"one": 1.0}, ""),
        ({"one": 1.0, "other": 1.0, "third": 1.0}, ""),
        ({"one": 1.0, "other": 1.0}, "one"),
        ({"one": 1.0}, "one"),
    ],
)
def test_weights_of_other_signals_are_refused(weights, without):
    expected = "other" if without else "one, other"
    with pytest.raises(
        ValueError, match=rf"for the signals {', '.join(weights)}, and the technique orders by {expected}: search"
    ):
        score_rows(np.zeros((2, 2)), ("one", "other"), weights, without)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_signal_has_to_be_a_finite_number(value):
    with pytest.raises(ValueError, match="not a finite number"):
        standardize([np.array([1.0, 2.0]), np.array([0.0, value])])


def test_how_much_a_signal_varies_is_judged_by_how_large_it_is():
    small = np.array([1.0, 2.0, 3.0]) * 1e-12
    large = np.array([1e15, 1e15, 1e15 + 1])  # differences of such are rounding errors
    found = standardize([small, large])
    assert found[:, 0] == pytest.approx(standardize([small * 1e12])[:, 0])
    assert found[:, 1].tolist() == [0, 0, 0]


# --- where nobody taught ---------------------------------------------------------------------------------------------


def test_where_no_data_set_taught_own_questions_teach_alone():
    nothing = WeightPrior.zero(NAMES)
    named = dict.fromkeys(NAMES, 0.0)
    assert solve([], general=nothing, without="") == {"times": 0, "weights": named}
    observations = random_questions(11, (3.0, -2.0, 1.0, 0.0), 40)
    found = solve(observations, general=nothing, without="")
    assert found["times"] > 0
    expected = found_by_scipy(observations, [float(found["times"])] * 40, np.zeros(4), RIDGE * np.eye(4))
    assert list(found["weights"].values()) == pytest.approx(expected, abs=1e-6)


def test_what_questions_of_one_group_say_alike_is_said_once():
    told = []
    for seed in range(30):
        observations = random_questions(seed, (0.5, -0.3, 0.0, 0.0), 15, groups=15)
        known = general(weights=(0.0,) * 4)
        told.append(
            (
                choose_question_weight(observations, known),
                choose_question_weight([one for one in observations for _ in range(3)], known),
            )
        )
    # each thrice at times 1 is each once at times 3, so that nothing but the standard error could differ
    assert [(once, thrice) for once, thrice in told if not once and 3 * thrice in QUESTION_WEIGHTS[1:]] == []
    assert 5 < sum(not once for once, _ in told) < 25
