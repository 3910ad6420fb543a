"""Folding removes typography, keeps numbers, and maps back to source offsets."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragsmith.text.folded import fold


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("“Don’t” – she said…", '"don\'t" - SHE SAID...'),
        ("the  first\r\n\tline", "The first line"),
        ("Café", "Cafe\u0301"),
        ("ﬁnal report", "final report"),
        ("soft\u00adware", "software"),
        ("Straße", "STRASSE"),
        ("a **bold** claim", "a bold claim"),
        ("１２％ of all", "12% of all"),
        ("$ 1,452.4 million", "$1,452.4 million"),
        ("| Oslo | 210 |", "Oslo: 210;"),
    ],
)
def test_what_only_looks_different_is_the_same(one, other):
    assert fold(one).text == fold(other).text


@pytest.mark.parametrize(("one", "other"), [("3.5", "35"), ("1,452", "1 452"), ("a -5 b", "a 5 b"), ("cat", "cats")])
def test_what_means_something_else_is_not(one, other):
    assert fold(one).text != fold(other).text


@pytest.mark.parametrize(
    ("wanted", "text"), [("1987", "in 19875 units"), ("cat", "concatenate"), ("3", "3.5 metres"), ("4,5", "14,5")]
)
def test_nothing_is_found_within_a_word_or_number(wanted, text):
    assert list(fold(text).find(fold(wanted).text)) == []


def test_scripts_without_spaces_are_found_within_a_run():
    assert [("年假有二十八天"[a:b]) for a, b in fold("年假有二十八天").find(fold("二十八天").text)] == ["二十八天"]
    assert [word for word, _, _ in fold("年假 28天").words()] == ["年", "假", "28", "天"]


@given(st.text(max_size=60))
def test_offsets_lead_back_to_what_was_folded(text):
    folded = fold(text)
    assert len(folded.text) == len(folded.starts)
    assert list(folded.starts) == sorted(folded.starts)
    assert "  " not in folded.text
    for word, start, end in folded.words():
        assert fold(text[start:end]).text.replace(" ", "").lstrip("-") == word.lstrip("-")


@given(st.text(max_size=60))
def test_unicode_forms_fold_alike(text):
    assert fold(unicodedata.normalize("NFC", text)).text == fold(unicodedata.normalize("NFD", text)).text
