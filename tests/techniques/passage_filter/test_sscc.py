import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import ScaleError
from ragsmith.techniques.acceptance import fit_threshold
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.passage_filter.sscc import observe, solve, sscc
from ragsmith.testing import example_chunks, hits_of
from ragsmith.types import Fitted, Gold, Question, Scale

QUESTION = Question("?")
OBJECTIVES = ("balanced_accuracy", "f_beta", "recall")


def value(passing, dropped, objective):
    """What a cut is worth, from the textbook definitions."""
    tp, fp, fn, tn = sum(passing), passing.count(False), sum(dropped), dropped.count(False)
    if objective == "balanced_accuracy":
        return (tp / (tp + fn) + tn / (tn + fp)) / 2
    precision, recall = tp / (tp + fp), tp / (tp + fn)
    if objective == "recall":
        return float(recall >= 0.95 - 1e-12)
    return 5 * precision * recall / (4 * precision + recall) if tp else 0.0


def brute_force(scored, objective):
    """Which of the scores the best of all cuts keeps: the lowest of equal ones, and for recall the highest."""
    best = None
    for cut in sorted({score for score, _ in scored}):
        passing = [relevant for score, relevant in scored if score >= cut]
        worth = round(value(passing, [r for s, r in scored if s < cut], objective), 12)
        if best is None or worth > best[0] or (objective == "recall" and worth == best[0]):
            best = worth, cut
    assert best is not None
    return [score >= best[1] for score, _ in scored]


@given(
    st.lists(st.tuples(st.integers(-8, 8).map(lambda n: n / 4), st.booleans()), min_size=1, max_size=25),
    st.sampled_from(OBJECTIVES),
)
@settings(max_examples=150)
def test_finds_the_best_of_all_cuts(scored, objective):
    tau = fit_threshold(scored, objective)
    if len({relevant for _, relevant in scored}) < 2:
        assert tau is None
        return
    kept = [tau is None or score >= tau for score, _ in scored]
    assert kept == brute_force(scored, objective)


def test_a_threshold_lies_midway_between_two_scores():
    scored = [(0.1, False), (0.2, False), (0.6, True), (0.9, True)]
    assert fit_threshold(scored, "balanced_accuracy") == pytest.approx(0.4)
    assert fit_threshold(scored, "f_beta") == pytest.approx(0.4)
    assert fit_threshold(scored, "recall") == pytest.approx(0.4)


def test_objectives_differ_in_what_they_give_up():
    # one relevant score among the low ones, nineteen high up
    scored = [(0.0, True)] + [(0.1, False)] * 4 + [(0.5, True)] * 19 + [(0.3, False)] * 40
    assert fit_threshold(scored, "recall") == pytest.approx(0.4)  # 19 of 20 are 95 %
    many = [(0.0, True)] * 3 + [(0.1, False)] * 3 + [(0.5, True)] * 7
    assert fit_threshold(many, "balanced_accuracy") == pytest.approx(0.3)
    assert fit_threshold(many, "f_beta") is None
    assert fit_threshold(many, "recall") is None


def test_of_equal_thresholds_the_lowest_is_taken():
    scored = [(1.0, False), (2.0, True), (3.0, False), (4.0, True)]
    assert fit_threshold(scored, "balanced_accuracy") == 1.5  # 3.5 is worth as much


def test_neighbouring_floats_are_told_apart():
    low, high = 0.1, 0.1 + 2**-56
    assert low < high
    tau = fit_threshold([(low, False), (high, True)], "balanced_accuracy")
    assert tau is not None
    assert low < tau <= high


def test_a_scale_without_data_or_with_one_class_is_kept_whole(chunks):
    numbers = solve([[["bm25", 3.0, True], ["bm25", 9.0, True]], []], objective="balanced_accuracy")
    assert numbers == {"thresholds": {}}
    for scale in (Scale.BM25, Scale.COSINE):
        hits = hits_of(chunks, [0.3, 0.2, -0.1], scale)
        assert sscc(QUESTION, hits, fitted=Fitted(numbers)) == hits


def test_observations_are_plain(chunks):
    hits = hits_of(chunks, [2.0, 8.0, 4.0], Scale.BM25)
    gold = Gold(frozenset({chunks[1].id}))
    seen = observe(QUESTION, hits, gold=gold, per_scale=True)
    assert seen == [["bm25", 8.0, True], ["bm25", 4.0, False], ["bm25", 2.0, False]]
    assert json.loads(json.dumps(seen)) == seen
    within = observe(QUESTION, hits, gold=gold, per_scale=False)
    assert within == [["minmax", 1.0, True], ["minmax", pytest.approx(1 / 3), False], ["minmax", 0.0, False]]
    assert observe(QUESTION, (), gold=gold, per_scale=True) == []


def test_each_scale_is_cut_at_its_own_threshold(chunks):
    fitted = Fitted({"thresholds": {"cosine": 0.5, "bm25": 7.0}})
    scores = [9.0, 7.0, 6.9, 0.6]
    assert len(sscc(QUESTION, hits_of(chunks, scores, Scale.BM25), fitted=fitted)) == 2
    assert len(sscc(QUESTION, hits_of(chunks, scores, Scale.COSINE), fitted=fitted)) == 4
    assert len(sscc(QUESTION, hits_of(chunks, scores, Scale.RRF), fitted=fitted)) == 4


def test_one_threshold_within_the_list(chunks):
    fitted = Fitted({"thresholds": {"minmax": 0.5}})
    for scale, scores in ((Scale.BM25, [40.0, 22.0, 21.0, 2.0]), (Scale.COSINE, [0.9, 0.81, 0.8, 0.7])):
        assert len(sscc(QUESTION, hits_of(chunks, scores, scale), fitted=fitted, per_scale=False)) == 3


@given(st.lists(st.integers(-9, 9), max_size=10), st.integers(-10, 10), st.integers(1, 4))
@settings(max_examples=60)
def test_never_fewer_than_asked_for_and_always_the_head(scores, tau, least):
    hits = hits_of(example_chunks(), sorted(scores, reverse=True), Scale.CROSS_ENCODER)
    kept = sscc(QUESTION, hits, fitted=Fitted({"thresholds": {"cross_encoder": float(tau)}}), min_keep=least)
    passing = [score for score in scores if score >= tau]
    assert len(kept) == min(len(hits), max(least, len(passing)))
    assert [hit.score for hit in kept] == sorted(map(float, scores), reverse=True)[: len(kept)]


def test_refuses_mixed_scales_and_wrong_bounds(chunks):
    fitted = Fitted({"thresholds": {}})
    mixed = hits_of(chunks, [0.2], Scale.COSINE) + hits_of(chunks[1:], [7.0], Scale.RRF)
    with pytest.raises(ScaleError):
        sscc(QUESTION, mixed, fitted=fitted)
    for wrong in ({"min_keep": 0}, {"min_keep": 4, "keep_at_most": 3}):
        with pytest.raises(ValueError, match="give 1 <= min_keep <= keep_at_most"):
            sscc(QUESTION, (), fitted=fitted, **wrong)


def test_the_published_constants_need_no_questions(chunks):
    technique = passage_filter["sscc"]
    assert technique.learns(technique.defaults)
    assert not technique.learns(technique.resolve_parameters({"objective": "published"}))
    for scale, scores, kept in (
        (Scale.COSINE, [0.7, 0.5, 0.49], 2),
        (Scale.CROSS_ENCODER, [0.2, 0.0, -0.1], 2),
        (Scale.BM25, [7.0, 0.5, 0.1], 3),  # without a constant, all
    ):
        hits = hits_of(chunks, scores, scale)
        assert sscc(QUESTION, hits, fitted=Fitted({}), objective="published") == hits[:kept]
    with pytest.raises(ValueError, match="give per_scale=True with them"):
        sscc(QUESTION, (), fitted=Fitted({}), objective="published", per_scale=False)


def test_scaling_within_the_list_needs_no_second_threshold(chunks):
    def observed(stretch):
        hits = hits_of(chunks, [stretch * s for s in (9, 8, 3, 2, 1)], Scale.BM25)
        return observe(QUESTION, hits, gold=Gold(frozenset({chunks[0].id, chunks[1].id})), per_scale=False)

    numbers = solve([observed(1.0), observed(40.0)], objective="balanced_accuracy")
    assert numbers["thresholds"] == {"minmax": pytest.approx((2 / 8 + 7 / 8) / 2)}
