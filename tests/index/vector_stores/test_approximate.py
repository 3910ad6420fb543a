"""Approximate search of a collection that changed: vectors of the same texts are taken over, all else is made anew."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.index.vector_store import Keys, MakeVectors, TextPositions, make_keys_name
from ragsmith.index.vector_stores.approximate import ApproximateVectors
from ragsmith.models.protocols import Vectors

pytest.importorskip("faiss", reason="needs the extra large")

WORDS = ("salt", "bell", "dues", "wall", "oath", "mud")
CODED = 32


class Embedder:
    """A text's vector: how often it has each of a few words, length 1; it notes what it was asked."""

    def __init__(self, name: str = "words", dimensions: int = len(WORDS)) -> None:
        self.id = name
        self.asked: list[str] = []
        self._words = WORDS[:dimensions]

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.asked += texts
        rows = np.array([[text.count(word) + 1.0 for word in self._words] for text in texts])
        vectors: Vectors = rows.reshape(-1, len(self._words)).astype(np.float32)
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def drawn(rng: random.Random, count: int) -> list[str]:
    return [" ".join(rng.choices(WORDS, k=9)) + f" {rng.random()}" for _ in range(count)]


def opened(texts: Sequence[str], folder: Path, embedder: Embedder, *, says_texts: bool = True) -> ApproximateVectors:
    def make(start: int, end: int) -> Vectors:
        return embedder.embed(texts[start:end])

    keys = Keys(make_keys_name(repr(texts), embedder.id), np.arange(len(texts)), len(texts))
    known: MakeVectors = TextPositions(texts, embedder, make) if says_texts else make
    return ApproximateVectors(keys, known, folder, CODED)


def codes_of(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("codes.npy")]


def test_only_texts_that_are_new_are_embedded_and_all_is_as_if_built_anew(tmp_path: Path) -> None:
    rng = random.Random(7)
    before = drawn(rng, 60)
    after = [*drawn(rng, 25), *before[6:], before[9]]
    first, second, anew = Embedder(), Embedder(), Embedder()
    opened(before, tmp_path / "grown", first)
    grown, rebuilt = opened(after, tmp_path / "grown", second), opened(after, tmp_path / "anew", anew)
    assert (first.asked, second.asked, anew.asked) == (before, after[:25], after)
    assert np.array_equal(grown.vectors, rebuilt.vectors)
    [codes] = codes_of(tmp_path / "anew")
    assert codes in codes_of(tmp_path / "grown")
    queries = Embedder().embed(drawn(rng, 5))
    for one, other in zip(grown.search(queries, 9), rebuilt.search(queries, 9), strict=True):
        assert np.array_equal(one, other)


texts_of_a_state = st.lists(st.sampled_from([f"{a} {b}" for a in WORDS for b in WORDS]), max_size=12)


@settings(max_examples=30, deadline=None)
@given(states=st.lists(texts_of_a_state, min_size=1, max_size=5))
def test_through_any_changes_vectors_are_those_of_the_texts(
    states: list[list[str]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("vectors")
    for texts in states:
        vectors = opened(texts, folder, Embedder()).vectors
        assert len(vectors) == len(texts)
        if texts:
            assert np.array_equal(vectors, Embedder().embed(texts))


def test_vectors_of_other_embedders_are_neither_taken_nor_in_the_way(tmp_path: Path) -> None:
    texts = drawn(random.Random(2), 40)
    opened(texts, tmp_path, Embedder())
    for number in range(6):
        opened(drawn(random.Random(number), 20), tmp_path, Embedder(f"other {number}"))
    narrow, again = Embedder("narrow", 4), Embedder()
    assert opened([*texts, "salt"], tmp_path, narrow).vectors.shape == (41, 4)
    opened([*texts, "salt"], tmp_path, again)
    assert (len(narrow.asked), again.asked) == (41, ["salt"])


def test_what_a_search_wrote_is_taken_over_once_its_texts_are_known(tmp_path: Path) -> None:
    texts = drawn(random.Random(3), 40)
    search, ask, grown = Embedder(), Embedder(), Embedder()
    opened(texts, tmp_path, search, says_texts=False)
    opened(texts, tmp_path, ask)
    opened([*texts, "salt"], tmp_path, grown)
    assert (len(search.asked), ask.asked, grown.asked) == (40, [], ["salt"])
