from ragsmith.techniques.reranking.none import none
from ragsmith.testing import hits_of
from ragsmith.types import Question


def test_keeps_scores_and_orders_by_them(chunks):
    hits = hits_of(chunks, [0.2, 0.9, 0.2])
    assert [hit.chunk.id for hit in none(Question("?"), hits)] == ["harbour:1", "harbour:0", "harbour:2"]
    assert set(none(Question("?"), hits)) == set(hits)
