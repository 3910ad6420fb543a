"""An index on a shelf finds what one built anew finds, whatever was there before it."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.index.chunk_graph import chunk_graph
from ragsmith.index.index import Index
from ragsmith.index.kept import KeptIndex
from ragsmith.index.shelf import Shelf
from ragsmith.models.protocols import Vectors
from ragsmith.types import Chunk, Entries, IndexEntry

VOCABULARY = ("salt", "bell", "dues", "wall", "oath", "mud")


class Words:
    """A text's vector: how often it has each of a few words, length 1; it notes what it was asked."""

    id = "words"

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.embedded += texts
        rows = np.array([[text.count(word) for word in VOCABULARY] for text in texts]).reshape(-1, len(VOCABULARY))
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        vectors: Vectors = np.divide(rows, lengths, out=np.zeros(rows.shape), where=lengths > 0).astype(np.float32)
        return vectors


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
            kept, plain = KeptIndex(entries(texts), Shelf(folder)), Index(entries(texts))
            for index in (kept, KeptIndex(entries(texts), Shelf(folder))):  # as it was built, and as it was read
                assert index.by_words([query], 5) == plain.by_words([query], 5)
                assert index.by_vector([query], 5, Words()) == plain.by_vector([query], 5, Words())
                assert np.array_equal(index.vectors(Words()), plain.vectors(Words()))
                assert vars(index._bm25)["_vocabulary"] == vars(plain._bm25)["_vocabulary"]
                for name in ("_gains", "_rows", "_cuts", "_tokens", "_texts"):
                    assert np.array_equal(vars(index._bm25)[name], vars(plain._bm25)[name]), name


def test_only_texts_that_are_new_are_embedded(tmp_path: Path) -> None:
    first, second = Words(), Words()
    KeptIndex(entries({"a": "salt", "b": "bell dues", "c": "mud"}), Shelf(tmp_path)).vectors(first)
    assert len(first.embedded) == 3
    grown = KeptIndex(entries({"a": "salt", "b": "bell oath", "d": "wall"}), Shelf(tmp_path))
    grown.vectors(second)
    assert second.embedded == ["bell oath", "wall"]
    again = Words()
    KeptIndex(grown.entries, Shelf(tmp_path)).vectors(again)
    assert again.embedded == []


def test_approximate_search_embeds_only_texts_that_are_new_and_finds_as_one_built_anew(tmp_path: Path) -> None:
    pytest.importorskip("faiss", reason="needs the extra large")
    from ragsmith.index.approximate import ApproximateVectors  # noqa: PLC0415

    class Others(Words):
        id = "others"

    drawn = random.Random(7)
    states = [{f"d{n:03}": " ".join(drawn.choices(VOCABULARY, k=9)) for n in range(size)} for size in (60, 90)]
    states[1] |= {name: text for name, text in states[0].items() if name > "d005"}  # six changed, thirty are new
    queries = [" ".join(drawn.choices(VOCABULARY, k=4)) for _ in range(5)]

    def opened(texts: dict[str, str], folder: str, embedder: Words) -> KeptIndex:
        store = partial(ApproximateVectors, folder=tmp_path / folder, coded_rows=32)
        index = KeptIndex(entries(texts), Shelf(tmp_path / f"{folder}-shelf"), store)
        index.by_vector(queries, 5, embedder)
        return index

    first, second, anew, others = Words(), Words(), Words(), Others()
    opened(states[0], "grown", first)
    opened(states[0], "grown", others)
    known = set(states[0].values())
    grown, rebuilt = opened(states[1], "grown", second), opened(states[1], "anew", anew)
    assert sorted(set(second.embedded) - set(queries)) == sorted(set(states[1].values()) - known - set(queries))
    assert set(anew.embedded) == {*queries, *states[1].values()}
    assert set(others.embedded) >= known, "vectors of another embedder are not taken over"
    assert grown.by_vector(queries, 60, second) == rebuilt.by_vector(queries, 60, anew)
    volumes = [
        sorted((tmp_path / folder).rglob("codes.npy"), key=lambda p: p.stat().st_mtime) for folder in ("grown", "anew")
    ]
    assert volumes[0][-1].read_bytes() == volumes[1][-1].read_bytes()


def test_texts_may_come_from_several_earlier_collections(tmp_path: Path) -> None:
    for texts in ({"a": "salt"}, {"b": "bell"}):
        KeptIndex(entries(texts), Shelf(tmp_path)).vectors(Words())
    both = Words()
    KeptIndex(entries({"a": "salt", "b": "bell", "c": "mud"}), Shelf(tmp_path)).vectors(both)
    assert both.embedded == ["mud"]


def test_the_same_text_in_another_language_is_read_anew(tmp_path: Path) -> None:
    text = {"a": "die Gebühren der Häuser"}
    for language in ("en", "de"):
        found, plain = KeptIndex(entries(text, language), Shelf(tmp_path)), Index(entries(text, language))
        assert vars(found._bm25)["_vocabulary"] == vars(plain._bm25)["_vocabulary"]


def test_words_of_several_chunks_are_joined_as_ever(tmp_path: Path) -> None:
    texts = {"a": "salt dues", "b": "bell dues", "c": "salt"}
    units = np.array([0, 0, 1])
    for _ in range(2):
        joined = KeptIndex(entries(texts), Shelf(tmp_path)).joined_words(units)
        assert np.array_equal(joined.scores("salt dues"), Index(entries(texts)).joined_words(units).scores("salt dues"))


def test_a_chunk_graph_is_kept(tmp_path: Path) -> None:
    texts = {"a": "salt dues", "b": "salt dues dues", "c": "bell"}
    built = chunk_graph(KeptIndex(entries(texts), Shelf(tmp_path)), Words())
    assert any(one.address.kind == "chunk graph" for one in Shelf(tmp_path).listed())
    read = chunk_graph(KeptIndex(entries(texts), Shelf(tmp_path)), Words())
    plain = chunk_graph(Index(entries(texts)), Words())
    for graph in (built, read):
        for name in ("starts", "ends", "weights", "kinds", "degrees"):
            assert np.array_equal(getattr(graph, name), getattr(plain, name)), name


def test_arrays_of_an_open_index_are_mapped_not_copied(tmp_path: Path) -> None:
    texts = {"a": "salt dues", "b": "bell"}
    KeptIndex(entries(texts), Shelf(tmp_path)).vectors(Words())
    vectors = KeptIndex(entries(texts), Shelf(tmp_path)).vectors(Words())
    assert isinstance(vectors.base, np.memmap)
    assert not vectors.flags.writeable
