"""An entity graph that was kept finds what the one finds that is built."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import Notice
from ragsmith.index.artifact_cache import ArtifactCache
from ragsmith.index.cached_index import CachedGraph, kept_graph
from ragsmith.index.entity_graph import EntityGraph, Triple
from ragsmith.types import Chunk, Chunks

NAMES = ["Oswin Tarrel", "Salt Guild", "the salt guilds", "salt pans", "North", "...", "Ærø", "", "42"]
QUERIES = ["Who led the Salt Gild?", "salt pans of Oswin Tarel", "Ærø", "nothing of it", ""]

pytestmark = pytest.mark.usefixtures("unsynced")

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
        first = kept_graph("corpus", chunks, "model", ArtifactCache(folder), lambda: extracted)
        again = kept_graph("corpus", chunks, "model", ArtifactCache(folder), never)
        assert isinstance(again, CachedGraph)
        for graph in (first, again, pickle.loads(pickle.dumps(again))):
            same(graph, EntityGraph(chunks, extracted))


@pytest.mark.parametrize("other", [("another corpus", "model"), ("corpus", "another model")])
def test_another_corpus_or_model_has_a_graph_of_its_own(other: tuple[str, str], tmp_path: Path) -> None:
    chunks, shelf = chunks_of(2), ArtifactCache(tmp_path)
    old: list[list[Triple]] = [[("Oswin Tarrel", "led", "Salt Guild")], []]
    new: list[list[Triple]] = [[], [("Salt Guild", "owns", "salt pans")]]
    kept_graph("corpus", chunks, "model", shelf, lambda: old)
    same(kept_graph(other[0], chunks, other[1], shelf, lambda: new), EntityGraph(chunks, new))
    same(kept_graph("corpus", chunks, "model", shelf, never), EntityGraph(chunks, old))


def test_a_damaged_graph_is_built_again(tmp_path: Path) -> None:
    chunks, shelf = chunks_of(1), ArtifactCache(tmp_path)
    extracted: list[list[Triple]] = [[("Oswin Tarrel", "led", "Salt Guild")]]
    kept_graph("corpus", chunks, "model", shelf, lambda: extracted)
    file = next(tmp_path.glob("*/*/texts.npy"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.warns(Notice, match="is damaged, and is built anew"):
        again = kept_graph("corpus", chunks, "model", shelf, lambda: extracted)
    same(again, EntityGraph(chunks, extracted))
    same(kept_graph("corpus", chunks, "model", shelf, never), EntityGraph(chunks, extracted))
