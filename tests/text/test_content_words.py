"""How a text is read to be compared: words, numbers, denials."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.text.content_words import analyse, denies, find_numbers, word_coverage


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("M 1,200 or 2.5 %", {"1200", "2.5"}),
        ("1,200.00 crowns, 60.0 turns, version 1.10.0", {"1200", "60", "1.10.0"}),
        ("forty-one periods", {"41"}),
        ("one hundred and thirty-one days", {"131"}),
        ("three thousand two hundred and six", {"3206"}),
        ("nineteen hundred and five", {"1905"}),
        ("two million five hundred thousand", {"2500000"}),
        ("twenty, twenty-five or thirty", {"20", "25", "30"}),
        ("five six", {"5", "6"}),
        ("the 3rd of May and the fourth of June", {"3", "4"}),
        ("two thirds and a half", {"2", "thirds", "half"}),
        ("E14 and the cable CB-USB-1.5", {"e14", "1.5"}),
        ("a hundred miles and a day", {"100"}),
        ("no number, not even anyone", set()),
    ],
)
def test_numbers_have_their_values_however_they_are_written(text, values):
    assert find_numbers(text) == values


@pytest.mark.parametrize(
    "text",
    [
        "It does not rain.",
        "It doesn't rain.",
        "It doesn’t rain.",
        "It can't, it won't.",
        "It no longer rains.",
        "He fails to pay.",
        "She refused to sign.",
        "They are unable to see.",
        "No.",
        "Not yet.",
        "It holds unless it rains.",
        "It is open. Nor does it close.",
        "It is open except when it rains.",
        "Neither of them came.",
    ],
)
def test_what_denies(text):
    assert denies(text)


@pytest.mark.parametrize("text", ["It rains.", "A knot.", "The north.", "It failed.", "Everyone except Ann came.", ""])
def test_what_does_not(text):
    assert not denies(text)


def test_a_denial_has_a_place_among_the_words_and_numbers_have_one_shape():
    reading = analyse("The 12 guilds do not sell E14. Salt stays.")
    assert reading.items == [".", "12", "guild", "sell", "e14", ".", "salt", "stay", "."]
    assert reading.shapes == [".", "#", "guild", "sell", "e14", ".", "salt", "stay", "."]
    assert reading.numbers == [1, 4]
    assert reading.denied == [3]


@pytest.mark.parametrize(
    ("text", "verdict"),
    [("Yes; it is.", "yes"), ("No.", "no"), ("Not yet: wait.", "no"), ("No one came.", ""), ("Yesterday.", "")],
)
def test_an_answer_may_open_with_a_verdict(text, verdict):
    assert analyse(text).verdict == verdict


def test_neither_nor_denies_once():
    assert len(analyse("It is neither red nor green.").denied) == 1


@given(st.text(alphabet="no t'one.hundred and 7,5\n", max_size=60))
@settings(max_examples=200)
def test_every_text_can_be_read(text):
    reading = analyse(text)
    assert len(reading.items) == len(reading.shapes)
    assert all(0 < at < len(reading.items) for at in [*reading.numbers, *reading.denied])


def test_a_rewritten_text_holds_the_words_that_the_question_has_not() -> None:
    question, gold = "Who approves a trip?", "The head of department approves a trip above 300 euros."
    assert word_coverage(question, gold, "Approval is up to the department's head, from 300 euros.") > 0.5
    assert word_coverage(question, gold, "A trip has to be approved by somebody: who approves a trip?") == 0.0


def test_a_text_that_says_nothing_else_than_the_question_is_compared_by_its_words() -> None:
    assert word_coverage("Is the gate shut?", "The gate is shut.", "The gate is shut at night.") == 1.0


def test_texts_together_hold_what_each_holds_a_part_of() -> None:
    assert word_coverage("Who?", "The miller and the keeper, in 1871.", "A miller.", "1871", "Nobody.") == 2 / 3
