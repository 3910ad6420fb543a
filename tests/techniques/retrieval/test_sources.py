"""Search by words, by vectors and in the entity graph, and what fuses them."""

import numpy as np
import pytest

from ragsmith.index.index import Index
from ragsmith.techniques.fusion import borda, convex_combination
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.techniques.pre_embedding.parent_document import parent_document
from ragsmith.techniques.retrieval.bm25 import bm25
from ragsmith.techniques.retrieval.complete_hybrid import complete_hybrid
from ragsmith.techniques.retrieval.graph import graph
from ragsmith.techniques.retrieval.hybrid import hybrid
from ragsmith.techniques.retrieval.vector import vector
from ragsmith.types import Scale

QUERIES = ("What must a new member swear, and where?", "grey salt")


def ids(hits):
    return [hit.chunk.id for hit in hits]


def test_rare_words_decide(index):
    hits, bells, *nothing = bm25(index, ("covered market", "bells", "xylophone", "the of", ""))
    assert hits[0].chunk.id == "guild:2"
    assert {hit.scale for hit in hits} == {Scale.BM25}
    assert set(ids(bells)) == {"harbour:1", "flood:1"}  # stemmed
    assert nothing == [(), (), ()]


def test_k_counts_chunks_not_keys(chunks):
    [hits] = bm25(Index(parent_document(chunks, window=1)), ("the harbour and the guild of Velmouth",), k=3)
    assert len(hits) == len(set(ids(hits))) == 3


def test_each_query_has_its_own_ranking_by_cosine(index, embedder, chunks):
    queries = ("Who rings the bell?", "How long is a warden elected?")
    cosines = embedder.embed(queries) @ embedder.embed([chunk.text for chunk in chunks]).T
    for row, hits in zip(cosines, vector(index, queries, embedder=embedder, k=4), strict=True):
        assert hits[0].chunk == chunks[int(np.argmax(row))]
        assert len(hits) == 4
        assert {hit.scale for hit in hits} == {Scale.COSINE}
    assert len(vector(index, ("bell",), embedder=embedder, k=99)[0]) == len(chunks)
    assert vector(index, (), embedder=embedder) == ()


def test_each_query_finds_the_chunks_about_its_entities(index, entity_graph):
    queries = ("Who was warden of the Salt Guild?", "Who rings in the Tide Tower?", "xylophone")
    warden, bell, nothing = graph(index, queries, entity_graph=entity_graph)
    assert (warden[0].chunk.id, bell[0].chunk.id, nothing) == ("guild:2", "harbour:1", ())
    assert {hit.scale for hit in warden + bell} == {Scale.GRAPH}
    assert len(graph(index, ("the Salt Guild of Velmouth",), entity_graph=entity_graph, k=2)[0]) == 2


def test_more_seeds_reach_further(index, entity_graph):
    query = ("Why did the Salt Guild, Oswin Tarrel and Countess Isaura Brandt need the sea wall?",)
    few, many = (len(graph(index, query, entity_graph=entity_graph, seeds=n)[0]) for n in (1, 20))
    assert few < many


def test_the_graph_finds_only_chunks_that_are_indexed(chunks, entity_graph):
    part = Index(none(tuple(chunk for chunk in chunks if chunk.doc == "flood")))
    [hits] = graph(part, ("the Salt Guild and Oswin Tarrel",), entity_graph=entity_graph)
    assert {hit.chunk.doc for hit in hits} == {"flood"}


def test_convex_is_the_weighted_mean_of_min_max_scores(index, embedder):
    expected = {}
    for weight, side in ((0.25, vector(index, QUERIES, embedder=embedder)), (0.75, bm25(index, QUERIES))):
        scores = {hit.chunk.id: hit.score for hit in side[0]}
        low, high = min(scores.values()), max(scores.values())
        for chunk, score in scores.items():
            expected[chunk] = expected.get(chunk, 0.0) + weight * (score - low) / (high - low)
    hits = hybrid(index, QUERIES, embedder=embedder, weight=0.25)[0]
    assert {hit.chunk.id: hit.score for hit in hits} == pytest.approx(expected)
    assert {hit.scale for hit in hits} == {Scale.CONVEX}


def test_rrf_adds_reciprocal_ranks(index, embedder):
    sides = vector(index, QUERIES, embedder=embedder)[1], bm25(index, QUERIES)[1]
    ranks = [{name: rank for rank, name in enumerate(ids(side), 1)} for side in sides]
    for hit in hybrid(index, QUERIES, embedder=embedder, fusion="rrf")[1]:
        assert hit.score == pytest.approx(sum(1 / (60 + side[hit.chunk.id]) for side in ranks if hit.chunk.id in side))
        assert hit.scale is Scale.RRF


def test_borda_and_dbsf_fuse_the_same_two_sides(index, embedder):
    sides = vector(index, QUERIES, embedder=embedder, k=60)[0], bm25(index, QUERIES, k=60)[0]
    assert hybrid(index, QUERIES, embedder=embedder, fusion="borda")[0] == borda(sides)[:20]
    by_distribution = hybrid(index, QUERIES, embedder=embedder, fusion="dbsf", weight=0.3)[0]
    assert by_distribution == convex_combination(sides, [0.3, 0.7], "dbsf")[:20]


def test_a_weight_of_all_is_that_side_alone(index, embedder):
    for weight, alone in ((1.0, vector(index, QUERIES, embedder=embedder)), (0.0, bm25(index, QUERIES))):
        assert hybrid(index, QUERIES, embedder=embedder, weight=weight)[0][0].chunk == alone[0][0].chunk


def test_sides_are_read_deeper_than_what_is_returned(index, embedder):
    full, cut = (hybrid(index, QUERIES, embedder=embedder, fusion="rrf", k=k)[0] for k in (10, 3))
    assert ids(cut) == ids(full[:3])
    assert [len(hits) for hits in hybrid(index, QUERIES, embedder=embedder, pool=1, k=8)] == [8, 8]


def test_words_that_match_nothing_leave_the_vector_side(index, embedder, entity_graph):
    query = ("xylophone",)
    expected = ids(vector(index, query, embedder=embedder, k=5)[0])
    assert ids(hybrid(index, query, embedder=embedder, k=5)[0]) == expected
    assert ids(complete_hybrid(index, query, embedder=embedder, entity_graph=entity_graph, k=5)[0]) == expected


def test_the_graph_has_its_share(index, embedder, entity_graph):
    queries, tools = ("Who was warden of the Salt Guild?", "What did Oswin Tarrel pay for?"), {"embedder": embedder}
    for weight, alone in (
        (0.0, hybrid(index, queries, **tools)),
        (1.0, graph(index, queries, entity_graph=entity_graph)),
    ):
        found = complete_hybrid(index, queries, **tools, entity_graph=entity_graph, graph_weight=weight)
        for hits, expected in zip(found, alone, strict=True):
            compared = len(expected) if weight == 0 else 1
            assert ids(hits[:compared]) == ids(expected[:compared])
            assert weight or [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected])


@pytest.mark.parametrize(("fusion", "scale"), [("convex", Scale.CONVEX), ("rrf", Scale.RRF)])
def test_all_three_are_on_one_scale_without_duplicates_and_cut(index, embedder, entity_graph, fusion, scale):
    for hits in complete_hybrid(index, QUERIES, embedder=embedder, entity_graph=entity_graph, fusion=fusion, k=6):
        assert len(hits) == len(set(ids(hits))) == 6
        assert {hit.scale for hit in hits} == {scale}
