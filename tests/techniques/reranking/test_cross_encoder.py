import pytest

from ragsmith.techniques.reranking.cross_encoder import cross_encoder
from ragsmith.testing import hits_of
from ragsmith.types import Question, Scale

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


def ids(hits):
    return [hit.chunk.id for hit in hits]


def test_weight_zero_leaves_the_scorers_own_scores_and_order(chunks):
    hits = hits_of(chunks, [0.9, 0.8, 0.7])
    result = cross_encoder(QUESTION, hits, cross_encoder=Scorer(-3.0, 4.0, 1.5), first_stage_weight=0.0)
    assert [(hit.chunk.id, hit.score) for hit in result] == [
        ("harbour:1", 4.0),
        ("harbour:2", 1.5),
        ("harbour:0", -3.0),
    ]
    assert {hit.scale for hit in result} == {Scale.CROSS_ENCODER}


def test_blends_min_max_scaled_scores(chunks):
    hits = hits_of(chunks, [1.0, 0.5, 0.0])  # min-max 1, .5, 0
    result = cross_encoder(QUESTION, hits, cross_encoder=Scorer(0.0, 10.0, 5.0), first_stage_weight=0.25)  # 0, 1, .5
    assert ids(result) == ["harbour:1", "harbour:2", "harbour:0"]
    assert [hit.score for hit in result] == pytest.approx([0.25 * 0.5 + 0.75, 0.75 * 0.5, 0.25])


def test_weight_one_is_the_order_of_the_first_stage(chunks):
    hits = hits_of(chunks, [3.0, 2.0, 1.0], Scale.BM25)
    assert ids(cross_encoder(QUESTION, hits, cross_encoder=Scorer(1.0, 2.0, 3.0), first_stage_weight=1.0)) == ids(hits)


def test_scores_the_best_hits_only_and_drops_the_rest(chunks):
    scorer = Scorer(1.0, 2.0)
    result = cross_encoder(QUESTION, hits_of(chunks, [0.1, 0.5, 0.9]), cross_encoder=scorer, depth=2)
    assert scorer.asked == [(QUESTION.text, (chunks[2].text, chunks[1].text))]
    assert set(ids(result)) == {"harbour:1", "harbour:2"}


def test_one_hit_and_no_hit(chunks):
    (only,) = cross_encoder(QUESTION, hits_of(chunks, [0.3]), cross_encoder=Scorer(0.7))
    assert (only.score, only.scale) == (1.0, Scale.CROSS_ENCODER)
    assert cross_encoder(QUESTION, (), cross_encoder=Scorer()) == ()
