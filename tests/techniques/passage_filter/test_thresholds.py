"""Filters that keep a number of candidates, or those that reach a threshold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import ScaleError
from ragsmith.techniques.passage_filter.score_threshold import score_threshold
from ragsmith.techniques.passage_filter.similarity_threshold import similarity_threshold
from ragsmith.techniques.passage_filter.top_k import top_k
from ragsmith.testing import example_chunks, hits_of
from ragsmith.types import Chunk, Question, Scale

QUESTION = Question("0")
SHAPE = (1.0, 0.9, 0.61, 0.5, 0.0)


def test_the_best_by_the_last_score_are_kept_and_equal_ones_go_by_chunk(chunks):
    hits = hits_of(chunks, [0.1, 0.9, 0.5], Scale.CROSS_ENCODER)
    assert [hit.score for hit in top_k(QUESTION, hits, k=2)] == [0.9, 0.5]
    assert len(top_k(QUESTION, hits)) == 3
    equal = top_k(QUESTION, hits_of(chunks[::-1], [1.0] * 10), k=2)
    assert [hit.chunk.id for hit in equal] == ["flood:0", "flood:1"]


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
def test_a_relative_threshold_means_the_same_on_every_scale(chunks, scale, low, high):
    hits = hits_of(chunks, [low + share * (high - low) for share in SHAPE], scale)
    assert len(similarity_threshold(QUESTION, hits)) == 3
    assert len(similarity_threshold(QUESTION, hits, threshold=0.4)) == 4


@pytest.mark.parametrize(
    ("scores", "parameters", "kept"),
    [
        (SHAPE, {"threshold": 1.0}, 1),
        (SHAPE, {"threshold": 1.0, "keep_at_least": 4}, 4),
        (SHAPE, {"threshold": 0.0, "keep_at_most": 2}, 2),
        ([0.3] * 4, {}, 4),
        ([0.0] * 4, {}, 1),  # none found anything
        ([0.01], {}, 1),
        ([], {}, 0),
    ],
)
def test_a_relative_threshold_is_bounded_on_both_sides(chunks, scores, parameters, kept):
    assert len(similarity_threshold(QUESTION, hits_of(chunks, scores), **parameters)) == kept


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=10), st.sampled_from([0.25, 0.5, 0.75]))
@settings(max_examples=60)
def test_the_head_of_the_ranking_is_kept(scores, threshold):
    hits = hits_of(example_chunks(), scores, Scale.CROSS_ENCODER)
    kept = similarity_threshold(QUESTION, hits, threshold=threshold, keep_at_most=5)
    assert 1 <= len(kept) <= 5
    dropped = [hit.score for hit in hits if hit not in kept]
    assert not dropped or min(hit.score for hit in kept) >= max(dropped)


class AngleEmbedder:
    """Gives each text the unit vector at the angle, in degrees, that it spells."""

    id = "angle"

    def embed(self, texts):
        angles = np.radians([float(text) for text in texts])
        return np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)


def at(*angles):
    """Hits in this order, which is not that of their angles to the question's."""
    chunks = tuple(Chunk(f"c{i:02}", "d", i, 0, 1, str(angle)) for i, angle in enumerate(angles))
    return hits_of(chunks, [0.03 - i / 1000 for i in range(len(angles))], Scale.RRF)


def kept(hits, **parameters):
    asked = {"threshold": 0.5, "embedder": AngleEmbedder()} | parameters
    return [int(hit.chunk.text) for hit in score_threshold(QUESTION, hits, **asked)]


@pytest.mark.parametrize(
    ("angles", "parameters", "expected"),
    [
        ((80, 30, 90, 59, 61, 0), {}, [30, 59, 0]),
        ((80, 30, 90, 59, 61, 0), {"threshold": 0.0}, [80, 30, 90, 59, 61, 0]),
        ((0, 90, 0, 90), {"measured": "score", "threshold": 0.0285}, [0, 90]),  # scores .030, .029, .028, .027
        ((0, 90, 0, 90), {"measured": "score"}, [0]),  # no fusion by rank reaches a cosine
        ((80, 85, 70, 75), {}, [70]),  # the most similar stay where nothing reaches the threshold
        ((80, 85, 70, 75), {"keep_at_least": 2}, [70, 75]),
        ((0, 10, 20, 5, 80), {"keep_at_most": 2}, [0, 10]),
        ((30, 20, 10, 0), {"keep_at_most": 2}, [30, 0]),  # the most similar is one of them
        ((), {}, []),
    ],
)
def test_what_reaches_the_cosine_stays_in_its_order(angles, parameters, expected):
    assert kept(at(*angles), **parameters) == expected


def test_the_others_do_not_matter():
    for others in ((), (0,), (1, 2, 3), (85, 86)):
        assert 55 in kept(at(55, *others))
        assert 65 not in kept(at(*others, 65, 0))


@given(st.lists(st.integers(0, 120), max_size=9), st.integers(1, 4), st.integers(0, 5))
def test_bounds_hold(angles, least, more):
    found = kept(at(*angles), keep_at_least=least, keep_at_most=least + more)
    assert min(least, len(angles)) <= len(found) <= least + more
    assert [angle for angle in found if angle > 60] == [] or len(found) <= least


def test_mixed_scales_and_wrong_bounds_are_refused(chunks, embedder):
    mixed = hits_of(chunks, [0.2], Scale.COSINE) + hits_of(chunks[1:], [7.0], Scale.RRF)
    with pytest.raises(ScaleError):
        score_threshold(QUESTION, mixed, embedder=embedder)
    with pytest.raises(ScaleError):
        similarity_threshold(QUESTION, mixed)
    with pytest.raises(ValueError, match="give keep_at_least up to keep_at_most"):
        kept(at(0), keep_at_least=3, keep_at_most=2)
    for wrong in ({"threshold": 1.2}, {"keep_at_least": 0}, {"keep_at_least": 5, "keep_at_most": 4}):
        with pytest.raises(ValueError, match="give a threshold"):
            similarity_threshold(QUESTION, hits_of(chunks, [0.2]), **wrong)
