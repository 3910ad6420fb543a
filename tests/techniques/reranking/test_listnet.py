"""Learned reranking: five hits by hand, and what the cross-encoder is asked."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.techniques.reranking.listnet import SIGNALS, listnet, observe, signals
from ragsmith.testing import example_chunks, hits_of
from ragsmith.types import Chunk, Fitted, Gold, Question, Scale

QUESTION = Question("Who pays the harbour dues of 1620?")  # read as: pay, harbour, due, 1620


class Scorer:
    """Scores a text by its length, or as it is told, and records what it was asked."""

    id = "scorer"

    def __init__(self, *scores):
        self.scores = scores
        self.asked = []

    def score(self, query, texts):
        self.asked.append((query, tuple(texts)))
        return self.scores or tuple(len(text) / 10 for text in texts)


def chunk(number, text, title="", headings=()):
    return Chunk(f"d:{number}", f"doc {number}", 0, 0, len(text), text, title, headings)


FIVE = (
    chunk(0, "Ships pay harbour dues.", "The harbour", ("Dues",)),
    chunk(1, "Harbour.", "The harbour"),
    chunk(2, "The dues of the harbour in 1620 and 1621.", "", ("Harbour dues", "Pays")),
    chunk(3, "Salt."),
    chunk(4, "It pays.", "Dues of 1620"),
)


def standard(values):
    mean = sum(values) / len(values)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return [(value - mean) / spread for value in values]


def hits_in(chunks, *scores, scale=Scale.RRF):
    return hits_of(chunks, scores, scale)


def reranked(hits, scorer, *, depth=20, **weights):
    fitted = Fitted({"weights": {**dict.fromkeys(SIGNALS, 0.0), **weights}})
    return listnet(QUESTION, hits, cross_encoder=scorer, fitted=fitted, depth=depth)


def ids(hits):
    return [hit.chunk.id for hit in hits]


def test_signals_of_five_hits_by_hand():
    scores = (0.9, 0.8, 0.6, 0.5, 0.1)
    rows = signals(QUESTION, hits_in(FIVE, *scores), cross_encoder=Scorer(3, -1, 4, 1, 5), depth=20)
    expected = {
        "first_stage": scores,
        "first_stage_rank": (1 / 6, 1 / 7, 1 / 8, 1 / 9, 1 / 10),
        "cross_encoder": (3, -1, 4, 1, 5),
        "shared_words": (3 / 4, 1 / 4, 3 / 4, 0, 1 / 4),
        "word_pairs": (2 / 3, 0, 0, 0, 0),
        "numbers": (0, 0, 1, 0, 0),
        "title": (1 / 4, 1 / 4, 0, 0, 2 / 4),
        "headings": (1 / 4, 0, 3 / 4, 0, 0),
        "length": [math.log(1 + len(one.text)) for one in FIVE],
    }
    assert list(expected) == list(SIGNALS)
    assert list(rows) == [one.id for one in FIVE]
    for name, values in expected.items():
        assert [row[name] for row in rows.values()] == pytest.approx(standard(values), abs=1e-5), name


@pytest.mark.parametrize("name", SIGNALS)
def test_a_weight_orders_by_its_signal(name):
    hits = hits_in(FIVE, 0.9, 0.8, 0.6, 0.5, 0.1)
    rows = signals(QUESTION, hits, cross_encoder=Scorer(), depth=20)
    result = reranked(hits, Scorer(), **{name: -1.5})
    assert [hit.score for hit in result] == pytest.approx([-1.5 * rows[hit.chunk.id][name] for hit in result])
    assert ids(result) == sorted(rows, key=lambda key: (1.5 * rows[key][name], key))
    assert {hit.scale for hit in result} == {Scale.LEARNED}


def test_the_cross_encoder_is_asked_once_with_texts_below_their_headings():
    scorer = Scorer()
    reranked(hits_in(FIVE, 5, 4, 3, 2, 1), scorer, cross_encoder=1.0)
    headed = (
        "The harbour > Dues\n\nShips pay harbour dues.",
        "The harbour\n\nHarbour.",
        "Harbour dues > Pays\n\nThe dues of the harbour in 1620 and 1621.",
        "Salt.",
        "Dues of 1620\n\nIt pays.",
    )
    assert scorer.asked == [(QUESTION.text, headed)]


def test_the_best_are_scored_among_each_other_and_the_rest_is_dropped():
    hits = hits_in(FIVE, 0.1, 0.5, 0.9, 0.3, 0.7)
    scorer = Scorer()
    result = reranked(hits, scorer, depth=3, length=1.0, cross_encoder=0.5)
    assert sorted(ids(result)) == ["d:1", "d:2", "d:4"]
    assert [len(texts) for _, texts in scorer.asked] == [3]
    assert result == reranked(tuple(hits[n] for n in (2, 4, 1)), Scorer(), length=1.0, cross_encoder=0.5)


def test_no_hit_and_one_hit():
    scorer = Scorer()
    assert tuple(reranked((), scorer, cross_encoder=1.0)) == ()
    assert signals(QUESTION, (), cross_encoder=scorer, depth=5) == {}
    seen = observe(QUESTION, (), cross_encoder=scorer, gold=Gold(frozenset("x")), depth=5)
    assert seen == {"question": QUESTION.text, "signals": [], "relevant": [], "group": ""}
    assert scorer.asked == []
    [only] = reranked(hits_in(FIVE, 0.3), scorer, cross_encoder=1.0, length=1.0)
    assert (only.chunk, only.score, only.scale) == (FIVE[0], 0.0, Scale.LEARNED)


@given(st.sampled_from(list(Scale)), st.sampled_from([0.5, 2.0, 100.0]), st.integers(-5, 5))
def test_only_the_order_and_the_proportions_of_the_stage_before_count(scale, stretch, shift):
    plain = reranked(hits_in(FIVE, 5, 4, 2, 1, 0), Scorer(), first_stage=1.0, first_stage_rank=0.5, length=0.2)
    moved = hits_in(FIVE, *(stretch * score + shift for score in (5, 4, 2, 1, 0)), scale=scale)
    again = reranked(moved, Scorer(), first_stage=1.0, first_stage_rank=0.5, length=0.2)
    assert ids(again) == ids(plain)
    assert [hit.score for hit in again] == pytest.approx([hit.score for hit in plain], abs=5e-6)


def test_what_is_observed_are_the_signals_and_which_hits_are_relevant():
    chunks = example_chunks()
    hits, gold = hits_in(chunks, 1, 2, 3, 4, 5), Gold(frozenset({chunks[1].id, chunks[4].id, chunks[9].id}))
    seen = observe(QUESTION, hits, cross_encoder=Scorer(), gold=gold, depth=4)
    rows = signals(QUESTION, hits, cross_encoder=Scorer(), depth=4)
    assert list(rows) == [chunks[n].id for n in (4, 3, 2, 1)]
    assert seen["signals"] == [list(row.values()) for row in rows.values()]
    assert seen["question"] == QUESTION.text
    assert (seen["relevant"], seen["group"]) == ([True, False, False, True], chunks[4].doc)
