import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.techniques.acceptance import PUBLISHED, fit_threshold
from ragsmith.techniques.families import retrieval
from ragsmith.techniques.retrieval.bm25 import bm25
from ragsmith.techniques.retrieval.graph import graph
from ragsmith.techniques.retrieval.sscc_pool import observe, solve, sscc_pool
from ragsmith.techniques.retrieval.vector import vector
from ragsmith.testing import ScriptedModel
from ragsmith.types import Fitted, Gold, Scale

QUERIES = ("Who was warden of the Salt Guild?", "What did Oswin Tarrel pay for?")
BEYOND = {"cosine": 9.0, "bm25": 99.0, "graph": 99.0}
"""Thresholds that nothing reaches."""


@pytest.fixture
def tools(embedder, entity_graph):
    return {"embedder": embedder, "entity_graph": entity_graph}


def ids(hits):
    return [hit.chunk.id for hit in hits]


def found(index, tools, numbers, **more):
    asked = {"language_model": ScriptedModel({}), "fitted": Fitted({"thresholds": numbers})} | dict(tools) | more
    return list(sscc_pool(index, QUERIES, **asked))


def sources(index, tools, query):
    """What each source finds by itself, as the retrievals of these names do."""
    [by_vector] = vector(index, (query,), embedder=tools["embedder"], k=20)
    [by_words] = bm25(index, (query,), k=20)
    [by_graph] = graph(index, (query,), entity_graph=tools["entity_graph"], k=20)
    return [by_vector, by_words, by_graph]


def fused(lists, fusion):
    """The chunks of lists by fused scores, from the definitions: of reciprocal ranks, or of min-max scaled scores."""
    scores = {}
    for found, share in zip(lists, (0.4, 0.4, 0.2), strict=True):
        low, high = min(found.values(), default=0.0), max(found.values(), default=0.0)
        for rank, (name, score) in enumerate(found.items(), start=1):
            scaled = (score - low) / (high - low) if low < high else 1.0
            scores[name] = scores.get(name, 0.0) + (1 / (60 + rank) if fusion == "rrf" else share * scaled)
    return sorted(scores, key=lambda name: (-round(scores[name], 12), name))


@pytest.mark.parametrize("fusion", ["convex", "rrf"])
@pytest.mark.parametrize(
    "taus",
    [{}, {"cosine": 0.3}, {"bm25": 2.0}, {"cosine": 0.25, "bm25": 1.5, "graph": 0.5}, {"cosine": 9.0, "graph": 99.0}],
)
def test_each_hit_is_held_against_the_threshold_of_its_own_scale(index, tools, taus, fusion):
    for query, hits in zip(QUERIES, found(index, tools, taus, fusion=fusion), strict=True):
        lists = [
            {hit.chunk.id: hit.score for hit in its if hit.score >= taus.get(hit.scale, -1.0)}
            for its in sources(index, tools, query)
        ]
        assert any(lists)
        assert ids(hits) == fused(lists, fusion)
        assert {hit.scale for hit in hits} == {Scale(fusion)}


def test_the_pool_mixes_scales(index, tools):
    seen = observe(index, QUERIES[:1], gold=Gold(frozenset()), pool=20, **tools)
    assert {scale for scale, _, _ in seen} == {"cosine", "bm25", "graph"}


def test_where_nothing_is_accepted_the_query_is_rewritten_once(index, tools):
    rewritten = index.entries[1].chunk.text
    assert all(sources(index, tools, query)[0][0].score < 0.9 for query in QUERIES)
    model = ScriptedModel({"rewrite_query": [rewritten, rewritten]})
    hits = found(index, tools, BEYOND | {"cosine": 0.9}, language_model=model)
    assert [ids(its) for its in hits] == [[index.entries[1].chunk.id]] * 2
    assert [call.task for call in model.calls] == ["rewrite_query"] * 2


def test_where_nothing_is_accepted_twice_the_first_pool_is_taken_whole(index, tools):
    model = ScriptedModel({"rewrite_query": ["the bell", "the bell"]})
    hits = found(index, tools, BEYOND, language_model=model)
    assert len(model.calls) == 2
    assert [ids(its) for its in hits] == [ids(its) for its in found(index, tools, {})]
    assert found(index, tools, BEYOND, query_again=False) == found(index, tools, {})  # asks for nothing


@given(st.floats(-1, 1, allow_nan=False))
def test_the_published_constant_is_a_cosine(cosine):
    squared = 2 - 2 * cosine  # |a - b|^2 of unit vectors
    if abs(cosine - 0.5) > 1e-9:
        assert (1 / (1 + squared) >= 0.5) == (cosine >= PUBLISHED["cosine"])


def test_published_thresholds_need_no_questions(index, tools):
    technique = retrieval["sscc_pool"]
    assert not technique.learns(technique.resolve_parameters({"thresholds": "published"}))
    assert technique.learns(technique.defaults)
    hits = found(index, tools, {}, fitted=Fitted({}), thresholds="published")
    assert hits == found(index, tools, {"cosine": 0.5})
    assert hits != found(index, tools, {})


@pytest.mark.parametrize("objective", ["balanced_accuracy", "f_beta", "recall"])
def test_a_threshold_is_fitted_for_each_scale(index, tools, objective):
    gold = Gold(frozenset(ids(sources(index, tools, QUERIES[0])[0])[:2]))
    seen = [observe(index, (query,), gold=gold, pool=20, **tools) for query in QUERIES]
    fitted = solve(seen, thresholds=objective)["thresholds"]
    assert fitted
    for scale in ("cosine", "bm25", "graph"):
        scored = [(score, relevant) for each in seen for its, score, relevant in each if its == scale]
        assert fitted.get(scale) == fit_threshold(scored, objective)


def test_no_queries_and_no_chunks(tools, index):
    assert sscc_pool(index, (), language_model=ScriptedModel({}), fitted=Fitted({"thresholds": {}}), **tools) == ()
    assert np.all([np.isfinite(hit.score) for hits in found(index, tools, {}) for hit in hits])
