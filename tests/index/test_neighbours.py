"""Where entries stand among each other: by hand, and against a look at every pair."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.index.index import Index
from ragsmith.index.scopes import neighbours
from ragsmith.types import Chunk, IndexEntry


def chunk(identity: str, doc: str, index: int, text: str = "x", **more: object) -> Chunk:
    return replace(Chunk(identity, doc, index, 0, len(text), text), **more)  # type: ignore[arg-type]


def indexed(*chunks: Chunk) -> Index:
    return Index(tuple(IndexEntry((one.text,), one) for one in chunks))


def test_neighbours_by_hand() -> None:
    index = indexed(
        chunk("0", "harbour", 2, "salt", title="Harbour"),
        chunk("1", "guild", 0, "bell", title="Guild", headings=("Oath",)),
        chunk("2", "harbour", 0, "mud", title="Harbour"),
        chunk("3", "harbour", 1, "harbour dues", title="Harbour", headings=("Dues",)),
        chunk("4", "harbour", 4, "gap", title="Harbour", language="de"),
        chunk("5", "harbour", 3, "sum", title="Harbour", level=1),
    )
    found = neighbours(index)
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
    index = indexed(*(chunk(f"{name:02}", *place) for name, place in zip(names, sorted(places), strict=False)))
    found, at = neighbours(index), [(one.doc, one.index) for one in index.chunks]
    for steps, beside in ((-1, found.previous), (1, found.next)):
        expected = [at.index((doc, n + steps)) if (doc, n + steps) in at else -1 for doc, n in at]
        assert beside.tolist() == expected
    for document in range(int(found.document.max(initial=-1)) + 1):
        members, [size] = found.of_documents(np.array([document]))
        assert members.tolist() == sorted(np.flatnonzero(found.document == document), key=lambda n: at[n][1])
        assert size == len(members)
