from ragsmith.techniques.passage_filter.top_k import top_k
from ragsmith.testing import hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("?")


def test_keeps_the_best_by_the_last_score_given(chunks):
    hits = hits_of(chunks, [0.1, 0.9, 0.5], Scale.CROSS_ENCODER)
    assert [hit.score for hit in top_k(QUESTION, hits, k=2)] == [0.9, 0.5]


def test_keeps_all_when_there_are_fewer(chunks):
    assert len(top_k(QUESTION, hits_of(chunks, [0.1, 0.9]))) == 2
    assert top_k(QUESTION, ()) == ()


def test_equal_scores_go_by_chunk(chunks):
    assert [hit.chunk.id for hit in top_k(QUESTION, hits_of(chunks[::-1], [1.0] * 10), k=2)] == ["flood:0", "flood:1"]
