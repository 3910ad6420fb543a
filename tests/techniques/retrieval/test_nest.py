from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.index.index import Index
from ragsmith.techniques.fusion import normalize
from ragsmith.techniques.retrieval.hybrid import hybrid
from ragsmith.techniques.retrieval.nest import AGGREGATES, NORMALISATIONS, PROJECTIONS, aggregate_survival, nest
from ragsmith.text.bm25 import BM25
from ragsmith.types import Chunk, Hit, IndexEntry, Scale, Span

QUERIES = ("Who was warden of the Salt Guild?", "grey salt", "xylophone")
pool = partial(nest, k=10_000)
"""All that the scopes return."""

WORDS = ("salt", "bell", "dues", "wall", "oath", "mud")


class Words:
    """A text's vector: how often it has each of a few words, length 1."""

    id = "words"

    def embed(self, texts):
        rows = np.array([[text.split().count(word) for word in WORDS] for text in texts], dtype=np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


def town(*texts):
    """Chunks of (document, section, text)."""
    chunks = (Chunk(f"{n:03}", doc, n, n, n + 1, text, section=s) for n, (doc, s, text) in enumerate(texts))
    return Index(tuple(IndexEntry((chunk.text,), chunk) for chunk in chunks))


TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)
TOWNS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), TEXTS), min_size=1, max_size=14).map(
    lambda texts: town(*texts)
)
BUDGETS = st.fixed_dictionaries(
    {"document_budget": st.integers(1, 8), "section_budget": st.integers(1, 6), "chunk_budget": st.integers(1, 5)}
)
FORMS = st.fixed_dictionaries(
    {
        "projection": st.sampled_from(PROJECTIONS),
        "aggregate": st.sampled_from(AGGREGATES),
        "norm": st.sampled_from(NORMALISATIONS),
        "context": st.sampled_from([0.0, 0.5, 1.0]),
        "weight": st.sampled_from([0.0, 0.4, 1.0]),
    }
)
ASKED = st.lists(st.sampled_from([*WORDS, "zeppelin"]), min_size=1, max_size=3).map(" ".join)


def ids(hits):
    return [hit.chunk.id for hit in hits]


def found_at(hits, scope):
    return {hit.chunk.id: rank for hit in hits for name, rank in hit.survival if name == scope}


# --- aggregation: the worked example of the paper (its Table 5) ------------------------------------------------------

EXAMPLE = {
    "general": (("document", 3), ("section", 12)),
    "radiation": (("document", 5), ("section", 7), ("chunk", 9)),
    "radium": (("document", 11), ("section", 4), ("chunk", 2)),
    "imaging": (("document", 2),),
}


@pytest.mark.parametrize(
    ("how", "general", "radiation", "radium", "imaging"),
    [
        ("mean_present", 0.2083, 0.1513, 0.2803, 0.5000),
        ("mean_all", 0.1389, 0.1513, 0.2803, 0.1667),
        ("rrf60", 0.02976, 0.04480, 0.04584, 0.01613),
        # (1/3 + 2/12) / 6, (1/5 + 2/7 + 3/9) / 6, (1/11 + 2/4 + 3/2) / 6, (1/2) / 6
        ("depth_weighted", 0.0833, 0.1365, 0.3485, 0.0833),
    ],
)
def test_worked_values(how, general, radiation, radium, imaging):
    digits = 5 if how == "rrf60" else 4
    found = {name: round(aggregate_survival(profile, 3, how), digits) for name, profile in EXAMPLE.items()}
    assert found == {"general": general, "radiation": radiation, "radium": radium, "imaging": imaging}


def test_depth_counts_the_scopes_there_are():
    assert aggregate_survival((("document", 2), ("chunk", 4)), 2, "depth_weighted") == pytest.approx(
        (1 / 2 + 2 / 4) / 3
    )
    assert aggregate_survival((("chunk", 4),), 1, "depth_weighted") == 1 / 4
    assert aggregate_survival((), 3, "mean_present") == 0


def test_an_unknown_aggregate_is_refused():
    with pytest.raises(ValueError, match="no aggregate 'median': use one of mean_all, mean_present"):
        aggregate_survival((), 3, "median")


# --- against an oracle -----------------------------------------------------------------------------------------------


def unit_scores(texts, means, query, weight, norm, depth):
    """Hybrid scores of units by fusing two ranked lists, and the units that are in one of them."""
    [wanted] = Words().embed([query]).astype(float)
    words = [round(float(s), 6) for s in BM25(texts).scores(query)]
    near = [round(float(mean @ wanted), 6) for mean in means]
    scores = {}
    for share, side in ((weight, {n: s for n, s in enumerate(words) if s > 0}), (1 - weight, dict(enumerate(near)))):
        best = sorted(side, key=lambda n: (-side[n], n))[:depth]
        hits = [Hit(Chunk(f"{n:03}", "", 0, 0, 0, ""), side[n], Scale.BM25) for n in best]
        for n, value in zip(best, normalize(hits, norm), strict=True):
            scores[n] = scores.get(n, 0.0) + share * value
    return scores, set(scores)


def oracle(index, query, budgets, form):
    """Scope to chunk to rank, with ``context_rank`` and scopes that all count."""
    chunks = [entry.chunk for entry in index.entries]
    vectors = Words().embed([chunk.text for chunk in chunks]).astype(float)
    depth = 3 * max(budgets.values())
    own = {}
    listed = set()
    found = {}
    for scope in ("chunk", "document", "section"):
        keys = [{"chunk": c.id, "document": c.doc, "section": f"{c.doc} {c.section}"}[scope] for c in chunks]
        units = list(dict.fromkeys(keys))
        texts = [" ".join(c.text for c, key in zip(chunks, keys, strict=True) if key == unit) for unit in units]
        sums = [sum(v for v, key in zip(vectors, keys, strict=True) if key == unit) for unit in units]
        means = [s / (np.linalg.norm(s) or 1) for s in sums]
        scores, seen = unit_scores(texts, means, query, form["weight"], form["norm"], depth)
        mu = 0.0 if scope == "chunk" else form["context"]
        if scope == "chunk":
            own, listed = scores, seen
        of = [units.index(key) for key in keys]
        among = [n for n in range(len(chunks)) if n in listed or (mu and of[n] in seen)]
        mixed = {n: round(mu * round(scores.get(of[n], 0), 9) + (1 - mu) * round(own.get(n, 0), 9), 9) for n in among}
        best = sorted(among, key=lambda n: (-mixed[n], n))[: budgets[f"{scope}_budget"]]
        found[scope] = {chunks[n].id: rank for rank, n in enumerate(best, 1)}
    return found


THREE = [("a", 0, "salt bell"), ("a", 0, "mud"), ("a", 1, "oath salt"), ("b", 0, "dues"), ("b", 0, "wall wall mud")]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), TEXTS), max_size=8), ASKED, BUDGETS, FORMS)
@settings(max_examples=80, deadline=None)
def test_profiles_are_those_of_a_plain_implementation(more, query, budgets, form):
    index = town(*THREE, *more)  # its three scopes differ, whatever is added
    [hits] = pool(index, (query,), embedder=Words(), **budgets, **{**form, "projection": "context_rank"})
    expected = oracle(index, query, budgets, form)
    for scope, ranks in expected.items():
        assert found_at(hits, scope) == ranks
    for hit in hits:
        assert hit.score == pytest.approx(aggregate_survival(hit.survival, 3, form["aggregate"]), abs=1e-8)


# --- properties ------------------------------------------------------------------------------------------------------


@given(TOWNS, ASKED, BUDGETS, FORMS, st.booleans())
@settings(max_examples=50, deadline=None)
def test_properties(index, query, budgets, form, nested):
    [hits] = pool(index, (query,), embedder=Words(), nested=nested, **budgets, **form)
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))
    assert len(set(ids(hits))) == len(hits)
    assert all(hit.survival and hit.scale is Scale.SURVIVAL and type(hit.score) is float for hit in hits)
    for k in (1, 3, 99):
        [cut] = nest(index, (query,), embedder=Words(), nested=nested, k=k, **budgets, **form)
        assert cut == hits[:k]
    scopes = [found_at(hits, scope) for scope in ("document", "section", "chunk")]
    kept = [ranks for ranks in scopes if ranks]
    if form["projection"] == "context_rank":
        for ranks in kept:
            assert sorted(ranks.values()) == list(range(1, len(ranks) + 1))
        assert max(map(len, kept), default=0) <= len(hits) <= sum(map(len, kept))
        for scope, ranks in zip(("document", "section", "chunk"), scopes, strict=True):
            assert len(ranks) <= budgets[f"{scope}_budget"]
    if nested:
        for coarse, fine in pairwise(kept):
            assert set(fine) <= set(coarse)
    else:
        flat = {"weight": 1 - form["weight"], "pool": 3 * max(budgets.values()), "k": budgets["chunk_budget"]}
        [best] = hybrid(index, (query,), embedder=Words(), **flat)
        if form["norm"] == "minmax" and form["projection"] == "context_rank" and len(kept) == 3:
            assert set(ids(best)) <= set(ids(hits))


# --- behaviour -------------------------------------------------------------------------------------------------------


def test_a_flat_corpus_is_plain_hybrid_search(embedder):
    held = town(
        *((f"d{n}", 0, text) for n, text in enumerate(["grey salt", "the salt guild", "a bell", "mud", "wall"]))
    )
    [hits] = nest(held, ("grey salt of the guild",), embedder=embedder)
    [flat] = hybrid(held, ("grey salt of the guild",), embedder=embedder, weight=0.6)
    assert ids(hits) == ids(flat)
    assert [hit.survival for hit in hits] == [(("chunk", rank),) for rank in range(1, 6)]
    assert [hit.score for hit in hits] == pytest.approx([1 / rank for rank in range(1, 6)])


def test_without_context_every_scope_says_what_the_chunks_say(index, embedder):
    for hits in pool(index, QUERIES, embedder=embedder, context=0.0):
        assert all(len({rank for _, rank in hit.survival}) == 1 for hit in hits)
    flat = hybrid(index, QUERIES, embedder=embedder, weight=0.6, pool=300)
    assert [ids(hits) for hits in nest(index, QUERIES, embedder=embedder, context=0.0)] == [ids(hits) for hits in flat]


def test_documents_vote_once_where_there_are_no_sections(index, embedder):
    hits = nest(index, QUERIES, embedder=embedder)[0]
    assert {scope for hit in hits for scope, _ in hit.survival} == {"document", "chunk"}
    assert hits[0].chunk.id == "guild:2"


def test_context_prefers_the_chunk_whose_document_is_on_the_subject():
    held = town(("b", 0, "dues wall"), ("b", 0, "mud"), ("a", 0, "dues wall"), ("a", 0, "salt salt"))
    asked = {"embedder": Words(), "weight": 1.0}
    [flat] = nest(held, ("dues salt",), **asked, context=0.0)
    [hits] = nest(held, ("dues salt",), **asked, context=0.5)
    assert ids(flat).index("000") < ids(flat).index("002")  # the same words, so the smaller id
    assert found_at(hits, "document")["002"] < found_at(hits, "document")["000"]


def test_inherited_ranks_are_those_of_the_document():
    held = town(*THREE, ("c", 0, "wall"))
    [hits] = pool(held, ("oath salt",), embedder=Words(), projection="inherit", document_budget=1, section_budget=2)
    # all of document a stands first among documents; of its sections, the one with both words
    assert found_at(hits, "document") == {"000": 1, "001": 1, "002": 1}
    assert found_at(hits, "section")["002"] == 1
    assert found_at(hits, "section") == {"000": 2, "001": 2, "002": 1}
    assert found_at(hits, "chunk")["002"] == 1


def test_a_nested_search_loses_what_lies_outside_the_best_documents():
    held = town(("a", 0, "salt salt"), ("a", 0, "salt bell"), ("b", 0, "mud mud mud wall"), ("b", 0, "salt"))
    asked = {"embedder": Words(), "projection": "inherit", "document_budget": 1, "weight": 0.0}
    [nested] = pool(held, ("salt",), **asked, nested=True)
    [free] = pool(held, ("salt",), **asked)
    assert set(ids(nested)) == {"000", "001"}
    assert "003" in ids(free)


def test_ties_go_to_more_scopes_then_to_the_better_rank_then_to_depth_then_to_the_id():
    held = town(*((f"d{n // 2}", 0, "salt") for n in range(6)))
    [hits] = pool(held, ("salt",), embedder=Words(), projection="inherit", document_budget=3, chunk_budget=6)
    assert ids(hits) == ["000", "001", "002", "003", "004", "005"]
    # all chunks are equal: the documents have ranks 1, 2, 3, the chunks 1 to 6
    assert [hit.survival for hit in hits][:3] == [
        (("document", 1), ("chunk", 1)),
        (("document", 1), ("chunk", 2)),
        (("document", 2), ("chunk", 3)),
    ]
    # mean of the scopes present: 1/2 by the document alone ties with (1/2, 1/2)
    one, two = (("document", 2),), (("document", 2), ("chunk", 2))
    assert aggregate_survival(one, 2, "mean_present") == aggregate_survival(two, 2, "mean_present")
    [hits] = pool(
        held, ("salt",), embedder=Words(), projection="inherit", aggregate="mean_present", nested=True, chunk_budget=1
    )
    # (1, 1) before (1): more scopes; then the siblings of each document, by id
    assert ids(hits) == ["000", "001", "002", "003", "004", "005"]
    assert [hit.survival for hit in hits][:2] == [(("document", 1), ("chunk", 1)), (("document", 1),)]
    assert hits[0].score > hits[1].score == pytest.approx(hits[0].score, abs=1e-12)


def test_a_summary_can_survive_everywhere(embedder):
    texts = ["grey salt of the guild", "the guild swears an oath", "the wall fell", "the flood of mud"]
    leaves = [Chunk(f"{n}", "ab"[n // 2], n % 2, n, n + 1, text) for n, text in enumerate(texts)]
    summary = Chunk("s", "", -1, 0, 0, "flood and wall and mud", level=1, sources=(Span("b", 2, 4),))
    held = Index(tuple(IndexEntry((chunk.text,), chunk) for chunk in (*leaves, summary)))
    [hits] = nest(held, ("flood wall mud",), embedder=embedder)
    assert hits[0].chunk == summary
    assert [scope for scope, _ in hits[0].survival] == ["document", "chunk"]
