import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import ScaleError
from ragsmith.techniques.passage_filter.similarity_threshold import similarity_threshold
from ragsmith.testing import example_chunks, hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("?")
SHAPE = (1.0, 0.9, 0.61, 0.5, 0.0)


@pytest.mark.parametrize(
    ("scale", "low", "high"),
    [
        (Scale.BM25, 3.0, 21.0),
        (Scale.COSINE, 0.55, 0.8),
        (Scale.RRF, 1 / 120, 2 / 61),
        (Scale.CONVEX, 0.0, 1.0),
        (Scale.GRAPH, 0.01, 0.3),
        (Scale.CROSS_ENCODER, -11.0, 8.0),
        (Scale.LISTWISE, 0.05, 1.0),
    ],
)
def test_means_the_same_on_every_scale(chunks, scale, low, high):
    hits = hits_of(chunks, [low + share * (high - low) for share in SHAPE], scale)
    assert len(similarity_threshold(QUESTION, hits)) == 3
    assert len(similarity_threshold(QUESTION, hits, threshold=0.4)) == 4


def test_is_bounded_on_both_sides(chunks):
    hits = hits_of(chunks, SHAPE)
    assert len(similarity_threshold(QUESTION, hits, threshold=1.0)) == 1
    assert len(similarity_threshold(QUESTION, hits, threshold=1.0, keep_at_least=4)) == 4
    assert len(similarity_threshold(QUESTION, hits, threshold=0.0, keep_at_most=2)) == 2


def test_equal_scores_all_pass(chunks):
    assert len(similarity_threshold(QUESTION, hits_of(chunks, [0.3] * 4))) == 4
    assert len(similarity_threshold(QUESTION, hits_of(chunks, [0.0] * 4, Scale.BM25))) == 1  # none found anything


def test_one_hit_and_no_hit(chunks):
    assert len(similarity_threshold(QUESTION, hits_of(chunks, [0.01]))) == 1
    assert similarity_threshold(QUESTION, ()) == ()


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=10), st.sampled_from([0.25, 0.5, 0.75]))
@settings(max_examples=60)
def test_keeps_the_head_of_the_ranking(scores, threshold):
    hits = hits_of(example_chunks(), scores, Scale.CROSS_ENCODER)
    kept = similarity_threshold(QUESTION, hits, threshold=threshold, keep_at_most=5)
    assert 1 <= len(kept) <= 5
    dropped = [hit.score for hit in hits if hit not in kept]
    assert not dropped or min(hit.score for hit in kept) >= max(dropped)


def test_refuses_mixed_scales_and_wrong_parameters(chunks):
    with pytest.raises(ScaleError):
        similarity_threshold(QUESTION, hits_of(chunks, [0.2], Scale.COSINE) + hits_of(chunks[1:], [7.0], Scale.RRF))
    for wrong in ({"threshold": 1.2}, {"keep_at_least": 0}, {"keep_at_least": 5, "keep_at_most": 4}):
        with pytest.raises(ValueError, match="give a threshold"):
            similarity_threshold(QUESTION, hits_of(chunks, [0.2]), **wrong)
