"""Caches of functions are emptied where memory is short, and only those that can be filled again."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from functools import cache, lru_cache

import numpy as np

from ragsmith.gateway.caches import FEWEST, empty_caches, give_back
from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.models.embedded.sentence_ranking import SentenceRanking
from ragsmith.models.protocols import Vectors
from ragsmith.text.words import terms

MANY = 2 * FEWEST


class Reader:
    """Remembers for itself, as models do."""

    def __init__(self) -> None:
        self.read = lru_cache(maxsize=MANY)(self._read)

    def _read(self, number: int) -> int:
        return -number


Reader.__module__ = Reader._read.__module__ = "ragsmith.models.reader"


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


def test_what_is_known_of_sentences_is_given_up_and_found_again() -> None:
    embedder = Lengths()
    ranking = SentenceRanking(Lexicon(["salt and bells", "a wall"]), embedder)
    before = ranking.similarity("salt", "bells")
    ranking.similarity("salt", "bells")
    assert sorted(embedder.embedded) == ["bells", "salt"]
    empty_caches()
    assert ranking.similarity("salt", "bells") == before
    assert sorted(embedder.embedded) == ["bells", "bells", "salt", "salt"]


def test_caches_that_the_collector_leaves_alone_are_emptied_and_left_alone_again() -> None:
    reader = filled()
    gc.freeze()
    try:
        empty_caches()
        assert reader.read.cache_info().currsize == 0
        assert gc.get_freeze_count()
    finally:
        gc.unfreeze()


def test_caches_of_others_without_a_bound_and_of_few_entries_are_left_alone() -> None:
    others = lru_cache(maxsize=MANY)(abs)
    others.__module__ = "elsewhere"
    unbounded = cache(lambda number: number)
    unbounded.__module__ = "ragsmith.text.words"
    few = lru_cache(maxsize=MANY)(hash)
    few.__module__ = "ragsmith.text.words"
    for number in range(MANY):
        others(number)
        unbounded(number)
        few(number % (FEWEST // 2))
    empty_caches()
    assert others.cache_info().currsize == unbounded.cache_info().currsize == MANY
    assert few.cache_info().currsize == FEWEST // 2


def test_memory_can_be_given_back_at_any_time() -> None:
    kept = [bytes(1000) for _ in range(1000)]
    give_back()
    assert all(value == bytes(1000) for value in kept)
