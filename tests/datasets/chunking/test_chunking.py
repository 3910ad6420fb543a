"""Chunks are contiguous slices that follow the structure of the document."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.chunking.chunking import chunk_documents, cut_documents, section_starts
from ragsmith.errors import UsageError
from ragsmith.types import Chunk, Document, Modality


def chunks(text: str, size: int = 900) -> tuple[Chunk, ...]:
    return chunk_documents([Document("d", "T", text)], size=size)


def texts(text: str, size: int) -> list[str]:
    return [chunk.text for chunk in chunks(text, size)]


def test_sections_do_not_mix_and_give_the_path_under_the_title() -> None:
    text = "# T\n\nLead.\n\n## A\n\nIn A.\n\n### B\n\nIn B.\n\n## C\n\nIn C.\n\n# Second\n\nIn second.\n"
    found = [(chunk.id, chunk.headings, chunk.text) for chunk in chunks(text)]
    assert found == [
        ("d#0000", (), "Lead."),
        ("d#0001", ("A",), "In A."),
        ("d#0002", ("A", "B"), "In B."),
        ("d#0003", ("C",), "In C."),
        ("d#0004", ("Second",), "In second."),
    ]
    assert [chunk.index for chunk in chunks(text)] == [0, 1, 2, 3, 4]
    assert {chunk.title for chunk in chunks(text)} == {"T"}


def test_blocks_are_packed_while_they_fit() -> None:
    assert texts("aaaa\n\nbbbb\n\ncccc", 10) == ["aaaa\n\nbbbb", "cccc"]
    assert texts("aaaa\n\nbbbb\n\ncccc", 9) == ["aaaa", "bbbb", "cccc"]


def test_a_list_that_fits_stays_whole() -> None:
    listing = "- one\n- two\n\n- three"
    assert texts(f"A line of text here.\n\n{listing}", 25) == ["A line of text here.", listing]


def test_long_lists_tables_and_code_are_cut_at_line_ends() -> None:
    assert texts("- aaa\n- bbb\n- ccc\n- ddd", 12) == ["- aaa\n- bbb", "- ccc\n- ddd"]
    assert texts("|a|b|\n|-|-|\n|1|2|\n|3|4|", 12) == ["|a|b|\n|-|-|", "|1|2|\n|3|4|"]
    assert texts("```\nx = 1\ny = 2\n```", 10) == ["```\nx = 1", "y = 2\n```"]


def test_code_in_a_fence_is_cut_only_if_it_is_too_long_and_then_at_blank_lines() -> None:
    code = "```py\na = 1\n\n\nb = 2\n```"
    assert texts(f"Some prose.\n{code}\nMore prose.", 27) == ["Some prose.", code, "More prose."]
    assert texts(code, 15) == ["```py\na = 1", "b = 2\n```"]
    assert texts("```\n  a = 1\n  b = 2\n```", 13) == ["```\n  a = 1", "  b = 2\n```"]


def test_a_chunk_is_of_the_kind_of_block_that_it_has_most_of() -> None:
    table, code = "|a|b|\n|-|-|\n|1|2|", "```\nx = 1\n```"
    text = f"# T\n\nFew.\n\n{table}\n\n## C\n\nSome words go before the code.\n\n{code}\n\n## D\n\n{code}\n\n- a list\n"
    assert [(chunk.section, chunk.modality) for chunk in chunks(text)] == [
        (0, Modality.TABLE),
        (1, Modality.PROSE),
        (2, Modality.CODE),
    ]


def test_sections_are_numbered_and_begin_with_their_first_chunk() -> None:
    text = "# T\n\nLead.\n\n## Empty\n\n## A\n\n" + "One is here. Two is here. " * 60
    assert [chunk.section for chunk in chunks(text)] == [0, 1, 1]
    assert section_starts(Document("d", "T", text)) == [text.index("Lead"), text.index("One")]


def test_long_prose_is_cut_at_sentence_ends_into_even_pieces() -> None:
    prose = "One is here. Two is here. Six is here. Ten is here."
    assert texts(prose, 40) == ["One is here. Two is here.", "Six is here. Ten is here."]
    assert [len(piece) for piece in texts("Same size. " * 100, 900)] == [549, 549]


def test_a_long_sentence_is_cut_at_spaces_and_a_long_word_anywhere() -> None:
    assert texts("aaa bbb ccc ddd", 7) == ["aaa bbb", "ccc ddd"]
    assert texts("x" * 25, 10) == ["x" * 10, "x" * 10, "x" * 5]


def test_an_inline_heading_goes_with_what_it_heads() -> None:
    line = "The lead ends here. == History == It began in May. == Use == It is used by many."
    assert texts(line, 40) == ["The lead ends here.", "== History == It began in May.", "== Use == It is used by many."]


def test_a_document_of_headings_only_has_no_chunks() -> None:
    assert chunks("# A\n\n## B\n") == ()


def test_several_documents_number_their_own_chunks() -> None:
    documents = [Document("b", "B", "x"), Document("a", "A", "y")]
    assert [chunk.id for chunk in chunk_documents(documents)] == ["b#0000", "a#0000"]


def test_a_size_below_one_is_refused() -> None:
    with pytest.raises(UsageError, match="a chunk size of 0 characters is too small"):
        chunks("a", 0)


word = st.text("abcdé.?!=|-#`ß😀", min_size=1, max_size=9)
line = st.lists(word, min_size=1, max_size=12).map(" ".join)
block = st.one_of(
    line.filter(lambda text: not text.startswith("#")),
    st.lists(line, min_size=1, max_size=4).map(lambda rows: "\n".join(f"- {row}" for row in rows)),
    st.lists(line, min_size=1, max_size=4).map(lambda rows: "~~~\n" + "\n# ".join(rows) + "\n~~~"),
    st.lists(line, min_size=1, max_size=3).map(lambda rows: "|a|b|\n|-|-|\n" + "\n".join(f"| {row} |" for row in rows)),
)
heading = st.tuples(st.integers(1, 6), st.text("xyz", min_size=1, max_size=5)).map(lambda h: f"{'#' * h[0]} {h[1]}")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.booleans(), heading, block), max_size=8), st.integers(1, 120), st.sampled_from(["\n", "\r\n"])
)
def test_every_visible_character_outside_headings_is_in_exactly_one_chunk(
    parts: list[tuple[bool, str, str]], size: int, end: str
) -> None:
    text = ""
    expected: set[int] = set()
    for has_heading, title, content in parts:
        text += f"{title}{end}{end}" if has_heading else ""
        if "```" in content:
            content = content.replace("```", "'''")  # noqa: PLW2901 - a fence would swallow the next heading
        start = len(text)
        text += content.replace("\n", end) + end + end
        expected |= {at for at in range(start, len(text)) if not text[at].isspace()}
    covered: list[int] = []
    found = chunks(text, size)
    for chunk in found:
        assert chunk.text == text[chunk.start : chunk.end]
        assert chunk.text == chunk.text.strip()
        assert 0 < len(chunk.text) <= size
        covered += [at for at in range(chunk.start, chunk.end) if not text[at].isspace()]
    assert covered == sorted(expected)
    assert found == chunks(text, size)


@settings(max_examples=150, deadline=None)
@given(st.text("ab .!\n\r\t#`~-|=1\x85\u2028é", max_size=120), st.integers(1, 40))
def test_chunks_of_any_text_are_ordered_slices(text: str, size: int) -> None:
    end = 0
    for chunk in chunks(text, size):
        assert end <= chunk.start < chunk.end
        assert chunk.text == text[chunk.start : chunk.end].strip()
        assert len(chunk.text) <= size
        end = chunk.end


@settings(max_examples=50)
@given(st.lists(st.text("ab .\n#", min_size=1, max_size=80), max_size=8), st.integers(20, 60), st.integers(1, 40))
def test_chunks_overlap_by_whole_words_within_a_section(parts: list[str], size: int, overlap: int) -> None:
    document = Document("d", "T", "\n\n".join(parts))
    plain = chunk_documents([document], size=size)
    found = cut_documents([document], size, overlap)
    assert [chunk.id for chunk in found] == [chunk.id for chunk in plain]
    for before, was, now in zip((None, *plain), plain, found, strict=False):
        assert (now.end, now.text) == (was.end, document.text[now.start : now.end])
        assert was.start - overlap <= now.start <= was.start
        if now.start < was.start:
            assert before is not None
            assert before.section == was.section
            assert now.start >= before.start
            assert not document.text[now.start].isspace()
            assert now.start == 0 or document.text[now.start - 1].isspace()


def test_chunks_that_do_not_overlap_are_those_there_are_today() -> None:
    documents = [Document("d", "T", "One two three. Four five six. Seven eight nine. Ten eleven twelve.")]
    assert cut_documents(documents, 20) == chunk_documents(documents, size=20)
    wide = cut_documents(documents, 20, 10)
    assert [chunk.text for chunk in wide][1].endswith("Four five six.")
    assert len(wide[1].text) > len("Four five six.")


# --- tables ----------------------------------------------------------------------------------------------------------


def table_chunks(text: str, size: int) -> tuple[Chunk, ...]:
    return chunk_documents([Document("t.csv", "t.csv", text, Modality.TABLE)], size=size)


def table_texts(text: str, size: int) -> list[str]:
    return [chunk.text for chunk in table_chunks(text, size)]


def test_rows_are_packed_whole() -> None:
    rows = "a: 1; b: 2\na: 3; b: 4\n# a: 5\n"
    assert table_texts(rows, 21) == ["a: 1; b: 2\na: 3; b: 4", "# a: 5"]
    assert {(chunk.headings, chunk.section, chunk.modality) for chunk in table_chunks(rows, 21)} == {
        ((), 0, Modality.TABLE)
    }
    assert section_starts(Document("t.csv", "t.csv", rows, Modality.TABLE)) == [0]


def test_a_long_row_is_cut_between_its_cells() -> None:
    rows = "a: 1; b: 2; c: 3; d: 4\na: 5\n"
    assert table_texts(rows, 12) == ["a: 1; b: 2;", "c: 3; d: 4", "a: 5"]


def test_a_long_cell_is_cut_at_spaces() -> None:
    assert table_texts("a: 1; b: one two three four\n", 14) == ["a: 1;", "b: one two", "three four"]


cell = st.text("ab1:; .", min_size=1, max_size=20)
row = st.lists(cell, min_size=1, max_size=6).map(lambda cells: "; ".join(f"c{n}: {c}" for n, c in enumerate(cells)))


@settings(max_examples=60, deadline=None)
@given(st.lists(row, max_size=8), st.integers(1, 80))
def test_every_visible_character_of_a_table_is_in_exactly_one_chunk(rows: list[str], size: int) -> None:
    text = "".join(f"{row}\n" for row in rows)
    covered: list[int] = []
    for chunk in table_chunks(text, size):
        assert chunk.text == text[chunk.start : chunk.end]
        assert 0 < len(chunk.text) <= size
        covered += [at for at in range(chunk.start, chunk.end) if not text[at].isspace()]
    assert covered == [at for at, character in enumerate(text) if not character.isspace()]
    assert all(sum(row.strip() in found for found in table_texts(text, size)) >= 1 for row in rows if len(row) <= size)
