"""What every vector store does, wherever its vectors are: one suite over all of them."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import compress
from pathlib import Path

import numpy as np
import pytest
from vector_rows import Made, full_sort, keys_of, tied_rows, unit

from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.experiment import Experiment
from ragsmith.index.index import Index
from ragsmith.index.stores import open_vector_store
from ragsmith.index.vector_store import Keys, VectorStore, make_keys_name
from ragsmith.index.vector_stores.approximate import ApproximateVectors
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.models.protocols import Vectors
from ragsmith.models.vector_stores import VECTOR_STORES, serves_one_process
from ragsmith.types import IndexEntry

KINDS = ("exact", "approximate", "coded", "qdrant in memory", "qdrant in a folder", "postgresql")
KEPT = ("approximate", "coded", "qdrant in a folder", "postgresql")
PACKAGES = {"approximate": "faiss", "coded": "faiss", "qdrant": "qdrant_client", "postgresql": "psycopg"}
MISSING = 0.01
"""The share of questions for which approximate search may find another five."""


def test_every_registered_store_is_in_this_suite() -> None:
    assert {known.name for known in VECTOR_STORES} == {kind.partition(" ")[0] for kind in KINDS} - {"coded"}


@dataclass
class Place:
    """Where the stores of one kind are; ``open`` opens one, which is closed at the end."""

    kind: str
    location: str
    opened: list[VectorStore] = field(default_factory=list)

    def open(self, keys: Keys, make: Callable[[int, int], Vectors]) -> VectorStore:
        if self.kind == "coded":  # as large corpora are, however small it is
            folder = Path(self.location.partition(":")[2])
            self.opened.append(ApproximateVectors(keys, make, folder, coded_rows=0))
        else:
            self.opened.append(open_vector_store(self.location, keys, make))
        return self.opened[-1]

    def close(self) -> None:
        for store in self.opened:
            getattr(store, "close", lambda: None)()


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, unsynced: None) -> Iterator[Place]:
    kind: str = request.param
    if package := PACKAGES.get(kind.partition(" ")[0]):
        pytest.importorskip(package, reason=f"needs the package {package}")
    folder = tmp_path / "vectors"
    locations = {"exact": "exact", "qdrant in memory": "qdrant::memory:", "qdrant in a folder": f"qdrant:{folder}"}
    if kind == "postgresql":
        locations[kind] = request.getfixturevalue("vector_server").database()
    found = Place(kind, locations.get(kind, f"approximate:{folder}"))
    yield found
    found.close()


every = pytest.mark.parametrize("place", KINDS, indirect=True)
exact = pytest.mark.parametrize("place", [kind for kind in KINDS if kind != "coded"], indirect=True)
kept = pytest.mark.parametrize("place", KEPT, indirect=True)


@exact
def test_an_exact_store_finds_what_a_full_sort_finds_ties_included(place: Place) -> None:
    rng = np.random.default_rng(7)
    for number in range(12):
        sizes = rng.integers(1, 5, rng.integers(1, 26)).tolist()
        keys, rows = keys_of(sizes, f"ragsmith-{number}"), tied_rows(number, sum(sizes))
        queries, k = tied_rows(number + 50, 3), int(rng.integers(1, 31))
        positions, scores = place.open(keys, Made(rows)).search(queries, k)
        expected, expected_scores = full_sort(keys, rows, queries, k)
        assert (positions.dtype, scores.dtype) == (np.int64, np.float64)
        assert positions.tolist() == expected
        np.testing.assert_allclose(scores, expected_scores, atol=1e-9)


@every
def test_among_admitted_entries_a_store_finds_what_a_full_sort_of_these_finds(place: Place) -> None:
    rng = np.random.default_rng(17)
    for number in range(8):
        sizes = rng.integers(1, 5, rng.integers(1, 60)).tolist()
        keys, rows = keys_of(sizes, f"ragsmith-admitted-{number}"), tied_rows(number, sum(sizes))
        queries, k = np.concatenate([tied_rows(number + 50, 3), np.zeros((1, 8))]), int(rng.integers(1, 31))
        store = place.open(keys, Made(rows))
        for share in (0.0, 0.1, 0.5, 1.0):
            admitted = rng.random(len(sizes)) < share
            positions, scores = store.search(queries.astype(np.float32), k, admitted)
            expected, expected_scores = full_sort(keys, rows, queries, len(sizes))
            kept = [[bool(admitted[entry]) for entry in found] for found in expected]
            assert positions.tolist() == [list(compress(*each))[:k] for each in zip(expected, kept, strict=True)]
            for row, found, cosines in zip(scores, kept, expected_scores, strict=True):
                np.testing.assert_allclose(row, list(compress(cosines, found))[:k], atol=1e-9)


@every
@pytest.mark.parametrize("sizes", [[1] * 300, [200, 1, 1, 1], [1, 1, 1, 200]])
def test_ties_and_entries_of_many_keys_do_not_hide_others(place: Place, sizes: list[int]) -> None:
    rows = np.zeros((sum(sizes), 2), dtype=np.float32)  # all keys are as near but for the last, which is farther
    rows[:, 0] = 1
    rows[-1] = (0.6, 0.8)
    query = np.array([[1, 0]], dtype=np.float32)
    positions, scores = place.open(keys_of(sizes), Made(rows)).search(query, 3)
    assert (positions.tolist(), scores.tolist()) == ([[0, 1, 2]], [[1, 1, 1]])


@every
def test_nothing_to_find_and_nothing_to_search_for(place: Place) -> None:
    empty = place.open(keys_of([], "ragsmith-empty"), Made(tied_rows(1, 0)))
    assert empty.search(tied_rows(2, 2), 5)[0].shape == (2, 0)
    store = place.open(keys_of([1, 2]), Made(tied_rows(1, 3)))
    assert store.search(tied_rows(2, 0), 5)[0].shape == (0, 2)
    positions, scores = store.search(np.zeros((1, 8), dtype=np.float32), 5)
    assert (positions.tolist(), scores.tolist()) == ([[0, 1]], [[0, 0]])


@pytest.fixture(scope="module")
def law() -> tuple[Index, list[str]]:
    """Every chunk by its text and by its heading: several keys, and many of them equal; questions of two data sets."""
    setup = Experiment(load_dataset("law"))
    index = Index(tuple(IndexEntry((chunk.text, *chunk.headings[-1:]), chunk) for chunk in setup.corpus.chunks))
    questions = [example.question for name in ("law", "workshop") for example in load_dataset(name).examples]
    return index, questions


@every
def test_on_chunks_of_a_bundled_data_set_the_first_five_are_those_of_the_index(
    place: Place, law: tuple[Index, list[str]]
) -> None:
    index, questions = law
    embedder = WordLlamaEmbedder()
    keys = keys_of([len(entry.keys) for entry in index.entries], make_keys_name(index.id, embedder.id))
    positions, scores = place.open(keys, Made(embedder.embed(index.keys))).search(embedder.embed(questions), 5)
    expected = index.by_vector(questions, 5, embedder)
    others = 0
    for hits, found, cosines in zip(expected, positions, scores, strict=True):
        same = [index.entries[i].chunk.id for i in found] == [hit.chunk.id for hit in hits]
        others += not (same and cosines.tolist() == [hit.score for hit in hits])
    assert others <= (MISSING * len(questions) if place.kind == "coded" else 0)


@every
@pytest.mark.parametrize("most_keys", [1, 4])
def test_the_best_few_are_those_of_a_deeper_search(place: Place, most_keys: int) -> None:
    rng = np.random.default_rng(11)
    sizes = rng.integers(1, most_keys + 1, 5_000 // (1 + most_keys)).tolist()
    keys, queries = keys_of(sizes), tied_rows(11, 12, 16)
    rows = unit(np.concatenate([tied_rows(12, 700, 16), rng.standard_normal((sum(sizes) - 700, 16))]))
    store = place.open(keys, Made(rows))
    deepest = store.search(queries, 700)
    for k in (1, 5, 20, 60, 61, 130, 300):
        for deeper, found in zip(deepest, store.search(queries, k), strict=True):
            assert deeper[:, :k].tolist() == found.tolist()
    positions, scores = deepest
    assert (np.lexsort((positions, -scores)) == np.arange(700)).all()  # best first, ties by position
    assert all(len({*row}) == 700 for row in positions.tolist())


@every
def test_a_search_for_all_entries_finds_each_once_and_the_best_few_first(place: Place) -> None:
    keys, rows, queries = keys_of([2] * 900), tied_rows(12, 1_800), tied_rows(13, 4)
    store = place.open(keys, Made(rows))
    every_one, _ = store.search(queries, 1_000)
    assert np.sort(every_one, axis=1).tolist() == [list(range(900))] * 4
    assert every_one[:, :20].tolist() == store.search(queries, 20)[0].tolist()


@every
def test_threads_share_a_store(place: Place) -> None:
    rows, queries = tied_rows(3, 50), tied_rows(4, 24)
    with ThreadPoolExecutor(8) as pool:  # it is opened in one thread, and searched in others
        store = pool.submit(place.open, keys_of([1] * 50), Made(rows)).result()
        found = list(pool.map(lambda query: store.search(query[None], 7)[0][0].tolist(), queries))
    assert found == store.search(queries, 7)[0].tolist()


def slice_of(rows: Vectors, start: int, end: int) -> Vectors:
    return rows[start:end]


@every
def test_another_process_searches_the_same_unless_the_store_is_for_one_process_alone(place: Place) -> None:
    if serves_one_process(place.location):
        return
    rows, queries = tied_rows(4, 60), tied_rows(5, 5)
    store = place.open(keys_of([2] * 30), partial(slice_of, rows))
    copy = pickle.loads(pickle.dumps(store))
    place.opened.append(copy)
    assert [one.tolist() for one in copy.search(queries, 7)] == [one.tolist() for one in store.search(queries, 7)]


# --- what is kept ----------------------------------------------------------------------------------------------------


@kept
def test_what_is_there_is_used_again_without_embedding_anything(place: Place) -> None:
    keys, rows, queries = keys_of([1] * 600), tied_rows(5, 600), tied_rows(6, 3)
    first, again = Made(rows), Made(rows)
    expected = place.open(keys, first).search(queries, 7)
    place.close()
    assert [one.tolist() for one in place.open(keys, again).search(queries, 7)] == [one.tolist() for one in expected]
    assert sum(end - start for start, end in first.asked) == 600
    assert again.asked == []


@kept
def test_other_texts_or_another_embedder_have_vectors_of_their_own(place: Place) -> None:
    known, queries = {"ragsmith-one": tied_rows(6, 9), "ragsmith-two": tied_rows(7, 9)}, tied_rows(8, 3)
    stores = {name: place.open(keys_of([1] * 9, name), Made(rows)) for name, rows in known.items()}
    for name, rows in known.items():
        assert stores[name].search(queries, 4)[0].tolist() == full_sort(keys_of([1] * 9), rows, queries, 4)[0]


@kept
def test_what_broke_off_while_it_was_filled_is_completed_when_it_is_opened_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ragsmith.index.vector_stores.pgvector.BATCH_ROWS", 256)
    monkeypatch.setattr("ragsmith.index.vector_stores.approximate._BLOCK_ROWS", 256)
    keys, rows, queries, rest = keys_of([1] * 600), tied_rows(8, 600), tied_rows(9, 3), Made(tied_rows(8, 600))

    def broken(start: int, end: int) -> Vectors:
        if end == 600:
            raise KeyboardInterrupt
        return rows[start:end]

    with pytest.raises(KeyboardInterrupt):
        place.open(keys, broken)
    place.close()
    found = place.open(keys, rest).search(queries, 7)
    fresh = place.open(replace(keys, name="ragsmith-fresh"), Made(rows)).search(queries, 7)
    assert [one.tolist() for one in found] == [one.tolist() for one in fresh]
    if place.kind not in ("approximate", "coded"):
        assert rest.asked == [(512, 600)]
