"""Rows of a table stay whole where they can."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.chunking.chunking import chunk_documents, section_starts
from ragsmith.types import Chunk, Document, Modality


def chunks(text: str, size: int) -> tuple[Chunk, ...]:
    return chunk_documents([Document("t.csv", "t.csv", text, Modality.TABLE)], size=size)


def texts(text: str, size: int) -> list[str]:
    return [chunk.text for chunk in chunks(text, size)]


def test_rows_are_packed_whole() -> None:
    rows = "a: 1; b: 2\na: 3; b: 4\n# a: 5\n"
    assert texts(rows, 21) == ["a: 1; b: 2\na: 3; b: 4", "# a: 5"]
    assert {(chunk.headings, chunk.section, chunk.modality) for chunk in chunks(rows, 21)} == {((), 0, Modality.TABLE)}
    assert section_starts(Document("t.csv", "t.csv", rows, Modality.TABLE)) == [0]


def test_a_long_row_is_cut_between_its_cells() -> None:
    rows = "a: 1; b: 2; c: 3; d: 4\na: 5\n"
    assert texts(rows, 12) == ["a: 1; b: 2;", "c: 3; d: 4", "a: 5"]


def test_a_long_cell_is_cut_at_spaces() -> None:
    assert texts("a: 1; b: one two three four\n", 14) == ["a: 1;", "b: one two", "three four"]


cell = st.text("ab1:; .", min_size=1, max_size=20)
row = st.lists(cell, min_size=1, max_size=6).map(lambda cells: "; ".join(f"c{n}: {c}" for n, c in enumerate(cells)))


@settings(max_examples=60, deadline=None)
@given(st.lists(row, max_size=8), st.integers(1, 80))
def test_every_visible_character_is_in_exactly_one_chunk(rows: list[str], size: int) -> None:
    text = "".join(f"{row}\n" for row in rows)
    covered: list[int] = []
    for chunk in chunks(text, size):
        assert chunk.text == text[chunk.start : chunk.end]
        assert 0 < len(chunk.text) <= size
        covered += [at for at in range(chunk.start, chunk.end) if not text[at].isspace()]
    assert covered == [at for at, character in enumerate(text) if not character.isspace()]
    assert all(sum(row.strip() in found for found in texts(text, size)) >= 1 for row in rows if len(row) <= size)
