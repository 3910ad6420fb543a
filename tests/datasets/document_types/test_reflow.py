"""Line breaks due to the width of a page are removed; others are kept."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.datasets.document_types.pdf import clean, paragraphs

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
def test_worked_examples(page: str, expected: str) -> None:
    assert paragraphs(page) == expected


def test_ligatures_are_spelled_out_and_nothing_else_is_changed() -> None:
    assert clean("e\ufb03cient o\ufb00er \u00bd \u2460 e\u0301") == "efficient offer \u00bd \u2460 e\u0301"


def test_control_characters_are_removed() -> None:
    assert clean("a\x00b\x1b[0m\ud800\r\nc\x0cd\u200b") == "ab[0m\nc\nd"


@settings(max_examples=100, deadline=None)
@given(st.text("ab cC.-\n\r\u00ad\u2028\t1\x0b", max_size=200))
def test_no_character_is_lost_but_space_and_hyphens(page: str) -> None:
    def letters(text: str) -> str:
        return "".join(character for character in text if character.isalnum() or character == ".")

    assert letters(paragraphs(page)) == letters(page)
    assert paragraphs(page) == paragraphs(page).strip()
