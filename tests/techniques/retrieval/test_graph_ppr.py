import numpy as np
import pytest

from ragsmith.index.index import Index
from ragsmith.techniques.reranking.cross_encoder import cross_encoder
from ragsmith.techniques.retrieval.graph_ppr import graph_ppr
from ragsmith.techniques.retrieval.hybrid import hybrid
from ragsmith.types import Chunk, IndexEntry, Question, Scale, Span

QUERIES = ("Who was warden of the Salt Guild?", "What did Oswin Tarrel pay for?")


class Words:
    """A text's vector: which of a few words it has, length 1."""

    id = "words"

    def embed(self, texts):
        rows = np.array([[float(word in text) for word in ("salt", "bell", "mud")] for text in texts], dtype=np.float32)
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)


class OneIsBest:
    """Scores 1 what is the text it knows, and 0 all else."""

    id = "one"

    def __init__(self, text):
        self.text = text

    def score(self, query, texts):
        return [float(text == self.text) for text in texts]

    def at(self, depth):
        return {"cross_encoder": self, "depth": depth, "first_stage_weight": 0.0}


def plain(*chunks):
    return Index(tuple(IndexEntry((chunk.text,), chunk) for chunk in chunks))


def line(*texts, doc="a"):
    return [Chunk(f"{doc}:{n}", doc, n, n, n + 1, text) for n, text in enumerate(texts)]


def ids(hits):
    return [hit.chunk.id for hit in hits]


def test_what_stands_next_to_the_best_hit_is_added():
    # only a:1 and b:0 have a word of the question; a:0 and a:2 are neighbours of the one, b:1 of the other
    index = plain(*line("who", "salt bell", "what", "when", "where"), *line("bell", "which", doc="b"))
    [hits] = graph_ppr(index, ("salt bell",), embedder=Words(), k=2, budget=3, seeds=1)
    assert ids(hits)[0] == "a:1"
    assert set(ids(hits)) == {"a:1", "b:0", "a:0", "a:2", "a:3"}
    scores = {hit.chunk.id: hit.score for hit in hits}
    assert scores["a:0"] < scores["a:2"]  # a:2 is also reached from behind
    assert 0 < scores["a:3"] < scores["a:2"] < scores["a:1"] == pytest.approx(1.0)


def test_worked_scores():
    index = plain(*line("salt bell", "who"), *line("bell", doc="b"))
    # a:0 and a:1 are joined; the walk from a:0 is at a:1 with p1 and at a:0 with p0 after 20 steps, never at b:0
    p0, p1 = 1.0, 0.0
    for _ in range(20):
        p0, p1 = 0.85 * p1 + 0.15, 0.85 * p0
    [hits] = graph_ppr(index, ("salt bell",), embedder=Words(), k=2, budget=5, seeds=1, weight=0.4, threshold=0.9)
    assert ids(hits)[0] == "a:0"
    low, high = 0.0, max(p0, p1)
    first = {hit.chunk.id: hit.score for hit in hybrid(index, ("salt bell",), embedder=Words(), k=2)[0]}
    best, worst = max(first.values()), min(first.values())
    expected = {
        "a:0": 0.6 * (first["a:0"] - worst) / (best - worst) + 0.4 * (p0 - low) / (high - low),
        "b:0": 0.6 * (first["b:0"] - worst) / (best - worst),
        "a:1": 0.4 * (p1 - low) / (high - low),
    }
    assert {hit.chunk.id: hit.score for hit in hits} == pytest.approx(expected, abs=1e-7)


def test_nothing_that_hybrid_search_found_is_lost(index, embedder):
    for budget in (1, 3):
        rankings = graph_ppr(index, QUERIES, embedder=embedder, k=4, budget=budget)
        for hits, first in zip(rankings, hybrid(index, QUERIES, embedder=embedder, k=4), strict=True):
            assert set(ids(first)) <= set(ids(hits))
            assert 4 <= len(hits) <= 4 + budget
            assert len(set(ids(hits))) == len(hits)
            assert {hit.scale for hit in hits} == {Scale.CONVEX}
            assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))
            assert all(type(hit.score) is float for hit in hits)


def test_as_published_additions_come_last_with_nothing(index, embedder):
    for query in QUERIES:
        [hits] = graph_ppr(index, (query,), embedder=embedder, k=4, budget=3, weight=0.0)
        [first] = hybrid(index, (query,), embedder=embedder, k=4)
        assert ids(hits)[:4] == ids(first)
        added = {hit.chunk.id: hit.score for hit in hits if hit.chunk.id not in ids(first)}
        assert added
        assert {round(score, 6) for score in added.values()} == {0.0}


def test_an_addition_can_come_within_the_first_k():
    index = plain(*line("salt bell", "who"), *line("mud", "mud", doc="b"), *line("salt", doc="c"))
    [hits] = graph_ppr(index, ("salt bell",), embedder=Words(), k=2, budget=1, seeds=1, threshold=0.9)
    assert ids(hits) == ["a:0", "a:1", "c:0"]
    assert ids(hybrid(index, ("salt bell",), embedder=Words(), k=2)[0]) == ["a:0", "c:0"]


def test_reserved_places_let_a_reranker_that_reads_k_read_all_additions(index, embedder):
    for query in QUERIES:
        for budget in (1, 3, 9):
            asked = {"embedder": embedder, "k": 4, "budget": budget}
            [hits] = graph_ppr(index, (query,), scoring="reserved", **asked)
            [first] = hybrid(index, (query,), embedder=embedder, k=4)
            [blended] = graph_ppr(index, (query,), weight=1.0, **asked)
            added = [i for i in ids(hits) if i not in ids(first)]
            assert added
            assert set(ids(hits)) == set(ids(blended))
            begin = max(1, 4 - len(added))
            assert ids(hits) == ids(first)[:begin] + added + ids(first)[begin:]
            assert added == [i for i in ids(blended) if i in added]  # by PageRank
            assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))
            assert len({hit.score for hit in hits}) == len(hits)


def test_additions_in_reserved_places_change_what_stands_behind_a_reranker():
    # the answer has no word of the question, and a reranker knows it
    index = plain(*line("salt bell", "who"), *line("mud", "mud", doc="b"), *line("salt", doc="c"))
    asked = {"embedder": Words(), "k": 2, "budget": 1, "seeds": 1, "threshold": 0.9}
    knows = OneIsBest("who")
    found = {
        name: ids(
            cross_encoder(Question("salt bell"), graph_ppr(index, ("salt bell",), **asked, **how)[0], **knows.at(2))
        )
        for name, how in (("as published", {"weight": 0.0}), ("reserved", {"scoring": "reserved"}))
    }
    assert found == {"as published": ["a:0", "c:0"], "reserved": ["a:1", "a:0"]}


def test_equal_scores_keep_their_order_around_reserved_places():
    index = plain(*line("salt", "who"), *line("salt", "what", doc="b"), *line("salt", "where", doc="c"))
    [first] = hybrid(index, ("salt",), embedder=Words(), k=3)
    assert len({hit.score for hit in first}) == 1
    [hits] = graph_ppr(index, ("salt",), embedder=Words(), k=3, budget=1, seeds=1, threshold=0.99, scoring="reserved")
    assert ids(hits)[:2] == ids(first)[:2]
    assert ids(hits)[3] == ids(first)[2]
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))


def test_more_restart_stays_nearer():
    index = plain(*line("salt bell", "who", "what", "when"))
    asked = {"embedder": Words(), "k": 1, "budget": 3, "seeds": 1, "weight": 1.0}
    [far] = graph_ppr(index, ("salt",), **asked, restart=0.15)
    [near] = graph_ppr(index, ("salt",), **asked, restart=0.8)
    last = {name: {hit.chunk.id: hit.score for hit in hits} for name, hits in (("far", far), ("near", near))}
    assert last["near"]["a:2"] < last["far"]["a:2"]


def test_summaries_are_found_but_lead_nowhere():
    summary = Chunk("s", "a", -1, 0, 0, "salt bell", level=1, sources=(Span("a", 0, 2),))
    index = plain(*line("salt", "who", "what"), summary)
    [hits] = graph_ppr(index, ("salt bell",), embedder=Words(), k=2, seeds=1)
    assert set(ids(hits)) == {"s", "a:0", "a:1", "a:2"}  # a:0 is the seed, though the summary is the best hit


def test_a_query_that_finds_nothing_adds_nothing():
    index = plain(*line("who", "what", "when"))
    [hits] = graph_ppr(index, ("salt",), embedder=Words(), k=2)
    assert ids(hits) == ids(hybrid(index, ("salt",), embedder=Words(), k=2)[0])
    assert graph_ppr(index, (), embedder=Words()) == ()
    assert graph_ppr(Index(()), ("salt",), embedder=Words()) == ((),)


def test_asking_nothing_builds_the_graph(index, embedder):
    graph_ppr(index, (), embedder=embedder, threshold=0.6)
    held = index.cached_names
    graph_ppr(index, QUERIES, embedder=embedder, threshold=0.6)
    assert index.cached_names == held
