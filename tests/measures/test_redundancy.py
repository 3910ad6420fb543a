"""How alike passages are: the cosines by hand, and the two measures of them."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.measures.case import Case
from ragsmith.measures.passages import mean_pairwise_cosine, pairwise_cosines, redundancy_ratio
from ragsmith.testing import example_chunks
from ragsmith.types import Hit, Scale

HITS = tuple(Hit(chunk, 1.0, Scale.COSINE) for chunk in example_chunks()[:4])


class Embedder:
    """Gives prepared vectors to the texts in their order, and counts how often it is asked."""

    id = "prepared"

    def __init__(self, vectors):
        self._vectors = np.asarray(vectors, dtype=np.float32)
        self.asked = 0

    def embed(self, texts):
        self.asked += 1
        return self._vectors[: len(texts)]


VECTORS = [[1, 0], [2, 0.1], [0, 1], [0, 0]]


def test_the_ratio_is_the_share_of_similar_pairs_and_the_mean_that_of_all():
    case, embedder = Case(hits=HITS), Embedder(VECTORS)
    assert redundancy_ratio(case, embedder) == pytest.approx(1 / 6, abs=1e-6)
    assert mean_pairwise_cosine(case, embedder) == pytest.approx(np.mean(cosines(np.array(VECTORS))), abs=1e-6)
    assert embedder.asked == 1


@pytest.mark.parametrize("hits", [(), HITS[:1], (HITS[0], HITS[0])])
def test_fewer_than_two_chunks_have_none(hits):
    unasked = Embedder(VECTORS)
    case = Case(hits=hits)
    assert redundancy_ratio(case, unasked) is mean_pairwise_cosine(case, unasked) is None
    assert unasked.asked == 0


def test_two_chunks_of_the_same_text_are_alike():
    twin = Hit(replace(HITS[0].chunk, id="twin"), 1.0, Scale.COSINE)
    assert redundancy_ratio(Case(hits=(HITS[0], twin)), Embedder([[1, 0], [1, 0]])) == 1.0


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 8), st.integers(0, 1000))
def test_cosines_agree_with_one_pair_at_a_time(n, seed):
    vectors = np.random.default_rng(seed).normal(0.5, 1, (n, 3))
    assert pairwise_cosines(vectors) == pytest.approx(cosines(vectors), abs=1e-6)


def cosines(vectors):
    return [
        float(np.dot(a, b) / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-300))
        for a, b in itertools.combinations(vectors, 2)
    ]


@pytest.mark.parametrize("vectors", [[], [[1.0, 0.0]], np.empty((0, 3))])
def test_fewer_than_two_vectors_have_no_pair(vectors):
    assert pairwise_cosines(vectors) == []
