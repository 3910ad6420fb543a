import pytest

from ragsmith.errors import ScaleError
from ragsmith.techniques.reranking.none import none
from ragsmith.testing import hits_of
from ragsmith.types import Hits, Question, Scale


def test_keeps_scores_and_orders_by_them(chunks):
    hits = hits_of(chunks, [0.2, 0.9, 0.2])
    assert [hit.chunk.id for hit in none(Question("?"), hits)] == ["harbour:1", "harbour:0", "harbour:2"]
    assert set(none(Question("?"), hits)) == set(hits)


def test_refuses_candidates_without_a_common_scale(chunks):
    mixed: Hits = hits_of(chunks, [0.2], Scale.COSINE) + hits_of(chunks[1:], [7.0], Scale.BM25)
    with pytest.raises(ScaleError):
        none(Question("?"), mixed)


def test_nothing_stays_nothing():
    assert none(Question("?"), ()) == ()
