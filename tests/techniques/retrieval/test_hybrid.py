import pytest

from ragsmith.techniques.fusion import borda, convex_combination
from ragsmith.techniques.retrieval.bm25 import bm25
from ragsmith.techniques.retrieval.hybrid import hybrid
from ragsmith.techniques.retrieval.vector import vector
from ragsmith.types import Scale

QUERIES = ("What must a new member swear, and where?", "grey salt")


def test_convex_is_the_weighted_mean_of_min_max_scores(index, embedder):
    hits = hybrid(index, QUERIES, embedder=embedder, weight=0.25)[0]
    expected = {}
    for weight, side in ((0.25, vector(index, QUERIES, embedder=embedder)), (0.75, bm25(index, QUERIES))):
        scores = {hit.chunk.id: hit.score for hit in side[0]}
        low, high = min(scores.values()), max(scores.values())
        for chunk, score in scores.items():
            expected[chunk] = expected.get(chunk, 0.0) + weight * (score - low) / (high - low)
    assert {hit.chunk.id: hit.score for hit in hits} == pytest.approx(expected)
    assert {hit.scale for hit in hits} == {Scale.CONVEX}


def test_rrf_adds_reciprocal_ranks(index, embedder):
    hits = hybrid(index, QUERIES, embedder=embedder, fusion="rrf")[1]
    sides = vector(index, QUERIES, embedder=embedder)[1], bm25(index, QUERIES)[1]
    ranks = [{hit.chunk.id: rank for rank, hit in enumerate(side, 1)} for side in sides]
    for hit in hits:
        assert hit.score == pytest.approx(sum(1 / (60 + side[hit.chunk.id]) for side in ranks if hit.chunk.id in side))
        assert hit.scale is Scale.RRF


def test_borda_and_dbsf_fuse_the_same_two_sides(index, embedder):
    sides = vector(index, QUERIES, embedder=embedder, k=60)[0], bm25(index, QUERIES, k=60)[0]
    by_votes = hybrid(index, QUERIES, embedder=embedder, fusion="borda")[0]
    assert by_votes == borda(sides)[:20]
    by_distribution = hybrid(index, QUERIES, embedder=embedder, fusion="dbsf", weight=0.3)[0]
    assert by_distribution == convex_combination(sides, [0.3, 0.7], "dbsf")[:20]


@pytest.mark.parametrize(("weight", "single"), [(1.0, "vector"), (0.0, "bm25")])
def test_a_weight_of_all_is_that_side_alone(index, embedder, weight, single):
    first = hybrid(index, QUERIES, embedder=embedder, weight=weight)[0][0].chunk
    alone = vector(index, QUERIES, embedder=embedder) if single == "vector" else bm25(index, QUERIES)
    assert first == alone[0][0].chunk


def test_sides_are_read_deeper_than_what_is_returned(index, embedder):
    full = hybrid(index, QUERIES, embedder=embedder, fusion="rrf", k=10)
    cut = hybrid(index, QUERIES, embedder=embedder, fusion="rrf", k=3)
    assert [hit.chunk.id for hit in cut[0]] == [hit.chunk.id for hit in full[0][:3]]
    assert [len(hits) for hits in hybrid(index, QUERIES, embedder=embedder, pool=1, k=8)] == [8, 8]


def test_words_that_match_nothing_leave_the_vector_side(index, embedder):
    found = hybrid(index, ("xylophone",), embedder=embedder, k=5)[0]
    assert [hit.chunk for hit in found] == [
        hit.chunk for hit in vector(index, ("xylophone",), embedder=embedder, k=5)[0]
    ]
