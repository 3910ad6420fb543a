import pytest

from ragsmith.techniques.reranking.hybrid import hybrid
from ragsmith.testing import hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Who rings the bell?")


class Scorer:
    id = "scorer"

    def __init__(self, *scores):
        self.scores = scores

    def score(self, query, texts):
        return self.scores[: len(texts)]


def test_both_vote_by_min_max_scores(chunks, language_model):
    hits = hits_of(chunks, [0.9, 0.8, 0.7])
    result = hybrid(
        QUESTION,
        hits,
        cross_encoder=Scorer(2.0, 1.0, 0.0),  # min-max 1, .5, 0
        language_model=language_model({"rank_passages": [(2, 1, 0)]}),  # min-max 0, .5, 1
        first_stage_weight=0.0,
    )
    assert [hit.chunk.id for hit in result] == ["harbour:0", "harbour:1", "harbour:2"]
    assert [hit.score for hit in result] == pytest.approx([0.7, 0.5, 0.3])
    assert {hit.scale for hit in result} == {Scale.CONVEX}


def test_the_weight_decides_between_them(chunks, language_model):
    result = hybrid(
        QUESTION,
        hits_of(chunks, [0.9, 0.8]),
        cross_encoder=Scorer(1.0, 0.0),
        language_model=language_model({"rank_passages": [(1, 0)]}),
        cross_encoder_weight=0.2,
    )
    assert [hit.chunk.id for hit in result] == ["harbour:1", "harbour:0"]


def test_neither_reads_below_the_depth(chunks, language_model):
    model = language_model({"rank_passages": [(0, 1)]})
    result = hybrid(
        QUESTION, hits_of(chunks, [0.9, 0.8, 0.7]), cross_encoder=Scorer(1.0, 0.0), language_model=model, depth=2
    )
    assert {hit.chunk.id for hit in result} == {"harbour:0", "harbour:1"}
