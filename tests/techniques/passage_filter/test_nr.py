import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.techniques.passage_filter.nr import (
    compute_contrast,
    nr,
    nucleus_size,
    order_greedily,
    select_positions,
    softmax_weights,
)
from ragsmith.testing import hits_of
from ragsmith.types import Chunk, Question, Scale

# the paper's situation in the plane: q = (1, 0), c1 = c2 = (1, 0), c3 = (0, 1)
RELEVANCE = (1.0, 1.0, 0.0)
SIMILARITY = ((1.0, 1.0, 0.0), (1.0, 1.0, 0.0), (0.0, 0.0, 1.0))


class PlaneEmbedder:
    """Gives each text the vector it spells."""

    id = "plane"

    def embed(self, texts):
        return np.array([[float(part) for part in text.split()] for text in texts], dtype=np.float32)


def spelled(*texts):
    chunks = tuple(Chunk(f"c{i}", "d", i, 0, len(text), text) for i, text in enumerate(texts, 1))
    return hits_of(chunks, [1 - i / 10 for i in range(len(texts))], Scale.RRF)


def pick(relevance, similarity, **parameters):
    named = {"mode": "greedy", "share": 0.7, "alpha": 5.0, "divisor": "others", "keep_at_most": 99} | parameters
    return select_positions(relevance, similarity, **named)


def test_one_shot_scores_of_the_worked_example():
    rho = compute_contrast(RELEVANCE, SIMILARITY)
    assert rho == (0.5, 0.5, 0.0)
    assert softmax_weights(rho, 5.0) == pytest.approx((0.480, 0.480, 0.039), abs=5e-4)


@pytest.mark.parametrize(
    ("mode", "share", "kept"),
    [
        ("count", 2 / 3, (0, 1)),  # the two duplicates
        ("count", 0.7, (0, 1, 2)),
        ("nucleus", 0.7, (0, 1)),  # .480 + .480
        ("nucleus", 0.97, (0, 1, 2)),
        ("nucleus", 0.4, (0,)),
        ("greedy", 2 / 3, (0, 2)),  # the novel chunk before the copy
        ("greedy", 0.7, (0, 2, 1)),
    ],
)
def test_what_each_reading_keeps_of_the_worked_example(mode, share, kept):
    assert pick(RELEVANCE, SIMILARITY, mode=mode, share=share) == kept


def test_kept_hits_keep_score_and_order():
    hits = spelled("1 0", "1 0", "0 1")
    kept = nr(Question("1 0"), hits[::-1], embedder=PlaneEmbedder(), mode="greedy", share=0.6)
    assert kept == (hits[0], hits[2])
    published = nr(Question("1 0"), hits[::-1], embedder=PlaneEmbedder(), mode="count", share=0.6)
    assert published == hits[:2]


def test_divisors():
    assert compute_contrast(RELEVANCE, SIMILARITY, "all") == pytest.approx((2 / 3, 2 / 3, 0.0))
    assert compute_contrast(RELEVANCE, SIMILARITY, "sum_abs") == (0.5, 0.5, 0.0)  # 1 of the 2 that all pairs sum to
    opposite = ((1.0, -0.5), (-0.5, 1.0))
    assert compute_contrast((0.0, 0.0), opposite, "sum_abs") == (0.5, 0.5)


@pytest.mark.parametrize("mode", ["greedy", "count", "nucleus"])
@pytest.mark.parametrize("divisor", ["others", "all", "sum_abs"])
def test_none_one_and_vectors_of_zeros(mode, divisor):
    def kept(*texts):
        return nr(Question("1 0"), spelled(*texts), embedder=PlaneEmbedder(), mode=mode, divisor=divisor, share=0.5)

    assert kept() == ()
    assert kept("0 1") == spelled("0 1")
    assert compute_contrast((0.4,), ((1.0,),), divisor) == (0.4,)
    assert len(kept("0 0", "0 0", "0 0", "0 0")) == 2
    assert [hit.chunk.id for hit in kept("0 0", "1 0")] == ["c2"]


def test_nucleus_counts_equal_shares_exactly():
    assert [nucleus_size([0.1] * 10, share) for share in (0.1, 0.3, 0.7, 1.0)] == [1, 3, 7, 10]


def test_of_twenty_candidates_the_published_share_keeps_fourteen_and_nothing_cuts_earlier():
    angles = np.linspace(0, 1.2, 20)
    hits = spelled(*(f"{math.cos(a):.6f} {math.sin(a):.6f}" for a in angles))
    asked = {"question": Question("1 0"), "hits": hits, "embedder": PlaneEmbedder()}
    assert len(nr(**asked)) == 14
    sizes = {mode: len(nr(**asked, mode=mode)) for mode in ("count", "nucleus", "greedy")}
    assert sizes["nucleus"] < 14 == sizes["count"] == sizes["greedy"]
    assert len(nr(**asked, keep_at_most=10)) == 10


@st.composite
def candidates(draw):
    """A question and one to nine chunks as unit vectors of three dimensions."""
    axis = st.integers(-3, 3).map(float)
    vectors = draw(st.lists(st.tuples(axis, axis, axis), min_size=2, max_size=10))
    rows = np.array(vectors)
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    unit = np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return np.round(unit[1:] @ unit[0], 6).tolist(), np.round(unit[1:] @ unit[1:].T, 6).tolist()


divisors = st.sampled_from(["others", "all", "sum_abs"])
alphas = st.sampled_from([0.1, 1.0, 5.0, 50.0])


@given(candidates(), divisors, alphas, st.sampled_from([0.2, 0.5, 0.9]))
@settings(max_examples=60)
def test_nucleus_is_the_smallest_prefix_that_holds_the_share(found, divisor, alpha, share):
    mass = softmax_weights(compute_contrast(*found, divisor), alpha)
    kept = pick(*found, mode="nucleus", divisor=divisor, alpha=alpha, share=share)
    assert math.isclose(sum(mass), 1)
    assert sum(mass[i] for i in kept) >= share - 1e-9
    assert sum(mass[i] for i in kept[:-1]) < share
    assert min(mass[i] for i in kept) >= max((m for i, m in enumerate(mass) if i not in kept), default=0)


@given(candidates())
@settings(max_examples=60)
def test_greedy_orders_by_maximal_marginal_relevance(found):
    relevance, similarity = found
    order = order_greedily(relevance, similarity)
    assert sorted(order) == list(range(len(relevance)))
    for place, i in enumerate(order):

        def margin(j, before=order[:place]):
            return relevance[j] - max([0.0, *(similarity[j][k] for k in before)])

        assert all(margin(i) >= margin(j) - 1e-6 for j in order[place:])


def test_on_real_text_a_copy_goes_and_the_rest_stays(chunks, embedder):
    copy = Chunk("harbour:9", "harbour", 9, 900, 900 + len(chunks[2].text), chunks[2].text)
    found = hits_of((chunks[2], copy, chunks[0], chunks[6], chunks[4]), [0.9, 0.9, 0.8, 0.7, 0.6])
    question = Question("Who pays no harbour dues?")
    by_count = nr(question, found, embedder=embedder, mode="count", share=0.4)
    one_by_one = nr(question, found, embedder=embedder, mode="greedy", share=0.8)
    assert [hit.chunk for hit in by_count] == [chunks[2], copy]
    assert [hit.chunk for hit in one_by_one] == [chunks[2], chunks[0], chunks[6], chunks[4]]
