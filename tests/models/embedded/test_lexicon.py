import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.models.embedded.lexicon import Lexicon, is_wordlike
from ragsmith.text.words import terms

TEXTS = ("Courts decide. The court decides again.", "A court in England", "the England team of england", "")
LEXICON = Lexicon(TEXTS)


def test_idf_is_that_of_bm25_and_greatest_for_an_unknown_term() -> None:
    assert LEXICON.idf("court") == pytest.approx(math.log(1 + (4 - 2 + 0.5) / 2.5))
    assert LEXICON.idf("team") == pytest.approx(math.log(1 + (4 - 1 + 0.5) / 1.5))
    assert LEXICON.idf("unheard") == pytest.approx(math.log(10))
    assert LEXICON.idf("unheard") > LEXICON.idf("team") > LEXICON.idf("court") > 0


def test_a_surface_is_the_most_frequent_spelling() -> None:
    assert LEXICON.surfaces["court"] == "court"  # twice, against "Courts" once
    assert LEXICON.surfaces["england"] == "England"


def test_among_equal_spellings_lower_case_and_then_the_alphabet_decide() -> None:
    assert Lexicon(["Writ writ"]).surfaces["writ"] == "writ"
    assert Lexicon(["wills willing willed"]).surfaces["will"] == "willed"


@settings(max_examples=50)
@given(st.lists(st.text(max_size=40), max_size=4))
def test_every_term_has_a_surface_of_its_own_stem(texts: list[str]) -> None:
    lexicon = Lexicon(texts)
    assert set(lexicon.surfaces) == set(lexicon.counts) == {term for text in texts for term in terms(text)}


def test_an_empty_corpus_knows_nothing() -> None:
    assert Lexicon(()).idf("court") == pytest.approx(math.log(2))
    assert not Lexicon(()).surfaces


def test_numbers_and_abbreviations_are_no_words() -> None:
    assert [is_wordlike(word) for word in ("law", "UK", "1976", "3rd", "")] == [True, False, False, False, False]
