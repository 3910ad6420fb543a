"""The index of a search returns what any other does, and counts the words of the chunks with the language model."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from vector_rows import Words

from ragsmith import mapped
from ragsmith.index.index import Index
from ragsmith.index.mapped_index import MappedIndex
from ragsmith.index.scopes import get_scopes, score_words
from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.testing import example_chunks
from ragsmith.text.shared_bm25 import SharedBM25, get_shared_bm25

QUERIES = ("the keeper of the harbour light", "a bell", "unheard")


@pytest.fixture
def all_in_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "MIN_MAPPED_BYTES", 0)


@pytest.mark.usefixtures("all_in_files")
def test_results_are_those_of_an_index_in_memory() -> None:
    plain, moved = Index(none(example_chunks())), MappedIndex(none(example_chunks()))
    assert isinstance(moved.vectors(Words()).base, np.memmap)
    assert [tuple(hits) for hits in moved.by_words(QUERIES, 9)] == [tuple(hits) for hits in plain.by_words(QUERIES, 9)]
    assert [tuple(hits) for hits in moved.by_vector(QUERIES, 9, Words())] == [
        tuple(hits) for hits in plain.by_vector(QUERIES, 9, Words())
    ]
    for one, other in zip(get_scopes(moved), get_scopes(plain), strict=True):
        assert (score_words(moved, one, QUERIES[0]) == score_words(plain, other, QUERIES[0])).all()


def test_the_words_of_the_same_texts_are_counted_once() -> None:
    index = MappedIndex(none(example_chunks()))
    lexicon = Lexicon([chunk.text for chunk in index.chunks])
    index.by_words(QUERIES, 3)
    assert index._bm25 is lexicon.bm25 is get_shared_bm25(index.keys, ("en",) * len(index.keys))
    assert Lexicon(["other texts"]).bm25 is not lexicon.bm25


def test_threads_that_index_the_same_texts_at_once_get_one_index() -> None:
    barrier = Barrier(4)

    def get(_: int) -> SharedBM25:
        barrier.wait(60)
        return get_shared_bm25(tuple(f"ferry {n} of {n * n} seats" for n in range(5_000)), ("en",) * 5_000)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(map(id, list(pool.map(get, range(4)))))) == 1


def test_counts_are_those_of_terms() -> None:
    lexicon = Lexicon(["bell bell light", "bell"])
    assert [lexicon.count(term) for term in ("bell", "light", "unheard")] == [3, 1, 0]
    assert lexicon.total == 4
