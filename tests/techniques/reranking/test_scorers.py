"""Reranking by a cross-encoder, alone or with a language model, and what every reranker refuses."""

from functools import partial

import pytest

from ragsmith.errors import ScaleError
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.passage_filter.nr import nr
from ragsmith.techniques.passage_filter.top_k import top_k
from ragsmith.techniques.reranking.cross_encoder import cross_encoder
from ragsmith.techniques.reranking.hybrid import hybrid
from ragsmith.techniques.reranking.listnet import SIGNALS, listnet
from ragsmith.techniques.reranking.none import none
from ragsmith.testing import hits_of
from ragsmith.types import Fitted, Question, Scale

QUESTION = Question("Who rings the bell?")


class Scorer:
    """Gives prepared scores and records what it was asked."""

    id = "scorer"

    def __init__(self, *scores):
        self.scores = scores
        self.asked = []

    def score(self, query, texts):
        self.asked.append((query, tuple(texts)))
        return self.scores[: len(texts)]


def scored(hits):
    return [(hit.chunk.id, pytest.approx(hit.score)) for hit in hits]


def test_without_reranking_scores_stay_and_decide_the_order(chunks):
    hits = hits_of(chunks, [0.2, 0.9, 0.2])
    assert none(QUESTION, hits) == (hits[1], hits[0], hits[2])


@pytest.mark.parametrize(
    ("first", "scores", "weight", "expected"),
    [
        ((0.9, 0.8, 0.7), (-3.0, 4.0, 1.5), 0.0, [(1, 4.0), (2, 1.5), (0, -3.0)]),  # the scorer's own
        ((1.0, 0.5, 0.0), (0.0, 10.0, 5.0), 0.25, [(1, 0.25 * 0.5 + 0.75), (2, 0.75 * 0.5), (0, 0.25)]),
        ((3.0, 2.0, 1.0), (1.0, 2.0, 3.0), 1.0, [(0, 1.0), (1, 0.5), (2, 0.0)]),  # that of the first stage
        ((0.3,), (0.7,), 0.5, [(0, 1.0)]),
        ((), (), 0.5, []),
    ],
)
def test_min_max_scores_of_both_stages_are_blended(chunks, first, scores, weight, expected):
    hits = hits_of(chunks, first)
    result = cross_encoder(QUESTION, hits, cross_encoder=Scorer(*scores), first_stage_weight=weight)
    assert scored(result) == [(f"harbour:{n}", score) for n, score in expected]
    assert {hit.scale for hit in result} <= {Scale.CROSS_ENCODER}


def test_the_best_hits_only_are_scored_and_the_rest_is_dropped(chunks):
    scorer = Scorer(1.0, 2.0)
    result = cross_encoder(QUESTION, hits_of(chunks, [0.1, 0.5, 0.9]), cross_encoder=scorer, depth=2)
    assert scorer.asked == [(QUESTION.text, (chunks[2].text, chunks[1].text))]
    assert {hit.chunk.id for hit in result} == {"harbour:1", "harbour:2"}


@pytest.mark.parametrize(
    ("scores", "order", "parameters", "expected"),
    [
        ((2.0, 1.0, 0.0), (2, 1, 0), {"first_stage_weight": 0.0}, [(0, 0.7), (1, 0.5), (2, 0.3)]),
        ((1.0, 0.0), (1, 0), {"cross_encoder_weight": 0.2, "depth": 2}, [(1, 0.8), (0, 0.2)]),
    ],
)
def test_cross_encoder_and_language_model_vote_by_min_max_scores(
    chunks, language_model, scores, order, parameters, expected
):
    tools = {"cross_encoder": Scorer(*scores), "language_model": language_model({"rank_passages": [order]})}
    result = hybrid(QUESTION, hits_of(chunks, [0.9, 0.8, 0.7]), **tools, **parameters)
    assert scored(result) == [(f"harbour:{n}", score) for n, score in expected]
    assert {hit.scale for hit in result} == {Scale.CONVEX}


LEARNED = Fitted({"weights": dict.fromkeys(SIGNALS, 1.0)})
ORDERS = (
    *(none, top_k, partial(nr, embedder=WordLlamaEmbedder())),
    *(partial(cross_encoder, cross_encoder=Scorer(1, 2)), partial(listnet, cross_encoder=Scorer(1, 2), fitted=LEARNED)),
)


@pytest.mark.parametrize("order", ORDERS)
def test_hits_of_two_scales_are_refused(chunks, order):
    mixed = hits_of(chunks, [0.2], Scale.COSINE) + hits_of(chunks[1:], [7.0], Scale.BM25)
    with pytest.raises(ScaleError, match="bm25 and cosine"):
        order(QUESTION, mixed)
