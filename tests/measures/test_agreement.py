"""How an answer agrees with a reference by words: the formula by hand, and what must not pay."""

import pytest

from ragsmith.measures.agreement import QUESTION_WORD_WEIGHT, score_agreement, score_contradiction
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.testing import example_chunks
from ragsmith.text.content_words import analyse

MODEL = ExtractiveModel([chunk.text for chunk in example_chunks()], WordLlamaEmbedder())


def score(reference, answer, question="?"):
    return score_agreement(MODEL, question, reference, answer)


def test_it_is_f1_of_words_weighted_by_idf():
    idf = {term: MODEL.idf(term) for term in ("guild", "sell", "grey", "salt", "black", "stone")}
    shared = idf["guild"] + idf["sell"]
    precision = shared / (shared + idf["black"] + idf["stone"])
    recall = shared / (shared + idf["grey"] + idf["salt"])
    f1 = 2 * precision * recall / (precision + recall)
    assert score("The guild sells grey salt.", "The guild sells black stone.") == pytest.approx(f1)


def test_words_of_the_question_count_a_quarter():
    idf = {term: MODEL.idf(term) for term in ("guild", "sell", "salt", "stone")}
    shared = QUESTION_WORD_WEIGHT * (idf["guild"] + idf["sell"])
    f1 = 2 * shared / (2 * shared + idf["salt"] + idf["stone"])
    assert score("The guild sells salt.", "The guild sells stone.", "What does the guild sell?") == pytest.approx(f1)


RULE = (
    "A stall costs 30 crowns a week, paid on Monday. Whoever leaves before dusk gets nothing back. Dogs are not "
    "allowed in the hall, and the wardens may send their owners home."
)
OTHERS = (
    "For a stall one pays thirty crowns every week, always on Mondays. There is no refund for leaving early.",
    RULE + " Carts stay outside. The hall has 12 doors, of which 3 are locked after 9 in the evening.",
)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("costs 30 crowns", "costs 45 crowns"),
        ("costs 30 crowns", "costs forty crowns"),
        ("costs 30 crowns", "does not cost 30 crowns"),
        ("gets nothing back", "gets it back"),
        ("are not allowed", "are allowed"),
        ("may send", "may not send"),
        ("may send", "can't send"),
        ("may send", "must refuse to send"),
        ("paid on Monday", "never paid on Monday"),
    ],
)
def test_a_contradiction_anywhere_in_a_long_answer_costs_more_than_other_or_more_words(right, wrong):
    copy = RULE.replace(right, wrong)
    assert copy != RULE
    assert score(RULE, copy) < 0.12 < min(score(RULE, other) for other in OTHERS)


def test_the_opposite_verdict_is_a_contradiction():
    assert score("Yes, dogs may come.", "No, dogs may come.") <= 0.05
    assert score("Yes, dogs may come.", "Dogs may come.") > 0.5


def test_numbers_agree_however_they_are_written():
    assert score("It closes after 41 days.", "It closes after forty-one days.") == pytest.approx(1.0)
    assert score("The fee is 1,200 crowns.", "The fee is 1200 crowns.") == pytest.approx(1.0)
    assert score("The fee is 1,200 crowns.", "The fee is 1,200.00 crowns.") == pytest.approx(1.0)


def test_a_missing_number_costs_half_at_most_and_another_one_in_its_place_nearly_all():
    right = "The fee is 30 crowns a year."
    missing, other, besides = "The fee is crowns a year.", "The fee is 220 crowns a year.", right + " It was 20 before."
    assert score(right, other) < 0.1 < score(right, missing) < score(right, besides)


def test_a_denial_that_moved_by_a_word_is_the_same():
    assert score_contradiction(analyse("The clerk need not hurry."), analyse("The clerk does not need to hurry.")) == 0


def test_what_it_cannot_see_is_known():
    """Limits that the documentation states: a change of this is to be noticed."""
    assert score("The S2 has 3 doors, the S3 has 2.", "The S2 has 2 doors, the S3 has 3.") > 0.9
    assert score("Pay before dusk, at the gate.", "Pay after dusk, at the gate.") == 1.0


def test_answers_without_content_words_agree_or_do_not():
    assert score("No.", "No") == 1.0
    assert score("No.", "Yes.") < 0.5
