import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.errors import ScaleError
from ragsmith.techniques.passage_filter.score_threshold import score_threshold
from ragsmith.testing import hits_of
from ragsmith.types import Chunk, Question, Scale

QUESTION = Question("0")


class AngleEmbedder:
    """Gives each text the unit vector at the angle, in degrees, that it spells."""

    id = "angle"

    def embed(self, texts):
        angles = np.radians([float(text) for text in texts])
        return np.column_stack([np.cos(angles), np.sin(angles)]).astype(np.float32)


def at(*angles, scale=Scale.RRF):
    """Hits in this order, which is not that of their angles to the question's."""
    chunks = tuple(Chunk(f"c{i:02}", "d", i, 0, 1, str(angle)) for i, angle in enumerate(angles))
    return hits_of(chunks, [0.03 - i / 1000 for i in range(len(angles))], scale)


def kept(hits, **parameters):
    asked = {"threshold": 0.5, "embedder": AngleEmbedder()} | parameters
    return [hit.chunk.text for hit in score_threshold(QUESTION, hits, **asked)]


def test_what_reaches_the_cosine_stays_in_its_order():
    assert kept(at(80, 30, 90, 59, 61, 0)) == ["30", "59", "0"]
    assert kept(at(80, 30, 90, 59, 61, 0), threshold=0.0) == ["80", "30", "90", "59", "61", "0"]


def test_the_others_do_not_matter():
    for others in ((), (0,), (1, 2, 3), (85, 86)):
        assert ("55" in kept(at(55, *others))) is True
        assert ("65" in kept(at(*others, 65, 0))) is False


def test_the_score_of_the_last_stage_where_it_is_asked_for():
    hits = at(0, 90, 0, 90)  # scores .030, .029, .028, .027
    assert kept(hits, measured="score", threshold=0.0285) == ["0", "90"]
    assert kept(hits, measured="score", threshold=0.5) == ["0"]  # no fusion by rank reaches a cosine


def test_the_most_similar_stay_where_nothing_reaches_it():
    assert kept(at(80, 85, 70, 75)) == ["70"]
    assert kept(at(80, 85, 70, 75), keep_at_least=2) == ["70", "75"]
    assert kept(at(0, 10, 20, 5, 80), keep_at_most=2) == ["0", "10"]
    assert kept(at(30, 20, 10, 0), keep_at_most=2) == ["30", "0"]  # the most similar is one of them
    assert kept(()) == []


@given(st.lists(st.integers(0, 120), max_size=9), st.integers(1, 4), st.integers(0, 5))
def test_bounds_hold(angles, least, more):
    found = kept(at(*angles), keep_at_least=least, keep_at_most=least + more)
    assert min(least, len(angles)) <= len(found) <= least + more
    assert [angle for angle in found if int(angle) > 60] == [] or len(found) <= least


def test_mixed_scales_and_crossed_bounds_are_refused(chunks, embedder):
    mixed = hits_of(chunks, [0.2], Scale.COSINE) + hits_of(chunks[1:], [7.0], Scale.RRF)
    with pytest.raises(ScaleError):
        score_threshold(QUESTION, mixed, embedder=embedder)
    with pytest.raises(ValueError, match="give keep_at_least up to keep_at_most"):
        kept(at(0), keep_at_least=3, keep_at_most=2)
