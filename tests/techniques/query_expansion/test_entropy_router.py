import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.techniques.query_expansion.entropy_router import (
    compute_distances,
    entropy_router,
    is_multi_hop,
    observe,
    softmax_entropy,
    solve,
)
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Chunk, Fitted, Gold, Question

QUESTION = Question("0")


class AngleEmbedder:
    """Gives each text the unit vector at the angle, in degrees, that it spells."""

    id = "angle"

    def embed(self, texts):
        angles = np.radians([float(text) for text in texts])
        return np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)


def at(*angles):
    chunks = tuple(Chunk(f"c{i:02}", "d", i, 0, 1, str(angle)) for i, angle in enumerate(angles))
    return hits_of(chunks, [1 - i / 100 for i in range(len(angles))])


def model():
    return ScriptedModel({"imagine_passage": ["10"], "broader_question": ["20"], "sub_questions": [("30",)]})


def went(search, numbers=None, question=QUESTION, **parameters):
    asked = model()
    fitted = Fitted(numbers or {})
    entropy_router(question, search, language_model=asked, embedder=AngleEmbedder(), fitted=fitted, **parameters)
    return asked.calls[0].task if asked.calls else "plain"


# --- the entropy -----------------------------------------------------------------------------------------------------


@given(st.lists(st.floats(0, 4), min_size=1, max_size=20), st.sampled_from([0.02, 0.05, 1.0]))
@settings(max_examples=80)
def test_the_entropy_is_that_of_the_softmax(values, temperature):
    p = np.exp(-np.array(values) / temperature)
    if p.sum() > 1e-280:  # below, the textbook formula loses digits
        p = p[p > 0] / p.sum()
        assert softmax_entropy(values, temperature) == pytest.approx(float(-(p * np.log(p)).sum()), abs=1e-8)
    assert 0 <= softmax_entropy(values, temperature) <= math.log(len(values)) + 1e-9
    assert softmax_entropy(values, temperature) <= softmax_entropy(values, 2 * temperature) + 1e-8


def test_distances_are_squared_euclidean():
    found = compute_distances(QUESTION, at(0, 90, 180, 60), AngleEmbedder())
    assert found == pytest.approx((0.0, 2.0, 4.0, 1.0))
    assert compute_distances(QUESTION, (), AngleEmbedder()) == ()


# --- the routes ------------------------------------------------------------------------------------------------------


FAR = [100.0] * 16
WIDE = [25 + 2 * i for i in range(20)]  # distances from 0.19 to 1.1, wider than the paper's
TWO = math.log(2)


@pytest.mark.parametrize(
    ("angles", "parameters", "task"),
    [
        ([1.0, *FAR], {}, "plain"),
        ([*[1.0] * 9, *FAR], {}, "imagine_passage"),  # log 9 = 2.2
        ([1.0] * 20, {}, "broader_question"),  # log 20 = 3.0
        ([1.0] * 20, {"nearest": 4}, "plain"),
        ([5.0, 5.0], {"low": round(TWO, 9), "high": 1.0}, "imagine_passage"),  # thresholds are half open
        ([5.0, 5.0], {"low": 0.0, "high": round(TWO, 9)}, "broader_question"),
        (WIDE, {"temperature": 1.0}, "broader_question"),  # as published, everything is undecided
        (WIDE, {}, "plain"),
        ([], {}, "broader_question"),
    ],
)
def test_the_entropy_of_the_nearest_hits_decides(search, angles, parameters, task):
    assert went(search({"0": at(*angles), "20": at(3)}), **parameters) == task


def test_the_plain_hits_are_searched_once_and_cut(search):
    results = search(at(1, *[100.0] * 9))
    kept = entropy_router(
        QUESTION, results, language_model=model(), embedder=AngleEmbedder(), fitted=Fitted({}), depth=3
    )
    assert kept == at(1, *[100.0] * 9)[:3]
    assert results.calls == [("0",)]


def test_wrong_parameters_are_refused(search):
    for wrong in ({"temperature": 0.0}, {"low": 3.0}, {"nearest": 0}):
        with pytest.raises(ValueError, match="give a temperature above 0, low up to high"):
            went(search(()), **wrong)


# --- several hops ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "several"),
    [
        ("Which guild did Oswin Tarrel join?", True),
        ("Which guild did Tarrel join?", False),
        ("Tarrel and Tarrel?", False),  # one name, twice
        ("Who is older, he or she?", False),
        ("Are both of them old?", True),
        ("What is the difference between tin and lead?", True),
        ("Is Al in LA?", False),  # of two letters
    ],
)
def test_what_has_several_hops(text, several):
    assert is_multi_hop(text) is several


def test_an_undecided_question_of_several_hops_is_decomposed(search):
    class Anywhere(AngleEmbedder):
        """Text that is no number lies at 0 degrees."""

        def embed(self, texts):
            return super().embed([text if text[-1].isdigit() else "0" for text in texts])

    def asked_for(text, multi_hop):
        asked = model()
        given = {"language_model": asked, "embedder": Anywhere(), "fitted": Fitted({}), "multi_hop": multi_hop}
        entropy_router(Question(text), search(at(*[1.0] * 20)), **given)
        return asked.calls[0].task

    assert asked_for("Which guild did Oswin Tarrel join?", True) == "sub_questions"
    assert asked_for("Which guild did Oswin Tarrel join?", False) == "broader_question"
    assert asked_for("Which guild was it?", True) == "broader_question"


# --- fitted thresholds -----------------------------------------------------------------------------------------------


def routed(entropy, low, high):
    return 0 if entropy < low else 1 if entropy < high else 2


def worth(observed, low, high, thresholds):
    """What a pair of thresholds is worth, question by question."""
    total = 0.0
    for entropy, ndcg in observed:
        way = routed(entropy, low, high)
        oracle = max(range(3), key=lambda i: (ndcg[i], -i))
        total += ndcg[way] if thresholds == "ndcg" else float(way == oracle)
    return round(total, 9)


observations = st.lists(
    st.tuples(
        st.integers(0, 8).map(lambda n: n / 4),
        st.tuples(*[st.integers(0, 4).map(lambda n: n / 4)] * 3),
    ),
    min_size=1,
    max_size=12,
)


@given(observations, st.sampled_from(["ndcg", "agreement"]))
@settings(max_examples=120)
def test_the_best_of_all_pairs_is_found(observed, thresholds):
    found = solve([{"entropy": h, "ndcg": list(n)} for h, n in observed], thresholds=thresholds, nearest=20)
    cuts = [0.0, *(h + 1e-6 for h, _ in observed), 9.0]
    pairs = {(low, high): worth(observed, low, high, thresholds) for low in cuts for high in cuts if low <= high}
    best = max(pairs.values())
    assert worth(observed, found["low"], found["high"], thresholds) == best
    ways = [
        [[routed(h, *pair) for h, _ in observed].count(way) for way in (0, 2)]
        for pair, value in pairs.items()
        if value == best
    ]
    plain, broad = max((plain, -broad) for plain, broad in ways)
    mine = [routed(h, found["low"], found["high"]) for h, _ in observed]
    assert (mine.count(0), -mine.count(2)) == (plain, broad)


def test_fitted_thresholds_lie_midway_and_decide(search):
    better = [(0.5, [1.0, 0.0, 0.0]), (1.0, [0.0, 1.0, 0.0]), (2.0, [0.0, 0.0, 1.0])]
    found = solve([{"entropy": h, "ndcg": n} for h, n in better], thresholds="ndcg", nearest=20)
    assert found == {"low": 0.75, "high": 1.5}
    two = search(at(5, 5))  # log 2 = .69
    assert went(two, found, thresholds="ndcg", temperature=1.0) == "plain"
    assert went(two, {"low": 0.1, "high": 0.2}, thresholds="ndcg", temperature=1.0) == "broader_question"
    assert went(two, {"low": 0.1, "high": 0.2}, temperature=1.0) == "plain"  # those given hold


def test_agreement_and_ndcg_differ_where_one_question_is_worth_many():
    observed = [(1.0, [0.0, 0.1, 0.0])] * 3 + [(1.0, [1.0, 0.0, 0.0])]
    plain = [{"entropy": h, "ndcg": n} for h, n in observed]
    assert solve(plain, thresholds="ndcg", nearest=20)["low"] > 1.0
    assert (
        solve(plain, thresholds="agreement", nearest=20)["low"]
        <= 1.0
        < solve(plain, thresholds="agreement", nearest=20)["high"]
    )


def test_what_is_observed(search):
    hits = at(5, 5)
    asked = {"language_model": model(), "embedder": AngleEmbedder(), "temperature": 1.0}
    rest = {"multi_hop": False, "nearest": 20, "depth": 20}
    seen = observe(
        QUESTION, search({"0": hits, "10": hits[1:], "20": ()}), gold=Gold(frozenset({"c01"})), **asked, **rest
    )
    assert seen["entropy"] == softmax_entropy([1.0, 1.0], 1.0)
    assert seen["ndcg"] == pytest.approx([1 / math.log2(3), 1.0, 1 / math.log2(3)])  # both paths find c01
    assert observe(QUESTION, search(hits), gold=Gold(frozenset()), **asked, **rest)["ndcg"] == []
    with pytest.raises(ValueError, match="no calibration question has gold"):
        solve([{"entropy": 0.0, "ndcg": []}], thresholds="ndcg", nearest=20)
