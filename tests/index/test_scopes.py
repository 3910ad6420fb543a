"""Sections and documents as units of search, made from the chunks."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest
from vector_rows import Words

from ragsmith.index.index import Index
from ragsmith.index.scopes import Scope, chunk_vectors, cosines, scopes, word_scores
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
    document, section, single = scopes(index(*TOWN))
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
    assert names(scopes(index(*chunks))) == kept


def test_a_summary_is_a_unit_of_its_own_at_every_scope() -> None:
    summary = Chunk("a:summary", "a", -1, 0, 0, "salt and mud", level=1, sources=(Span("a", 0, 3),))
    across = Chunk("z:summary", "", -1, 0, 0, "oath", level=2, sources=(Span("a", 0, 3), Span("b", 0, 2)))
    held = index(*TOWN, summary, across)
    document, section, _ = scopes(held)
    assert document.units.tolist() == [0, 0, 0, 1, 2, 2, 3]
    assert section.units.tolist() == [0, 0, 1, 2, 3, 3, 4]
    # its words do not count for its document a second time
    assert word_scores(held, document, "salt")[0] == pytest.approx(
        BM25(["salt bell salt wall mud", "salt and mud", "oath dues dues", "oath"]).scores("salt")[0], abs=1e-6
    )


def test_the_words_of_a_unit_are_those_of_all_its_keys() -> None:
    keys = (("salt", "bell"), ("salt mud",), ("oath",))
    held = Index(tuple(IndexEntry(k, TOWN[i]) for k, i in zip(keys, (0, 1, 3), strict=True)))
    [document, _] = scopes(held)
    for query in ("salt", "bell oath", "salt salt", "nothing", ""):
        expected = BM25(["salt bell salt mud", "oath"]).scores(query)
        assert word_scores(held, document, query).tolist() == pytest.approx(expected.tolist(), abs=1e-6)


def test_a_unit_s_vector_is_the_mean_of_its_chunks_vectors() -> None:
    words, held = Words(), index(*TOWN)
    document, section, single = scopes(held)
    wanted = words.embed(["salt"]).astype(np.float64)
    chunks = words.embed([c.text for c in TOWN]).astype(np.float64)
    for scope, members in ((document, [(0, 1, 2), (3, 4)]), (section, [(0, 1), (2,), (3, 4)])):
        means = [chunks[list(places)].mean(axis=0) for places in members]
        expected = [float(mean @ wanted[0] / np.linalg.norm(mean)) for mean in means]
        assert cosines(held, scope, wanted, words, 9)[0].tolist() == pytest.approx(expected, abs=1e-6)
    assert cosines(held, single, wanted, words, 9)[0].tolist() == pytest.approx((chunks @ wanted[0]).tolist(), abs=1e-6)


def test_a_chunk_with_many_keys_weighs_no_more_than_one_with_one() -> None:
    held = Index((IndexEntry(("salt",) * 9, TOWN[0]), IndexEntry(("bell",), TOWN[1])))
    words = Words()
    [document, _] = [*scopes(held)]
    wanted = words.embed(["salt", "bell"]).astype(np.float64)
    assert cosines(held, document, wanted, words, 9)[:, 0].tolist() == pytest.approx([0.5**0.5] * 2, abs=1e-6)
    assert chunk_vectors(held, words) @ wanted.T == pytest.approx(np.eye(2), abs=1e-7)


def test_a_unit_without_a_vector_is_near_nothing() -> None:
    words, held = Words(), index(chunk("a", 0, 0, "xyz"), chunk("a", 1, 0, "zyx"), chunk("b", 0, 0, "salt"))
    assert cosines(held, scopes(held)[0], words.embed(["salt"]).astype(np.float64), words, 9).tolist() == [[0.0, 1.0]]


def test_nothing_is_embedded_but_the_keys_and_scopes_travel_with_the_index() -> None:
    words, held = Words(), index(*TOWN)
    wanted = words.embed(["salt"]).astype(np.float64)
    before = [cosines(held, scope, wanted, words, 9).tolist() for scope in scopes(held)]
    assert words.embedded == ["salt", *held.keys]
    assert scopes(held) is scopes(held)
    copy = pickle.loads(pickle.dumps(held))
    assert copy.holds == held.holds
    assert [cosines(copy, scope, wanted, words, 9).tolist() for scope in scopes(copy)] == before
    assert len(words.embedded) == 6
