"""Caches of functions are emptied where memory is short, and only those that can be filled again."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from copy import copy

import numpy as np

from ragsmith.caches import MIN_CACHE_ENTRIES, bounded_cache, empty_caches
from ragsmith.index.index import Index
from ragsmith.models.embedded.lexicon import Lexicon, SentenceRanking
from ragsmith.models.protocols import Vectors
from ragsmith.text.words import terms
from ragsmith.types import Chunk, Hits, IndexEntry

MANY = 2 * MIN_CACHE_ENTRIES


class Reader:
    """Remembers for itself, as models do."""

    def __init__(self) -> None:
        self.read = bounded_cache(MANY, key="a number")(self._read)

    def _read(self, number: int) -> int:
        return -number


def filled() -> Reader:
    reader = Reader()
    for number in range(MANY):
        assert reader.read(number) == -number
    return reader


def test_caches_of_modules_and_of_objects_are_emptied() -> None:
    reader = filled()
    for number in range(MANY):
        terms(f"word{number}")
    empty_caches()
    assert reader.read.cache_info().currsize == 0
    assert terms.cache_info().currsize == 0
    assert reader.read(3) == -3


class Lengths:
    """An embedder of two directions; it notes what it was asked."""

    id = "lengths"

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.embedded += texts
        return np.array([[len(text) % 2, (len(text) + 1) % 2] for text in texts], dtype=np.float32)


def test_emptied_sentence_caches_are_filled_again() -> None:
    embedder = Lengths()
    ranking = SentenceRanking(Lexicon(["salt and bells", "a wall"]), embedder)
    before = ranking.similarity("salt", "bells")
    ranking.similarity("salt", "bells")
    assert sorted(embedder.embedded) == ["bells", "salt"]
    empty_caches()
    assert ranking.similarity("salt", "bells") == before
    assert sorted(embedder.embedded) == ["bells", "bells", "salt", "salt"]


def test_caches_of_an_object_end_with_it() -> None:
    reader = filled()
    gone = weakref.ref(reader)
    del reader
    gc.collect()
    empty_caches()
    assert gone() is None


def test_rankings_of_an_index_are_found_again_by_its_copies() -> None:
    index = Index((IndexEntry(("salt and bells",), Chunk("0", "harbour", 0, 0, 14, "salt and bells")),))
    for one in (index, copy(index)):
        searched: list[str] = []

        def search(queries: Sequence[str], searched: list[str] = searched) -> list[Hits]:
            searched += queries
            return [() for _ in queries]

        one.search_cached("by hand", ["salt"], 1, search)
        one.search_cached("by hand", ["salt"], 1, search)
        empty_caches()
        one.search_cached("by hand", ["salt"], 1, search)
        assert searched == ["salt", "salt"]


def test_caches_of_few_entries_are_not_emptied() -> None:
    few = bounded_cache(MANY, key="a number")(hash)
    for number in range(MIN_CACHE_ENTRIES // 2):
        few(number)
    empty_caches()
    assert few.cache_info().currsize == MIN_CACHE_ENTRIES // 2
