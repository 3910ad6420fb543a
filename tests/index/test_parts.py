"""An index in parts: put together they find what the whole one finds, and no vector is there twice."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from ragsmith.evaluation.experiment import Experiment
from ragsmith.index.chunk_graph import get_chunk_graph
from ragsmith.index.index import Index
from ragsmith.index.parts import DERIVED, ENTRIES, IndexPart, list_parts, pack_part, unpack_part
from ragsmith.index.scopes import compute_cosines, get_scopes, score_words
from ragsmith.models.protocols import Embedder
from ragsmith.types import IndexEntry

QUERIES = ("when does the ferry leave", "who wrote a diary", "honey of the heath")


@pytest.fixture
def embedder(tiny_setup: Experiment) -> Embedder:
    return tiny_setup.loaded_models.embedder


@pytest.fixture
def index(tiny_setup: Experiment, embedder: Embedder) -> Index:
    """An index with all that a search derives from one."""
    found = Index(tuple(IndexEntry((chunk.text, chunk.doc), chunk) for chunk in tiny_setup.corpus.chunks))
    found.vector_store(embedder)
    scored = np.asarray(embedder.embed(QUERIES), dtype=np.float64)
    for scope in get_scopes(found):
        compute_cosines(found, scope, scored, embedder, 3)
    get_chunk_graph(found, embedder, threshold=0.2)
    return found


def sent(index: Index, part: IndexPart, to: Index | None) -> Index:
    """The part, as another process has it."""
    return unpack_part(to, part, pickle.loads(pickle.dumps(pack_part(index, part))))


def put_together(index: Index) -> Index:
    first, *others = list_parts(index)
    assert first == ENTRIES
    found = sent(index, ENTRIES, None)
    for part in others:
        found.copy_cached_from(sent(index, part, found))
    return found


def test_what_is_put_together_finds_the_same(index: Index, embedder: Embedder) -> None:
    found = put_together(index)
    assert (found.id, found.entries, found.cached_names) == (index.id, index.entries, index.cached_names)
    assert found.by_words(QUERIES, 5) == index.by_words(QUERIES, 5)
    assert found.by_vector(QUERIES, 5, embedder) == index.by_vector(QUERIES, 5, embedder)
    scored = np.asarray(embedder.embed(QUERIES), dtype=np.float64)
    for own, scope in zip(get_scopes(found), get_scopes(index), strict=True):
        assert own.name == scope.name
        assert np.array_equal(score_words(found, own, QUERIES[0]), score_words(index, scope, QUERIES[0]))
        assert np.array_equal(
            compute_cosines(found, own, scored, embedder, 3), compute_cosines(index, scope, scored, embedder, 3)
        )
    graph, expected = (get_chunk_graph(one, embedder, threshold=0.2) for one in (found, index))
    assert np.array_equal(graph.weights, expected.weights)


def test_no_array_that_comes_of_vectors_is_sent_twice(index: Index, embedder: Embedder) -> None:
    starts = 8 * len(index.entries)  # where entries begin, which a store has, too
    of_vectors = [part for part in list_parts(index) if embedder.id in part[1]]
    buffers = [array for part in of_vectors for array in pack_part(index, part)[1] if len(array) > starts]
    assert len(buffers) > 3
    assert not any(np.shares_memory(one, other) for i, one in enumerate(buffers) for other in buffers[:i])
    of_store = pack_part(index, (DERIVED, f"vector store {embedder.id}"))[1]
    assert sum(map(len, of_store)) < index.vectors(embedder).nbytes / 10


def test_a_store_searches_the_vectors_that_its_index_has(index: Index, embedder: Embedder) -> None:
    found = put_together(index)
    held = [value for value in vars(found.vector_store(embedder)).values() if isinstance(value, np.ndarray)]
    assert [np.shares_memory(value, found.vectors(embedder)) for value in held] == [True]
