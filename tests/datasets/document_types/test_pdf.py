"""PDF files become paragraphs, or an error of one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pdf_file import pdf

from ragsmith.datasets.document_types.pdf import clean_text, read_pdf, reflow_page
from ragsmith.text.files import TextError

FIRST = [
    "Pump manual",
    "The pump must be primed before it is started for the very first time, be-",
    "cause air in the casing damages the seal within a few minutes of running",
    "dry. Close the valve first.",
    "Checks",
    "1. Look at the gauge.",
    "2. Listen to the bearing.",
]


def read(tmp_path: Path, data: bytes) -> tuple[str, str | None]:
    path = tmp_path / "file.pdf"
    path.write_bytes(data)
    return read_pdf(path)[:2]


def test_wrapped_lines_become_paragraphs_and_pages_are_separated(tmp_path: Path) -> None:
    text, title = read(tmp_path, pdf(FIRST, ["A second page."]))
    assert title is None
    assert text == (
        "Pump manual\n"
        "The pump must be primed before it is started for the very first time, because air in the casing damages the"
        " seal within a few minutes of running dry. Close the valve first.\n\n"
        "Checks\n1. Look at the gauge.\n2. Listen to the bearing.\n\nA second page.\n"
    )
    assert read(tmp_path, pdf(FIRST, ["A second page."])) == (text, None)


def test_the_title_comes_from_the_metadata(tmp_path: Path) -> None:
    assert read(tmp_path, pdf(["Text."], title="The  pump's manual ")) == ("Text.\n", "The pump's manual")


def test_pages_without_text_leave_no_gap(tmp_path: Path) -> None:
    assert read(tmp_path, pdf(["One."], [], ["Two."]))[0] == "One.\n\nTwo.\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (pdf(["Secret."], encrypted=True), "is encrypted; save it without a password"),
        (pdf([]), "has no text, only images; run text recognition"),
        (b"no PDF at all, but long enough to look for a trailer in it" * 40, "is not a PDF file that can be read"),
        (pdf(["Text."])[:-300], "is not a PDF file that can be read|has no text"),
        (pdf(["Text."]).replace(b"/Kids [5 0 R]", b"/Kids [2 0 R]"), "is not a PDF file that can be read"),
        (pdf(), "has no text"),
        (b"", "is empty; add text or remove the file"),
    ],
)
def test_a_file_without_text_to_read_is_one_sentence(
    tmp_path: Path, data: bytes, reason: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TextError, match=reason) as caught:
        read(tmp_path, data)
    assert str(caught.value).isprintable()
    assert capfd.readouterr() == ("", "")


def test_only_a_file_of_its_own_is_read(tmp_path: Path) -> None:
    (tmp_path / "real.pdf").write_bytes(pdf(["Text."]))
    (tmp_path / "link.pdf").symlink_to("real.pdf")
    for name, reason in (
        ("link.pdf", "is a symbolic link"),
        (".", "is a folder"),
        ("none.pdf", "is missing"),
    ):
        with pytest.raises(TextError, match=reason):
            read_pdf(tmp_path / name)


def test_what_the_parser_remarks_stays_silent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    damaged = pdf(["Text."]).replace(b"startxref\n", b"startxref\n9")
    assert read(tmp_path, damaged)[0] == "Text.\n"
    assert capfd.readouterr() == ("", "")


WRAPPED = "The first line of this page is long\nand so is the second one of them and\n"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (WRAPPED + "it ends.", "The first line of this page is long and so is the second one of them and it ends."),
        ("A line that is wrapped with a hyphen-\nated word", "A line that is wrapped with a hyphenated word"),
        ("A line that is wrapped at Anglo-\nSaxon", "A line that is wrapped at Anglo-Saxon"),
        ("the years from 1990-\nlong after", "the years from 1990- long after"),
        ("soft\u00ad\nware and hard\u00adware", "software and hardware"),
        ("One paragraph of some length here\n\nAnother", "One paragraph of some length here\n\nAnother"),
        ("First   item\n- one is long enough to wrap\n- two", "First item\n- one is long enough to wrap\n- two"),
        (
            "Name\nAge\nA line that is very much longer than both",
            "Name\nAge\nA line that is very much longer than both",
        ),
        (
            "A sentence that ends early here.\nOf a width that is made by this one line, see",
            "A sentence that ends early here.\n\nOf a width that is made by this one line, see",
        ),
        ("\n\n\n", ""),
    ],
)
def test_line_breaks_of_the_page_width_are_removed_and_others_stay(page: str, expected: str) -> None:
    assert reflow_page(page) == expected


def test_ligatures_are_spelled_out_and_nothing_else_is_changed() -> None:
    assert clean_text("e\ufb03cient o\ufb00er \u00bd \u2460 e\u0301") == "efficient offer \u00bd \u2460 e\u0301"


def test_control_characters_are_removed() -> None:
    assert clean_text("a\x00b\x1b[0m\ud800\r\nc\x0cd\u200b") == "ab[0m\nc\nd"


@settings(max_examples=100, deadline=None)
@given(st.text("ab cC.-\n\r\u00ad\u2028\t1\x0b", max_size=200))
def test_no_character_is_lost_but_space_and_hyphens(page: str) -> None:
    def letters(text: str) -> str:
        return "".join(character for character in text if character.isalnum() or character == ".")

    assert letters(reflow_page(page)) == letters(page)
    assert reflow_page(page) == reflow_page(page).strip()
