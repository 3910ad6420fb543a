"""Search with several queries at once and fuse what they find."""

import pytest

from ragsmith.techniques.fusion import reciprocal_rank_fusion
from ragsmith.techniques.searching import fused_search, weighted_search
from ragsmith.testing import fake_search, hits_of
from ragsmith.types import Question, Scale


def test_each_query_is_searched_once_and_one_alone_keeps_its_scores(chunks):
    hits = hits_of(chunks, [0.9, 0.4])
    search = fake_search(hits)
    assert fused_search(search, ["a", "a"], reciprocal_rank_fusion) == hits
    assert search.calls == [("a",)]


def test_the_question_has_its_share_and_the_others_share_the_rest(chunks):
    rankings = {"q": hits_of(chunks[:2], [2.0, 1.0]), "a": hits_of(chunks[1:3], [2.0, 1.0]), "b": ()}
    found = weighted_search(fake_search(rankings), Question("q"), ["a", "b"], 0.6)
    assert [(hit.chunk, hit.score, hit.scale) for hit in found[:2]] == [
        (chunks[0], pytest.approx(0.6), Scale.CONVEX),
        (chunks[1], pytest.approx(0.2), Scale.CONVEX),
    ]
