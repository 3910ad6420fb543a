"""A stored index or entity graph finds what one built anew finds, whatever was stored before."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_rows import VOCABULARY, Words

from ragsmith.errors import Notice
from ragsmith.index.artifact_cache import ArtifactCache
from ragsmith.index.cached_index import CachedGraph, CachedIndex, load_graph
from ragsmith.index.chunk_graph import get_chunk_graph
from ragsmith.index.entity_graph import EntityGraph, Triple
from ragsmith.index.index import Index
from ragsmith.types import Chunk, Chunks, Entries, IndexEntry

pytestmark = pytest.mark.usefixtures("unsynced")


def entries(texts: dict[str, str], language: str = "en") -> Entries:
    return tuple(
        IndexEntry((text,), Chunk(f"{name}#0", name, 0, 0, len(text), text, language=language))
        for name, text in sorted(texts.items())
    )


sentences = st.lists(st.sampled_from([*VOCABULARY, "tower", "Tides", "fees"]), max_size=6).map(" ".join)
collections = st.lists(
    st.dictionaries(st.sampled_from("abcdefg"), sentences.filter(bool), max_size=6), min_size=1, max_size=5
)
"""Collections, one after the other: from each to the next, documents are added, changed and removed."""


@settings(max_examples=40)
@given(collections, sentences)
def test_through_any_changes_it_equals_an_index_built_anew(states: list[dict[str, str]], query: str) -> None:
    with TemporaryDirectory() as folder:
        for texts in states:
            kept, plain = CachedIndex(entries(texts), ArtifactCache(folder)), Index(entries(texts))
            for index in (kept, CachedIndex(entries(texts), ArtifactCache(folder))):  # as it was built, as it was read
                units = np.arange(len(texts)) // 2
                assert np.array_equal(index.joined_words(units).scores(query), plain.joined_words(units).scores(query))
                assert index.by_words([query], 5) == plain.by_words([query], 5)
                assert index.by_vector([query], 5, Words()) == plain.by_vector([query], 5, Words())
                assert np.array_equal(index.vectors(Words()), plain.vectors(Words()))
                assert vars(index._bm25)["_vocabulary"] == vars(plain._bm25)["_vocabulary"]
                for name in ("_gains", "_rows", "_cuts", "_tokens", "_texts"):
                    assert np.array_equal(vars(index._bm25)[name], vars(plain._bm25)[name]), name


def test_only_texts_that_are_new_are_embedded(tmp_path: Path) -> None:
    first, second = Words(), Words()
    CachedIndex(entries({"a": "salt", "b": "bell dues", "c": "mud"}), ArtifactCache(tmp_path)).vectors(first)
    assert len(first.embedded) == 3
    grown = CachedIndex(entries({"a": "salt", "b": "bell oath", "d": "wall"}), ArtifactCache(tmp_path))
    grown.vectors(second)
    assert second.embedded == ["bell oath", "wall"]
    both, again = Words(), Words()
    CachedIndex(entries({"c": "mud", "d": "wall", "e": "oath"}), ArtifactCache(tmp_path)).vectors(both)
    assert both.embedded == ["oath"]  # the others are of two earlier collections
    CachedIndex(grown.entries, ArtifactCache(tmp_path)).vectors(again)
    assert again.embedded == []


def test_the_same_text_in_another_language_is_read_anew(tmp_path: Path) -> None:
    text = {"a": "die Gebühren der Häuser"}
    for language in ("en", "de"):
        found, plain = CachedIndex(entries(text, language), ArtifactCache(tmp_path)), Index(entries(text, language))
        assert vars(found._bm25)["_vocabulary"] == vars(plain._bm25)["_vocabulary"]


def test_a_chunk_graph_is_kept(tmp_path: Path) -> None:
    texts = {"a": "salt dues", "b": "salt dues dues", "c": "bell"}
    built = get_chunk_graph(CachedIndex(entries(texts), ArtifactCache(tmp_path)), Words())
    assert any(one.key.kind == "chunk graph" for one in ArtifactCache(tmp_path).list_entries())
    read = get_chunk_graph(CachedIndex(entries(texts), ArtifactCache(tmp_path)), Words())
    plain = get_chunk_graph(Index(entries(texts)), Words())
    for graph in (built, read):
        for name in ("starts", "ends", "weights", "kinds", "degrees"):
            assert np.array_equal(getattr(graph, name), getattr(plain, name)), name


def test_arrays_of_an_open_index_are_mapped_not_copied(tmp_path: Path) -> None:
    texts = {"a": "salt dues", "b": "bell"}
    CachedIndex(entries(texts), ArtifactCache(tmp_path)).vectors(Words())
    vectors = CachedIndex(entries(texts), ArtifactCache(tmp_path)).vectors(Words())
    assert isinstance(vectors.base, np.memmap)
    assert not vectors.flags.writeable


NAMES = ["Oswin Tarrel", "Salt Guild", "the salt guilds", "salt pans", "North", "...", "Ærø", "", "42"]
QUERIES = ["Who led the Salt Gild?", "salt pans of Oswin Tarel", "Ærø", "nothing of it", ""]

triples = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(["led", "owns", ""]), st.sampled_from(NAMES)))


def chunks_of(number: int) -> Chunks:
    texts = [f"Passage {i} of the Salt Guild, which {'owns pans' if i % 2 else 'is led'}." for i in range(number)]
    found = tuple(Chunk(f"d:{i}", "d", i, 0, len(text), text) for i, text in enumerate(texts))
    return found[::-1]  # a graph has them by identifier


def never() -> Sequence[Sequence[Triple]]:
    raise AssertionError("a stored graph needs no relations")


def plain(value: object) -> object:
    if isinstance(value, dict):
        return [(key, plain(held)) for key, held in value.items()]
    return (value.dtype.str, value.tolist()) if isinstance(value, np.ndarray) else value


def same(kept: EntityGraph, built: EntityGraph) -> None:
    for name in vars(built):
        assert plain(getattr(kept, name)) == plain(getattr(built, name)), name
    for query in QUERIES:
        assert kept.search(query, 5) == built.search(query, 5)
        assert kept.facts(query) == built.facts(query)


@settings(max_examples=40)
@given(st.lists(triples, max_size=6))
def test_a_kept_graph_is_the_one_that_was_built(extracted: list[list[Triple]]) -> None:
    chunks = chunks_of(len(extracted))
    with TemporaryDirectory() as folder:
        first = load_graph("corpus", chunks, "model", ArtifactCache(folder), lambda: extracted)
        again = load_graph("corpus", chunks, "model", ArtifactCache(folder), never)
        assert isinstance(again, CachedGraph)
        for graph in (first, again, pickle.loads(pickle.dumps(again))):
            same(graph, EntityGraph(chunks, extracted))


@pytest.mark.parametrize("other", [("another corpus", "model"), ("corpus", "another model")])
def test_another_corpus_or_model_has_a_graph_of_its_own(other: tuple[str, str], tmp_path: Path) -> None:
    chunks, shelf = chunks_of(2), ArtifactCache(tmp_path)
    old: list[list[Triple]] = [[("Oswin Tarrel", "led", "Salt Guild")], []]
    new: list[list[Triple]] = [[], [("Salt Guild", "owns", "salt pans")]]
    load_graph("corpus", chunks, "model", shelf, lambda: old)
    same(load_graph(other[0], chunks, other[1], shelf, lambda: new), EntityGraph(chunks, new))
    same(load_graph("corpus", chunks, "model", shelf, never), EntityGraph(chunks, old))


def test_a_damaged_graph_is_built_again(tmp_path: Path) -> None:
    chunks, shelf = chunks_of(1), ArtifactCache(tmp_path)
    extracted: list[list[Triple]] = [[("Oswin Tarrel", "led", "Salt Guild")]]
    load_graph("corpus", chunks, "model", shelf, lambda: extracted)
    file = next(tmp_path.glob("*/*/texts.npy"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.warns(Notice, match="is damaged and is computed again"):
        again = load_graph("corpus", chunks, "model", shelf, lambda: extracted)
    same(again, EntityGraph(chunks, extracted))
    same(load_graph("corpus", chunks, "model", shelf, never), EntityGraph(chunks, extracted))
