"""How an answer agrees with a reference by words: the formula by hand, and what must not pay."""

from __future__ import annotations

import re
import statistics

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.evaluation.testbed import Setup
from ragsmith.measures.agreement import ASKED, agreement
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.testing import example_chunks

MODEL = ExtractiveModel([chunk.text for chunk in example_chunks()], WordLlamaEmbedder())


def score(reference: str, answer: str, question: str = "?") -> float:
    return agreement(MODEL, question, reference, answer)


def test_it_is_f1_of_words_weighted_by_idf() -> None:
    idf = {term: MODEL.idf(term) for term in ("guild", "sell", "grey", "salt", "black", "stone")}
    shared = idf["guild"] + idf["sell"]
    precision = shared / (shared + idf["black"] + idf["stone"])
    recall = shared / (shared + idf["grey"] + idf["salt"])
    f1 = 2 * precision * recall / (precision + recall)
    assert score("The guild sells grey salt.", "The guild sells black stone.") == pytest.approx(f1)


def test_words_of_the_question_count_a_quarter() -> None:
    idf = {term: MODEL.idf(term) for term in ("guild", "sell", "salt", "stone")}
    shared = ASKED * (idf["guild"] + idf["sell"])
    f1 = 2 * shared / (2 * shared + idf["salt"] + idf["stone"])
    assert score("The guild sells salt.", "The guild sells stone.", "What does the guild sell?") == pytest.approx(f1)


def test_a_wrong_number_costs_up_to_half() -> None:
    right, wrong = "The fee is 30 crowns.", "The fee is 220 crowns."
    assert score(right, right) == 1.0
    assert score(right, wrong) <= 0.5
    assert score("It closes after thirty days.", "It closes after ninety days.") <= 0.5


def test_a_denial_on_one_side_alone_costs_a_quarter() -> None:
    said, denied = "The bell is rung at dawn.", "The bell is not rung at dawn."
    assert score(said, denied) == pytest.approx(0.75)
    assert score(denied, denied) == 1.0


def test_answers_without_content_words_agree_or_do_not() -> None:
    assert score("No.", "No") == 1.0
    assert score("No.", "Yes.") < 0.5


def test_on_real_questions_no_trick_pays() -> None:
    setup = Setup(load_dataset("law"))
    model = setup.loaded_models.language_model
    examples = setup.dataset.examples

    def mean(answer_of: dict[str, str]) -> float:
        return statistics.fmean(agreement(model, e.question, e.answer, answer_of[e.id]) for e in examples)

    def shifted(text: str) -> str:
        return re.sub(r"\d+", lambda number: str(int(number[0]) + 7), text)

    numbered = [e for e in examples if shifted(e.answer) != e.answer]
    wrong = statistics.fmean(agreement(model, e.question, e.answer, shifted(e.answer)) for e in numbered)
    others = {e.id: f.answer for e, f in zip(examples, [*examples[1:], examples[0]], strict=True)}
    assert mean({e.id: e.answer for e in examples}) == 1.0
    assert mean({e.id: e.question for e in examples}) < 0.1  # repeating the question
    assert mean(others) < 0.1  # the answer to another question
    assert wrong < 0.8  # the right words around wrong numbers
