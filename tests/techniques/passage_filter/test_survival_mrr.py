from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.index.index import Index
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.passage_filter.survival_mrr import survival_mrr
from ragsmith.techniques.passage_filter.top_k import top_k
from ragsmith.techniques.retrieval.nest import AGGREGATES, nest
from ragsmith.testing import example_chunks, hits_of
from ragsmith.types import IndexEntry, Question, Scale

QUESTION = Question("Who discovered radium?")
INDEX = Index(tuple(IndexEntry((chunk.text,), chunk) for chunk in example_chunks()))
EMBEDDER = WordLlamaEmbedder()

# ranks at document, section and chunk scope: the worked example of the paper, table 5
GENERAL = (("document", 3), ("section", 12))
RADIATION = (("document", 5), ("section", 7), ("chunk", 9))
RADIUM = (("document", 11), ("section", 4), ("chunk", 2))
IMAGING = (("document", 2),)
NAMES = {GENERAL: "general", RADIATION: "radiation", RADIUM: "radium", IMAGING: "imaging"}


def surviving(chunks, *profiles):
    """Hits with these profiles, in an order and on a scale of a reranker's."""
    hits = hits_of(chunks, [1 - i / 10 for i in range(len(profiles))], Scale.CROSS_ENCODER)
    return tuple(replace(hit, survival=profile) for hit, profile in zip(hits, profiles, strict=True))


def order_of(hits, aggregate):
    """The names in the order in which they would be kept."""
    names = []
    for k in range(1, len(hits) + 1):
        kept = {NAMES[hit.survival] for hit in survival_mrr(QUESTION, hits, aggregate=aggregate, k=k)}
        [new] = kept - set(names)
        names.append(new)
    return names


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("mean_present", ["imaging", "radium", "general", "radiation"]),  # as published: .5000 .2803 .2083 .1513
        ("mean_all", ["radium", "imaging", "radiation", "general"]),  # .2803 .1667 .1513 .1389
        ("rrf60", ["radium", "radiation", "general", "imaging"]),  # .04584 .04480 .02976 .01613
    ],
)
def test_the_worked_example(chunks, aggregate, expected):
    hits = surviving(chunks, GENERAL, RADIATION, RADIUM, IMAGING)
    assert order_of(hits, aggregate) == expected


def test_survival_decides_and_order_and_score_stay(chunks):
    hits = surviving(chunks, GENERAL, IMAGING, RADIATION, RADIUM)
    assert survival_mrr(QUESTION, hits, aggregate="mean_all", k=1) == (hits[3],)
    assert survival_mrr(QUESTION, hits[::-1], k=3) == (hits[0], hits[1], hits[3])


def test_ties_go_to_more_scopes_then_the_best_rank(chunks):
    one, two = (("document", 2),), (("document", 2), ("chunk", 2))
    hits = surviving(chunks, one, two)
    assert survival_mrr(QUESTION, hits, aggregate="mean_present", k=1) == (hits[1],)
    even, uneven = (("document", 4), ("chunk", 4)), (("document", 6), ("chunk", 3))
    hits = surviving(chunks, even, uneven)
    assert survival_mrr(QUESTION, hits, aggregate="mean_all", k=1) == (hits[1],)


def test_a_chunk_that_came_from_elsewhere_is_kept_last(chunks):
    hits = surviving(chunks, (), IMAGING)
    assert survival_mrr(QUESTION, hits, k=1) == (hits[1],)
    assert survival_mrr(QUESTION, hits, k=2) == hits


@given(st.sampled_from(AGGREGATES), st.integers(1, 10), st.sampled_from(["sea wall", "Who rings the bell?"]))
def test_directly_behind_nest_it_is_top_k(aggregate, k, query):
    [hits] = nest(INDEX, (query,), embedder=EMBEDDER, aggregate=aggregate)
    assert survival_mrr(QUESTION, hits, aggregate=aggregate, k=k) == top_k(QUESTION, hits, k=k)


def test_nothing_found_and_nothing_survived(chunks):
    assert survival_mrr(QUESTION, ()) == ()
    with pytest.raises(ValueError, match=r"no candidate has a survival profile; use it after retrieval\.nest"):
        survival_mrr(QUESTION, hits_of(chunks, [0.5, 0.4]))


def test_says_what_it_comes_after():
    assert passage_filter["survival_mrr"].after == {"retrieval": ("nest",)}
