import pytest

from ragsmith.techniques.retrieval.complete_hybrid import complete_hybrid
from ragsmith.techniques.retrieval.graph import graph
from ragsmith.techniques.retrieval.hybrid import hybrid
from ragsmith.types import Scale

QUERIES = ("Who was warden of the Salt Guild?", "What did Oswin Tarrel pay for?")


def test_without_a_share_for_the_graph_it_is_the_hybrid(index, embedder, entity_graph):
    complete = complete_hybrid(index, QUERIES, embedder=embedder, entity_graph=entity_graph, graph_weight=0.0)
    for hits, expected in zip(complete, hybrid(index, QUERIES, embedder=embedder), strict=True):
        assert [hit.chunk for hit in hits] == [hit.chunk for hit in expected]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected])


def test_with_the_whole_share_the_graph_decides(index, embedder, entity_graph):
    complete = complete_hybrid(index, QUERIES, embedder=embedder, entity_graph=entity_graph, graph_weight=1.0)
    expected = graph(index, QUERIES, entity_graph=entity_graph)
    assert [hits[0].chunk for hits in complete] == [hits[0].chunk for hits in expected]


@pytest.mark.parametrize(("fusion", "scale"), [("convex", Scale.CONVEX), ("rrf", Scale.RRF)])
def test_one_scale_no_duplicates_cut_at_k(index, embedder, entity_graph, fusion, scale):
    for hits in complete_hybrid(index, QUERIES, embedder=embedder, entity_graph=entity_graph, fusion=fusion, k=6):
        assert len(hits) == len({hit.chunk.id for hit in hits}) == 6
        assert {hit.scale for hit in hits} == {scale}
        assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))


def test_a_query_without_known_words_is_left_to_the_vectors(index, embedder, entity_graph):
    assert len(complete_hybrid(index, ("xylophone",), embedder=embedder, entity_graph=entity_graph, k=5)[0]) == 5
