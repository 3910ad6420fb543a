"""Filters that read the ranks of NEST's scopes, on the worked example of the paper (its Table 5)."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.index.index import Index
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.passage_filter.nr_survival import compute_survival, nr_survival
from ragsmith.techniques.passage_filter.survival_mrr import survival_mrr
from ragsmith.techniques.passage_filter.top_k import top_k
from ragsmith.techniques.retrieval.nest import AGGREGATES, nest
from ragsmith.testing import example_chunks, hits_of
from ragsmith.types import IndexEntry, Question, Scale

QUESTION = Question("Who discovered radium?")
CHUNKS = example_chunks()
INDEX = Index(tuple(IndexEntry((chunk.text,), chunk) for chunk in CHUNKS))
EMBEDDER = WordLlamaEmbedder()

GENERAL = (("document", 3), ("section", 12))
RADIATION = (("document", 5), ("section", 7), ("chunk", 9))
RADIUM = (("document", 11), ("section", 4), ("chunk", 2))
IMAGING = (("document", 2),)
NAMES = {GENERAL: "general", RADIATION: "radiation", RADIUM: "radium", IMAGING: "imaging"}


def surviving(*profiles):
    """Hits with these profiles, in an order and on a scale of a reranker's."""
    hits = hits_of(CHUNKS, [1 - i / 10 for i in range(len(profiles))], Scale.CROSS_ENCODER)
    return tuple(replace(hit, survival=profile) for hit, profile in zip(hits, profiles, strict=True))


@pytest.mark.parametrize(
    ("aggregate", "expected"),
    [
        ("mean_present", ["imaging", "radium", "general", "radiation"]),  # as published: .5000 .2803 .2083 .1513
        ("mean_all", ["radium", "imaging", "radiation", "general"]),  # .2803 .1667 .1513 .1389
        ("rrf60", ["radium", "radiation", "general", "imaging"]),  # .04584 .04480 .02976 .01613
    ],
)
def test_the_order_in_which_the_worked_example_is_kept(aggregate, expected):
    hits = surviving(GENERAL, RADIATION, RADIUM, IMAGING)
    for k in range(1, 5):
        kept = survival_mrr(QUESTION, hits, aggregate=aggregate, k=k)
        assert {NAMES[hit.survival] for hit in kept} == set(expected[:k])


def test_survival_decides_and_order_and_score_stay():
    hits = surviving(GENERAL, IMAGING, RADIATION, RADIUM)
    assert survival_mrr(QUESTION, hits, aggregate="mean_all", k=1) == (hits[3],)
    assert survival_mrr(QUESTION, hits[::-1], k=3) == (hits[0], hits[1], hits[3])
    assert nr_survival(QUESTION, hits, embedder=EMBEDDER, share=0.25) == (hits[3],)
    wider = nr_survival(QUESTION, hits, embedder=EMBEDDER, share=0.75)
    assert list(wider) == sorted(wider, key=lambda hit: -hit.score)
    assert len(wider) == 3


@pytest.mark.parametrize(
    ("aggregate", "worse", "better"),
    [
        ("mean_present", IMAGING, (("document", 2), ("chunk", 2))),  # more scopes
        ("mean_all", (("document", 4), ("chunk", 4)), (("document", 6), ("chunk", 3))),  # then the best rank
        ("mean_present", (), IMAGING),  # a chunk that came from elsewhere is kept last
    ],
)
def test_ties_go_to_more_scopes_then_the_best_rank(aggregate, worse, better):
    hits = surviving(worse, better)
    assert survival_mrr(QUESTION, hits, aggregate=aggregate, k=1) == (hits[1],)


@given(st.sampled_from(AGGREGATES), st.integers(1, 10), st.sampled_from(["sea wall", "Who rings the bell?"]))
def test_directly_behind_nest_it_is_top_k(aggregate, k, query):
    [hits] = nest(INDEX, (query,), embedder=EMBEDDER, aggregate=aggregate)
    assert survival_mrr(QUESTION, hits, aggregate=aggregate, k=k) == top_k(QUESTION, hits, k=k)


@pytest.mark.parametrize(
    ("profiles", "expected"),
    [
        ((GENERAL, RADIATION, RADIUM, IMAGING), [mean / 0.2803 for mean in (0.1389, 0.1513, 0.2803, 0.1667)]),
        (((("document", 2),), (("document", 1),)), (0.5, 1.0)),
        (((("document", 1),), (("document", 1), ("chunk", 1))), (0.5, 1.0)),  # scopes are counted over the list
        (((), RADIUM), (0.0, 1.0)),
    ],
)
def test_relevance_is_the_mean_over_all_scopes_as_a_share_of_the_best(profiles, expected):
    assert compute_survival(surviving(*profiles)) == pytest.approx(expected, abs=5e-4)


def test_a_copy_of_what_survived_best_goes():
    best, other = surviving(RADIUM, RADIATION)
    copy = replace(best, chunk=replace(CHUNKS[0], id="harbour:9", index=9))
    found = {
        mode: nr_survival(QUESTION, (best, copy, other), embedder=EMBEDDER, mode=mode, share=0.6)
        for mode in ("greedy", "count")
    }
    assert found == {"greedy": (best, other), "count": (best, copy)}


@pytest.mark.parametrize("name", ["nr_survival", "survival_mrr"])
def test_a_list_without_survival_is_refused_and_the_technique_says_what_it_comes_after(name):
    technique = passage_filter[name]
    tools = {"embedder": EMBEDDER} if technique.tools else {}
    assert technique.after == {"retrieval": ("nest",)}
    assert technique.fn(QUESTION, (), **tools) == ()
    with pytest.raises(ValueError, match=r"no candidate has a survival profile; use it after retrieval\.nest"):
        technique.fn(QUESTION, hits_of(CHUNKS, [0.5, 0.4]), **tools)
