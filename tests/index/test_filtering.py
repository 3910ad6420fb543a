"""Retrieval among admitted entries: the ranking of all entries without the others, whatever is searched, and how."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_rows import Words

from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.filtering import Admission
from ragsmith.index.index import Corpus, Index
from ragsmith.index.scopes import compute_cosines, get_scopes, score_words
from ragsmith.index.screening import UNSCORED, compute_best_cosines, find_nearest
from ragsmith.index.vector_store import Keys
from ragsmith.testing import example_chunks, example_documents
from ragsmith.text.filters import parse_filter
from ragsmith.types import Chunk, Document, Hit, IndexEntry, Passage, Scale, Span

CHUNKS = example_chunks()
ENTRIES = tuple(IndexEntry((chunk.text, *chunk.headings), chunk) for chunk in CHUNKS)
WHOLE = Index(ENTRIES)
EMBEDDER = Words()
QUERIES = ("salt bell dues", "the wall", "mud", "nothing known")
MASKS = st.lists(st.booleans(), min_size=len(CHUNKS), max_size=len(CHUNKS)).map(np.array)


@given(MASKS, st.integers(1, 12))
def test_rankings_are_those_of_all_entries_without_the_others(admitted: np.ndarray, k: int) -> None:
    restricted = WHOLE.restrict(admitted)
    found = {chunk.id for chunk, is_admitted in zip(WHOLE.chunks, admitted, strict=True) if is_admitted}
    for whole, own in (
        (WHOLE.by_words(QUERIES, 99), restricted.by_words(QUERIES, k)),
        (WHOLE.by_vector(QUERIES, 99, EMBEDDER), restricted.by_vector(QUERIES, k, EMBEDDER)),
    ):
        for ranking, hits in zip(whole, own, strict=True):
            assert tuple(hits) == tuple(hit for hit in ranking if hit.chunk.id in found)[:k]


@given(MASKS)
def test_scopes_score_admitted_units_only_and_as_before(admitted: np.ndarray) -> None:
    restricted = WHOLE.restrict(admitted)
    vectors = EMBEDDER.embed(QUERIES).astype(np.float64)
    for scope in get_scopes(WHOLE):
        units = set(scope.units[admitted].tolist())
        outside = [unit for unit in range(len(scope)) if unit not in units]
        inside = sorted(units)
        for query in QUERIES:
            words, all_words = score_words(restricted, scope, query), score_words(WHOLE, scope, query)
            assert words[inside].tolist() == all_words[inside].tolist()
            assert not words[outside].any()
        cosines = compute_cosines(restricted, scope, vectors, EMBEDDER, 99)
        assert (cosines[:, inside] == compute_cosines(WHOLE, scope, vectors, EMBEDDER, 99)[:, inside]).all()
        assert (cosines[:, outside] == UNSCORED).all()


@given(st.integers(0, 2**32), st.floats(0, 1), st.integers(1, 30))
@settings(max_examples=30)
def test_in_single_precision_the_best_admitted_are_found(seed: int, share: float, k: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 4, 40)
    keys = Keys("x", np.cumsum([0, *sizes[:-1]]), int(sizes.sum()))
    vectors = rng.integers(-2, 3, (keys.count, 4)).astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1)
    queries, admitted = vectors[:3].astype(np.float64), rng.random(40) < share
    all_positions, all_scores = find_nearest(keys, queries, vectors, 40)
    positions, scores = find_nearest(keys, queries, vectors, k, admitted)
    best = compute_best_cosines(keys, queries, vectors, k, admitted)
    for row in range(3):
        kept = admitted[all_positions[row]]
        assert positions[row].tolist() == all_positions[row][kept][:k].tolist()
        assert scores[row].tolist() == all_scores[row][kept][:k].tolist()
        assert sorted(np.flatnonzero(best[row] > UNSCORED)) == sorted(positions[row])


def test_a_restricted_index_shares_what_is_computed_and_caches_its_own_rankings() -> None:
    embedder = Words("counted")
    whole = Index(ENTRIES)
    first, second = (whole.restrict(np.arange(len(CHUNKS)) % 2 == odd) for odd in (0, 1))
    for index in (first, second, whole, first):
        index.by_vector(QUERIES, 5, embedder)
        index.by_words(QUERIES, 5)
    assert sum(text in whole.keys for text in embedder.embedded) == len(whole.keys)
    assert first.vectors(embedder) is second.vectors(embedder)
    assert len({first.id, second.id, whole.id}) == 3
    assert whole.restrict(np.arange(len(CHUNKS)) % 2 == 0).id == first.id


@given(MASKS)
def test_a_restricted_graph_has_no_fact_of_other_chunks(admitted: np.ndarray) -> None:
    chunks = tuple(sorted(CHUNKS, key=lambda chunk: chunk.id))
    triples = [[(f"bell {n}", f"hangs over {n}", "harbour"), ("dues", f"pay for {n}", f"wall {n}")] for n in range(10)]
    graph = EntityGraph(chunks, triples)
    restricted = graph.restrict(admitted)
    allowed = {chunk.id for chunk, is_admitted in zip(chunks, admitted, strict=True) if is_admitted}
    own = [n for n in range(10) if admitted[n]]
    for query in ("Which bell hangs over the harbour?", "Who pays the dues for the wall 3?"):
        assert {hit.chunk.id for hit in restricted.search(query, 99)} <= allowed
        facts = " ".join(restricted.facts(query, 99))
        assert not [n for n in range(10) if n not in own and f" {n} " in f"{facts} "]
        assert not own or restricted.search(query, 99)


SUMMARY = Chunk("s", "", -1, 0, 0, "of both", level=1, sources=(Span("a", 0, 1), Span("b", 0, 1)))


def test_a_summary_or_passage_is_admitted_only_with_all_its_sources() -> None:
    documents = [Document("a", "", "x", fields={"n": 1.0}), Document("b", "", "x", fields={"n": 2.0})]
    chunks = tuple(Chunk(doc, doc, 0, 0, 1, "x") for doc in "ab")
    corpus = Corpus(documents, chunks)
    hits = tuple(Hit(chunk, 1.0, Scale.BM25) for chunk in (*chunks, SUMMARY))
    passages = tuple(Passage("x", hit.chunk.spans, 1.0) for hit in hits)
    unsourced = Passage("of nowhere", (), 1.0)
    for condition, names in (("n=1", {"a"}), ("n>=1", {"a", "b", "s"}), ("n>2", set())):
        admission = Admission(corpus, parse_filter(condition, {"n": float}))
        kept = tuple(hit for hit in hits if hit.chunk.id in names)
        assert admission.select(hits) == kept
        assert admission.select((hits, hits[:1])) == (kept, tuple(hit for hit in hits[:1] if hit.chunk.id in names))
        assert admission.select((*passages, unsourced)) == tuple(Passage("x", h.chunk.spans, 1.0) for h in kept)
        index = Index(tuple(IndexEntry((c.text,), c) for c in (*chunks, SUMMARY)))
        mask = admission.restrict(index).admitted
        assert mask is not None
        assert [c.id in names for c in index.chunks] == mask.tolist()
        assert admission.restrict(index) is admission.restrict(index)


def test_documents_without_the_field_are_not_admitted() -> None:
    corpus = Corpus(example_documents(), CHUNKS)
    assert Admission(corpus, parse_filter("n=1", {"n": float})).documents == frozenset()


def test_a_store_that_cannot_filter_is_an_error_not_a_leak() -> None:
    class Old:
        def search(self, query_vectors: np.ndarray, k: int) -> None:
            raise AssertionError("it was searched without the filter")

    index = Index(ENTRIES, lambda keys, make: Old())
    with pytest.raises(TypeError):
        index.restrict(np.ones(len(CHUNKS), dtype=np.bool_)).by_vector(QUERIES, 5, Words())
