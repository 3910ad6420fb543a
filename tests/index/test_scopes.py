"""Sections and documents as units of search, and the neighbours of entries."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from vector_rows import Words

from ragsmith.index.index import Index
from ragsmith.index.scopes import Scope, compute_chunk_vectors, compute_cosines, get_neighbours, get_scopes, score_words
from ragsmith.text.bm25 import BM25
from ragsmith.types import Chunk, IndexEntry, Span


def chunk(doc: str, number: int, section: int, text: str) -> Chunk:
    return Chunk(f"{doc}:{number}", doc, number, number, number + 1, text, section=section)


def index(*chunks: Chunk) -> Index:
    return Index(tuple(IndexEntry((c.text,), c) for c in chunks))


TOWN = (
    chunk("a", 0, 0, "salt bell"),
    chunk("a", 1, 0, "salt"),
    chunk("a", 2, 1, "wall mud"),
    chunk("b", 0, 0, "oath"),
    chunk("b", 1, 0, "dues dues"),
)


def names(found: tuple[Scope, ...]) -> list[str]:
    return [scope.name for scope in found]


def test_chunks_are_put_together_by_section_and_document() -> None:
    document, section, single = get_scopes(index(*TOWN))
    assert names((document, section, single)) == ["document", "section", "chunk"]
    assert document.units.tolist() == [0, 0, 0, 1, 1]
    assert section.units.tolist() == [0, 0, 1, 2, 2]
    assert single.units.tolist() == [0, 1, 2, 3, 4]
    assert [len(scope) for scope in (document, section, single)] == [2, 3, 5]


@pytest.mark.parametrize(
    ("chunks", "kept"),
    [
        (TOWN, ["document", "section", "chunk"]),
        # no sections: every document is one
        ([chunk("a", 0, 0, "salt"), chunk("a", 1, 0, "mud"), chunk("b", 0, 0, "oath")], ["document", "chunk"]),
        # every section is one chunk
        ([chunk("a", 0, 0, "salt"), chunk("a", 1, 1, "mud"), chunk("b", 0, 0, "oath")], ["document", "chunk"]),
        # every document is one chunk
        ([chunk("a", 0, 0, "salt"), chunk("b", 0, 0, "mud")], ["chunk"]),
        ([], ["chunk"]),
    ],
)
def test_a_scope_that_equals_another_is_left_out(chunks: Sequence[Chunk], kept: list[str]) -> None:
    assert names(get_scopes(index(*chunks))) == kept


def test_a_summary_is_a_unit_of_its_own_at_every_scope() -> None:
    summary = Chunk("a:summary", "a", -1, 0, 0, "salt and mud", level=1, sources=(Span("a", 0, 3),))
    across = Chunk("z:summary", "", -1, 0, 0, "oath", level=2, sources=(Span("a", 0, 3), Span("b", 0, 2)))
    held = index(*TOWN, summary, across)
    document, section, _ = get_scopes(held)
    assert document.units.tolist() == [0, 0, 0, 1, 2, 2, 3]
    assert section.units.tolist() == [0, 0, 1, 2, 3, 3, 4]
    # its words do not count for its document a second time
    assert score_words(held, document, "salt")[0] == pytest.approx(
        BM25(["salt bell salt wall mud", "salt and mud", "oath dues dues", "oath"]).scores("salt")[0], abs=1e-6
    )


def test_the_words_of_a_unit_are_those_of_all_its_keys() -> None:
    keys = (("salt", "bell"), ("salt mud",), ("oath",))
    held = Index(tuple(IndexEntry(k, TOWN[i]) for k, i in zip(keys, (0, 1, 3), strict=True)))
    [document, _] = get_scopes(held)
    for query in ("salt", "bell oath", "salt salt", "nothing", ""):
        expected = BM25(["salt bell salt mud", "oath"]).scores(query)
        assert score_words(held, document, query).tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_a_unit_s_vector_is_the_mean_of_its_chunks_vectors() -> None:
    words, held = Words(), index(*TOWN)
    document, section, single = get_scopes(held)
    wanted = words.embed(["salt"]).astype(np.float64)
    chunks = words.embed([c.text for c in TOWN]).astype(np.float64)
    for scope, members in ((document, [(0, 1, 2), (3, 4)]), (section, [(0, 1), (2,), (3, 4)])):
        means = [chunks[list(places)].mean(axis=0) for places in members]
        expected = [float(mean @ wanted[0] / np.linalg.norm(mean)) for mean in means]
        assert compute_cosines(held, scope, wanted, words, 9)[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert compute_cosines(held, single, wanted, words, 9)[0].tolist() == pytest.approx(
        (chunks @ wanted[0]).tolist(), abs=1e-6
    )


def test_a_chunk_with_many_keys_weighs_no_more_than_one_with_one() -> None:
    held = Index((IndexEntry(("salt",) * 9, TOWN[0]), IndexEntry(("bell",), TOWN[1])))
    words = Words()
    [document, _] = [*get_scopes(held)]
    wanted = words.embed(["salt", "bell"]).astype(np.float64)
    assert compute_cosines(held, document, wanted, words, 9)[:, 0].tolist() == pytest.approx([0.5**0.5] * 2, abs=1e-6)
    assert compute_chunk_vectors(held, words) @ wanted.T == pytest.approx(np.eye(2), abs=1e-7)


def test_a_unit_without_a_vector_is_near_nothing() -> None:
    words, held = Words(), index(chunk("a", 0, 0, "xyz"), chunk("a", 1, 0, "zyx"), chunk("b", 0, 0, "salt"))
    assert compute_cosines(held, get_scopes(held)[0], words.embed(["salt"]).astype(np.float64), words, 9).tolist() == [
        [0.0, 1.0]
    ]


def test_nothing_is_embedded_but_the_keys_and_scopes_travel_with_the_index() -> None:
    words, held = Words(), index(*TOWN)
    wanted = words.embed(["salt"]).astype(np.float64)
    before = [compute_cosines(held, scope, wanted, words, 9).tolist() for scope in get_scopes(held)]
    assert words.embedded == ["salt", *held.keys]
    assert get_scopes(held) is get_scopes(held)
    copy = pickle.loads(pickle.dumps(held))
    assert copy.cached_names == held.cached_names
    assert [compute_cosines(copy, scope, wanted, words, 9).tolist() for scope in get_scopes(copy)] == before
    assert len(words.embedded) == 6


def placed(identity: str, doc: str, index: int, text: str = "x", **more: object) -> Chunk:
    return replace(Chunk(identity, doc, index, 0, len(text), text), **more)  # type: ignore[arg-type]


def indexed(*chunks: Chunk) -> Index:
    return Index(tuple(IndexEntry((one.text,), one) for one in chunks))


def test_neighbours_by_hand() -> None:
    index = indexed(
        placed("0", "harbour", 2, "salt", title="Harbour"),
        placed("1", "guild", 0, "bell", title="Guild", headings=("Oath",)),
        placed("2", "harbour", 0, "mud", title="Harbour"),
        placed("3", "harbour", 1, "harbour dues", title="Harbour", headings=("Dues",)),
        placed("4", "harbour", 4, "gap", title="Harbour", language="de"),
        placed("5", "harbour", 3, "sum", title="Harbour", level=1),
    )
    found = get_neighbours(index)
    assert found.document.tolist() == [0, 1, 0, 0, 0, 2]
    assert found.previous.tolist() == [3, -1, -1, 2, -1, -1]
    assert found.next.tolist() == [-1, -1, 3, 0, -1, -1]
    assert found.characters.tolist() == [4, 4, 3, 12, 3, 3]
    assert found.section.tolist() == [0, 1, 0, 2, 3, 0]
    members, sizes = found.of_documents(np.array([1, 0]))
    assert (members.tolist(), sizes.tolist()) == ([1, 2, 3, 0, 4], [1, 4])
    assert [array.tolist() for array in found.of_documents(np.zeros(0, dtype=np.int64))] == [[], []]


@settings(max_examples=60)
@given(st.sets(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=12), st.permutations(range(12)))
def test_neighbours_are_those_that_a_look_at_every_pair_finds(places: set[tuple[str, int]], names: list[int]) -> None:
    index = indexed(*(placed(f"{name:02}", *place) for name, place in zip(names, sorted(places), strict=False)))
    found, at = get_neighbours(index), [(one.doc, one.index) for one in index.chunks]
    for steps, beside in ((-1, found.previous), (1, found.next)):
        expected = [at.index((doc, n + steps)) if (doc, n + steps) in at else -1 for doc, n in at]
        assert beside.tolist() == expected
    for document in range(int(found.document.max(initial=-1)) + 1):
        members, [size] = found.of_documents(np.array([document]))
        assert members.tolist() == sorted(np.flatnonzero(found.document == document), key=lambda n: at[n][1])
        assert size == len(members)
