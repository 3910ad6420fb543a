import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import ScaleError
from ragsmith.techniques.fusion import (
    FUSIONS,
    best_per_chunk,
    borda,
    combmax,
    convex_combination,
    fuse,
    normalize,
    rank,
    reciprocal_rank_fusion,
)
from ragsmith.types import Chunk, Hit, LazyHits, Scale


def hits(scale=Scale.BM25, /, **scores):
    return tuple(Hit(Chunk(key, "doc", 0, 0, 1, "x"), score, scale) for key, score in scores.items())


def scored(found):
    return {hit.chunk.id: hit.score for hit in found}


A = hits(Scale.COSINE, a=0.9, b=0.8, c=0.1)
B = hits(Scale.BM25, c=5, d=4, a=1)
MIXED = (*A, *B)
CHUNKS = tuple(Chunk(key, "doc", 0, 0, 1, "x") for key in "abcdef")
LISTS = st.lists(st.dictionaries(st.sampled_from("abcdef"), st.integers(-3, 3).map(float)), max_size=4)
EACH = [reciprocal_rank_fusion, convex_combination, borda, combmax]


def test_two_scales_are_never_compared():
    for function in (rank, best_per_chunk, lambda found: normalize(found, "minmax")):
        with pytest.raises(ScaleError, match=r"bm25 and cosine .* normalise"):
            function(MIXED)


def test_a_chunk_counts_by_its_best_hit():
    found = (*hits(a=1, b=3), *hits(a=5), *hits(b=2))
    assert best_per_chunk(found) == hits(a=5, b=3)


def test_published_dbsf_values():
    assert normalize(A, "dbsf") == pytest.approx((0.640488, 0.593659, 0.265854), abs=1e-6)
    assert normalize(B, "dbsf") == pytest.approx((0.663430, 0.565372, 0.271198), abs=1e-6)


def test_published_fusion_values():
    weighted = convex_combination([A, B], [0.7, 0.3], "dbsf")
    assert list(scored(weighted)) == ["a", "b", "c", "d"]
    assert scored(weighted) == pytest.approx({"a": 0.529701, "b": 0.415561, "c": 0.385127, "d": 0.169612}, abs=1e-6)
    assert scored(convex_combination([A, B])) == pytest.approx({"a": 0.5, "c": 0.5, "b": 0.4375, "d": 0.375})
    fused = scored(reciprocal_rank_fusion([A, B]))
    assert list(fused) == ["a", "c", "b", "d"]
    assert fused == pytest.approx({"a": 1 / 61 + 1 / 63, "c": 1 / 61 + 1 / 63, "b": 1 / 62, "d": 1 / 62})
    assert fused["a"] == pytest.approx(0.032266, abs=1e-6)


def test_borda_gives_what_a_list_lacks_an_equal_share_of_the_rest():
    # four candidates: A is worth a 4, b 3, c 2, and d the 1 that is left; B is worth c 4, d 3, a 2, and b the 1
    assert scored(borda([A, B])) == {"a": 6.0, "c": 6.0, "b": 4.0, "d": 4.0}
    # a list of one: its first 4 points, the other three share 3 + 2 + 1
    assert scored(borda([A, hits(d=7)])) == {"a": 6.0, "b": 5.0, "d": 5.0, "c": 4.0}
    assert scored(borda([A])) == {"a": 3.0, "b": 2.0, "c": 1.0}
    assert {hit.scale for hit in borda([A, B])} == {Scale.BORDA}


@settings(max_examples=60, deadline=None)
@given(LISTS)
def test_every_list_gives_the_same_points(lists):
    found = [hits(**scores) for scores in lists]
    n = len({key for scores in lists for key in scores})
    assert sum(scored(borda(found)).values()) == len(lists) * n * (n + 1) / 2
    for key, score in scored(borda(found)).items():  # by a tournament: a win is worth 1, a tie among the absent 1/2
        expected = 0.0
        for scores in lists:
            order = sorted(scores, key=lambda name: (-scores[name], name))
            beaten = n - 1 - order.index(key) if key in scores else (n - len(scores) - 1) / 2
            expected += 1 + beaten
        assert score == expected


def test_the_highest_score_is_the_one_that_stands_out_most_from_its_list():
    fused = scored(combmax([A, B]))
    assert fused == pytest.approx({"c": 0.663430, "a": 0.640488, "b": 0.593659, "d": 0.565372}, abs=1e-6)
    assert list(fused) == ["c", "a", "b", "d"]
    assert {hit.scale for hit in combmax([A, B])} == {Scale.MAXIMUM}


def test_each_way_of_fusing_is_named():
    assert fuse([A, B], "convex", [0.7, 0.3]) == convex_combination([A, B], [0.7, 0.3])
    assert fuse([A, B], "dbsf", [0.7, 0.3]) == convex_combination([A, B], [0.7, 0.3], "dbsf")
    assert fuse([A, B], "rrf", [0.7, 0.3]) == reciprocal_rank_fusion([A, B])
    assert fuse([A, B], "borda", [0.7, 0.3]) == borda([A, B])
    with pytest.raises(ValueError, match=f"'sum': use one of {', '.join(FUSIONS)}"):
        fuse([A, B], "sum")


def test_chunks_with_the_same_ranks_in_other_lists_tie():
    keys = "abcdefg"
    lists = [hits(**{key: -float((place + turn) % 7) for place, key in enumerate(keys)}) for turn in range(7)]
    fused = scored(reciprocal_rank_fusion(lists))
    assert len(set(fused.values())) == 1  # although adding the same seven numbers in another order does not
    assert list(fused) == list(keys)


def test_rank_normalisation_ignores_the_size_of_the_scores():
    assert normalize(hits(b=7, a=7, c=100, d=-1), "rank") == (0.5, 0.75, 1.0, 0.25)


@pytest.mark.parametrize(("how", "equal", "zero"), [("minmax", 1, 0), ("dbsf", 1, 0), ("zscore", 0, 0), ("none", 3, 0)])
def test_equal_scores(how, equal, zero):
    assert normalize(hits(a=3, b=3), how) == (equal, equal)
    assert normalize(hits(a=3), how) == (equal,)
    assert normalize(hits(a=0, b=0), how) == (zero, zero)
    assert normalize((), how) == ()


def test_differences_too_small_to_square_are_no_error():
    assert normalize(hits(a=0, b=5e-324), "dbsf") == (1, 1)
    assert normalize(hits(a=0, b=5e-324), "zscore") == (0, 0)


def test_an_unknown_normalisation_is_answered_with_the_known_ones():
    with pytest.raises(ValueError, match="'softmax': use one of minmax, dbsf, zscore, rank, none"):
        normalize((), "softmax")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=12))
def test_normalised_scores_keep_the_order_and_their_range(scores):
    found = hits(**{f"c{i:02}": score for i, score in enumerate(scores)})
    hows = ("minmax", "dbsf", "rank")
    for how in hows:
        values = normalize(found, how)
        assert all(0 <= value <= 1 for value in values)
        assert all(
            values[i] >= values[j] for i, j in itertools.permutations(range(len(scores)), 2) if scores[i] > scores[j]
        )
    standard = normalize(found, "zscore")
    if any(standard):
        assert math.fsum(standard) == pytest.approx(0, abs=1e-5)
        assert math.fsum(value**2 for value in standard) == pytest.approx(len(standard))


@pytest.mark.parametrize("fuse", EACH)
def test_nothing_fuses_to_nothing(fuse):
    assert fuse([]) == fuse([(), ()]) == ()


@pytest.mark.parametrize("fuse", EACH)
@settings(max_examples=40, deadline=None)
@given(lists=LISTS)
def test_the_order_of_lists_and_hits_does_not_matter(fuse, lists):
    given_order = [hits(**scores) for scores in lists]
    reversed_order = [tuple(reversed(found)) for found in reversed(given_order)]
    fused = fuse(given_order)
    assert fused == fuse(reversed_order) == rank(fused)
    assert {hit.chunk.id for hit in fused} == set().union(*lists)


@pytest.mark.parametrize("fuse", EACH)
def test_pieces_of_one_chunk_count_once_by_the_best(fuse):
    pieces = (*hits(a=5, b=4), *hits(a=1))
    assert fuse([pieces, B]) == fuse([hits(a=5, b=4), B])


def test_weights_are_renormalised():
    assert convex_combination([A, B], [7, 3]) == convex_combination([A, B], [0.7, 0.3])
    assert scored(convex_combination([A, B], [1, 0]))["d"] == 0


@pytest.mark.parametrize("weights", [[1], [1, -1], [0, 0], [1, math.inf], [1, math.nan]])
def test_bad_weights_are_refused(weights):
    with pytest.raises(ValueError, match="weights"):
        convex_combination([A, B], weights)


def test_raw_scores_of_two_scales_are_not_added():
    with pytest.raises(ScaleError):
        convex_combination([A, B], norm="none")
    assert scored(convex_combination([B, B], norm="none")) == {"c": 5, "d": 4, "a": 1}


def test_a_negative_rank_constant_is_refused():
    with pytest.raises(ValueError, match="constant is -1"):
        reciprocal_rank_fusion([A], constant=-1)


def columns(scores, scale=Scale.BM25):
    order = sorted(scores, key=lambda key: (-scores[key], key))
    return LazyHits(CHUNKS, tuple("abcdef".index(key) for key in order), tuple(scores[key] for key in order), scale)


FLOATS = st.lists(st.dictionaries(st.sampled_from("abcdef"), st.floats(-1e3, 1e3)), max_size=4)


@pytest.mark.parametrize("fuse", EACH)
@settings(max_examples=60, deadline=None)
@given(lists=FLOATS)
def test_rankings_as_columns_fuse_to_the_same_to_the_last_bit(fuse, lists):
    as_columns = [columns(scores) for scores in lists]
    expected = fuse([tuple(found) for found in as_columns])
    assert fuse(as_columns) == expected
    assert fuse([*as_columns[:1], *(tuple(found) for found in as_columns[1:])]) == expected


@settings(max_examples=60, deadline=None)
@given(scores=st.dictionaries(st.sampled_from("abcdef"), st.floats(-1e3, 1e3)))
def test_a_ranking_as_columns_is_ordered_and_normalised_as_its_hits_are(scores):
    found = columns(scores)
    hows = ("minmax", "dbsf", "zscore", "rank", "none")
    assert rank(found) == rank(tuple(found)) == best_per_chunk(found) == best_per_chunk(tuple(found))
    assert [normalize(found, how) for how in hows] == [normalize(tuple(found), how) for how in hows]
