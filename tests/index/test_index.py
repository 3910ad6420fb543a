"""The corpus for reading, and the index for searching."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_rows import Words

from ragsmith.datasets.chunking.chunking import chunk_documents
from ragsmith.errors import UsageError
from ragsmith.index.index import MAX_COMPUTED_QUERIES, Corpus, Index
from ragsmith.index.stores import open_vector_store
from ragsmith.index.top import best_positions
from ragsmith.testing import example_chunks, example_documents
from ragsmith.types import Chunk, Hit, Hits, IndexEntry, LazyHits, Queries, Scale


def entries(keys: Sequence[Sequence[str]]) -> tuple[IndexEntry, ...]:
    return tuple(IndexEntry(tuple(ks), Chunk(f"d:{n:03}", "d", n, n, n + 1, f"text {n}")) for n, ks in enumerate(keys))


def plain(chunks: Sequence[Chunk]) -> Index:
    return Index(tuple(IndexEntry((chunk.text,), chunk) for chunk in chunks))


# --- the corpus ------------------------------------------------------------------------------------------------------


def test_reading_around_a_chunk_stays_in_its_document() -> None:
    corpus = Corpus(example_documents(), example_chunks())
    harbour = tuple(chunk for chunk in corpus.chunks if chunk.doc == "harbour")
    assert corpus.text(corpus.get_span("harbour", 1, 2)) == f"{harbour[1].text}\n\n{harbour[2].text}"
    assert corpus.get_neighbours(harbour[0], 2, 1) == harbour[:2]
    assert corpus.get_neighbours(harbour[2], 1, 1) == harbour[1:]
    assert corpus.get_neighbours(harbour[3], 0, 5) == harbour[3:]
    assert corpus.get_neighbours(harbour[1], 0, 0) == harbour[1:2]
    assert all(corpus.text(chunk.span) == chunk.text for chunk in corpus.chunks)


def test_a_corpus_is_identified_by_its_texts_and_its_chunks() -> None:
    documents = example_documents()
    whole = Corpus(documents, example_chunks())
    assert Corpus(documents, example_chunks()).id == whole.id
    assert Corpus(documents, chunk_documents(documents, size=200)).id != whole.id
    assert Corpus(documents[:2], example_chunks()).id != whole.id


# --- the index -------------------------------------------------------------------------------------------------------


def test_words_find_only_chunks_that_have_them() -> None:
    [hits] = plain(example_chunks()).by_words(["Oswin Tarrel"], 10)
    assert {hit.chunk.id for hit in hits} == {"guild:2", "flood:2"}
    assert all(hit.scale is Scale.BM25 and hit.score > 0 for hit in hits)
    assert plain(example_chunks()).by_words(["zeppelin", ""], 10) == ((), ())


def test_vectors_find_the_nearest_chunks() -> None:
    [hits] = plain(example_chunks()).by_vector(["mud and salt"], 2, Words())
    assert hits[0].chunk.id == "flood:0"
    assert hits[0].scale is Scale.COSINE
    # the chunk has salt, mud and wall: cos = 2 / (sqrt(2) sqrt(3))
    assert hits[0].score == pytest.approx(2 / 6**0.5, abs=1e-6)
    assert len(hits) == 2


def test_there_is_one_ranking_for_each_query_in_order() -> None:
    index = plain(example_chunks())
    together = index.by_words(["bell", "oath", "bell"], 3)
    assert together == (*index.by_words(["bell"], 3), *index.by_words(["oath"], 3), *index.by_words(["bell"], 3))
    assert index.by_vector([], 3, Words()) == ()
    assert len(index.by_vector(["bell", "oath"], 3, Words())) == 2


def test_several_keys_of_a_chunk_count_once_by_the_best() -> None:
    index = Index(entries([["salt mud", "salt", "bell"], ["salt bell"], ["oath", "oath"]]))
    assert [len(hits) for hits in index.by_words(["salt", "oath"], 2)] == [2, 1]
    [hits] = index.by_vector(["salt"], 2, Words())
    assert [hit.chunk.id for hit in hits] == ["d:000", "d:001"]
    assert hits[0].score == 1.0
    assert hits[1].score == pytest.approx(0.5**0.5, abs=1e-6)


def test_equal_scores_stand_in_the_order_of_identifiers() -> None:
    listed = entries([["salt"]] * 5)
    for order in (listed, listed[::-1], (*listed[2:], *listed[:2])):
        [hits] = Index(order).by_vector(["salt"], 4, Words())
        assert [hit.chunk.id for hit in hits] == ["d:000", "d:001", "d:002", "d:003"]


def test_keys_are_embedded_once_for_each_embedder() -> None:
    index, one, two = plain(example_chunks()), Words("one"), Words("two")
    index.by_vector(["salt"], 3, one)
    index.by_vector(["bell"], 3, one)
    expected = index.by_vector(["bell"], 3, two)
    assert (len(one.embedded), len(two.embedded)) == (10 + 2, 10 + 1)
    assert {"one", "two"} <= index.cached_names
    equal = plain(example_chunks())
    equal.copy_cached_from(index)
    assert equal.by_vector(["bell"], 3, two) == expected
    assert two.embedded[11:] == ["bell"]  # a query is embedded for each search, so that all pay for it


def test_an_index_survives_the_way_to_another_process() -> None:
    index, words = plain(example_chunks()), Words()
    before = (index.by_words(["bell"], 5), index.by_vector(["bell"], 5, words))
    copy = pickle.loads(pickle.dumps(index))
    words.embedded.clear()
    assert (copy.by_words(["bell"], 5), copy.by_vector(["bell"], 5, words)) == before
    assert words.embedded == ["bell"]
    assert copy.id == index.id


def test_an_empty_index_finds_nothing() -> None:
    index = Index(())
    assert index.by_vector(["salt"], 3, Words()) == ((),)
    assert index.by_words(["salt"], 3) == ((),)


def test_a_chunk_that_could_never_be_found_is_refused() -> None:
    with pytest.raises(ValueError, match=re.escape("d:001 has no key")):
        Index(entries([["salt"], []]))


@given(st.lists(st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0]), max_size=30), st.integers(1, 35), st.booleans())
@settings(max_examples=100, deadline=None)
def test_the_best_positions_are_those_of_a_full_sort(scores: list[float], k: int, positive: bool) -> None:
    among = [place for place in range(len(scores)) if not positive or scores[place] > 0]
    expected = sorted(among, key=lambda place: (-scores[place], place))[:k]
    assert best_positions(np.array(scores), k, positive=positive).tolist() == expected


def test_exact_search_keeps_one_matrix_and_asking_nothing_opens_the_store() -> None:
    index, words = plain(example_chunks()), Words()
    assert index.by_vector((), 3, words) == ()
    assert len(words.embedded) == 10
    assert index.vector_store(words) is index.vector_store(words)
    index.vectors(words)
    assert len(words.embedded) == 10
    assert index.cached_names == {"words", "vector store words"}
    copy = pickle.loads(pickle.dumps(index))
    assert copy.vector_store(words)._vectors is copy.vectors(words)


def test_an_unknown_place_for_vectors_is_said_when_it_is_needed() -> None:
    index = Index(entries([["salt"]]), partial(open_vector_store, "chroma"))
    assert len(index.by_words(["salt"], 3)) == 1
    with pytest.raises(UsageError, match="give auto, approximate or approximate:FOLDER, exact"):
        index.by_vector(["salt"], 3, Words())


# --- what is derived from it -----------------------------------------------------------------------------------------


def test_what_is_derived_is_built_once_and_kept_with_the_index() -> None:
    index = plain(example_chunks())
    built: list[str] = []

    def build() -> int:
        built.append("once")
        return len(index.entries)

    assert [index.derived("size", build), index.derived("size", build)] == [10, 10]
    assert built == ["once"]
    assert index.cached_names == {"size"}
    copy = pickle.loads(pickle.dumps(index))
    assert copy.derived("size", lambda: 0) == 10
    other = plain(example_chunks())
    other.copy_cached_from(index)
    assert other.derived("size", lambda: 0) == 10


def test_building_one_thing_may_need_another() -> None:
    index, words = plain(example_chunks()), Words()
    assert index.derived("rows", lambda: index.derived("vectors", lambda: len(index.vectors(words)))) == 10
    assert index.cached_names == {"rows", "vectors", "words"}


def test_an_index_is_also_identified_by_where_its_chunks_lie() -> None:
    [one, *rest] = example_chunks()
    ids = {plain([replace(one, **change), *rest]).id for change in ({}, {"section": 3}, {"doc": "guild"}, {"level": 1})}
    assert len(ids) == 4
    assert plain([*rest, one]).id in ids
    assert Index(entries([["bell", "dues"]])).id != Index(entries([["bell dues"]])).id


def test_a_query_is_searched_once_however_deep_its_ranking_is_wanted_later() -> None:
    index = plain(example_chunks())
    searched: list[tuple[str, int]] = []

    def found_by(k: int, *queries: str) -> tuple[Hits, ...]:
        def search(missing: Queries) -> list[Hits]:
            searched.extend((query, k) for query in missing)
            return [index.by_words([query], k)[0] for query in missing]

        return index.search_cached("words again", queries, k, search)

    assert found_by(3, "bell", "oath", "bell") == index.by_words(["bell", "oath", "bell"], 3)
    assert found_by(2, "oath", "dues") == index.by_words(["oath", "dues"], 2)
    assert found_by(4, "bell", "dues") == index.by_words(["bell", "dues"], 4)
    assert searched == [("bell", 3), ("oath", 3), ("dues", 2), ("bell", 4), ("dues", 4)]


def test_of_hits_its_own_are_kept_as_columns_where_they_are_a_ranking_of_its_chunks() -> None:
    index = Index(entries([["salt"], ["bell"], ["dues"]]))
    salt, bell, dues = (Hit(entry.chunk, 1.0, Scale.GRAPH) for entry in index.entries)
    stranger = Hit(Chunk("e:000", "e", 0, 0, 1, "x"), 1.0, Scale.GRAPH)
    assert index.select_own([salt, stranger, dues]) == (salt, dues)
    assert isinstance(index.select_own([salt, stranger, dues]), LazyHits)
    others = [
        (bell, salt),
        (salt, salt),
        (salt, bell.rescored(0.5, Scale.RRF)),
        (Hit(salt.chunk, 1.0, Scale.GRAPH, (("chunk", 1),)),),
        (Hit(replace(salt.chunk, text="another"), 1.0, Scale.GRAPH),),
    ]
    for hits in others:
        assert index.select_own(hits) == hits
        assert not isinstance(index.select_own(hits), LazyHits)
    assert index.select_own([stranger]) == ()


def test_entries_of_one_chunk_are_hits_of_their_own() -> None:
    one = entries([["salt"]])[0]
    index = Index((one, IndexEntry(("salt and mud",), one.chunk)))
    [hits] = index.by_vector(["salt"], 2, Words())
    assert [hit.chunk for hit in hits] == [one.chunk, one.chunk]
    assert not isinstance(hits, LazyHits)


def test_occurrences_in_keys_say_whose_each_key_is() -> None:
    index = Index(entries([["salt mud", "bell"], ["dues"], ["bell salt salt"]]))
    found, owner = index.occurrences("salt bell", np.array([2, 0]))
    assert owner.tolist() == [0, 1, 1]
    met = zip(found.text.tolist(), found.place.tolist(), [found.terms[number] for number in found.term], strict=True)
    assert list(met) == [(0, 0, "bell"), (0, 1, "salt"), (0, 2, "salt"), (1, 0, "salt"), (2, 0, "bell")]


def test_what_is_worked_out_of_a_query_is_worked_out_once_while_there_is_room() -> None:
    index = plain(example_chunks())
    asked: list[str] = []

    def shout(missing: Queries) -> list[str]:
        asked.extend(missing)
        return [query.upper() for query in missing]

    assert index.compute_cached("shout", ["a", "b", "a"], shout) == ["A", "B", "A"]
    assert index.compute_cached("shout", ["b", "c"], shout) == ["B", "C"]
    assert asked == ["a", "b", "c"]
    assert index.compute_cached("length", ["a"], lambda missing: map(len, missing)) == [1]
    many = [str(number) for number in range(MAX_COMPUTED_QUERIES + 1)]
    assert index.compute_cached("shout", ["a", *many], shout) == ["A", *many]
    index.forget()
    assert index.compute_cached("shout", ["7"], lambda missing: ["anew"]) == ["anew"]
    assert pickle.loads(pickle.dumps(index)).compute_cached("shout", ["a"], lambda missing: ["anew"]) == ["anew"]
