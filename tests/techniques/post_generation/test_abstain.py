"""Declining where the passages do not hold the answer."""

import pytest

from ragsmith.techniques.post_generation.abstain import ANSWERABLE, abstain, score_support
from ragsmith.testing import ScriptedModel
from ragsmith.text.blocks import number_blocks
from ragsmith.text.declining import NOT_FOUND, declines
from ragsmith.types import Answer, Passage, Prompt, Question

WALL = "The new sea wall was paid for by the guild of coopers."
QUESTION = Question("Who paid for the new sea wall?")
DRAFT = Answer("The guild of coopers.", (0,))


def prompt(*texts):
    return Prompt(number_blocks(texts), tuple(Passage(text, (), 1.0) for text in texts))


@pytest.mark.parametrize("held", [True, False])
def test_a_draft_stands_or_falls_with_the_passages(held):
    model = ScriptedModel({"answer_held": [held]})
    found = abstain(QUESTION, prompt(WALL), DRAFT, language_model=model)
    assert found == (DRAFT if held else Answer(NOT_FOUND))
    assert declines(found.text) is not held


def test_nothing_is_asked_where_there_is_nothing_to_decide():
    unasked = ScriptedModel()
    declined = Answer(NOT_FOUND)
    assert abstain(QUESTION, prompt(WALL), declined, language_model=unasked) is declined
    assert abstain(QUESTION, Prompt("", ()), DRAFT, language_model=unasked) is DRAFT


def test_the_embedded_model_wants_one_sentence_that_fits(extractive):
    passages = prompt(WALL, "Eels are caught at night, with lanterns.")
    assert abstain(QUESTION, passages, DRAFT, language_model=extractive) == DRAFT
    other = Question("Which insurance covers a broken telescope?")
    assert abstain(other, passages, DRAFT, language_model=extractive) == Answer(NOT_FOUND)


def test_the_more_is_wanted_the_more_is_declined(extractive):
    asked = Question("Who mended the sea wall after the storm of 1922?")
    found = [abstain(asked, prompt(WALL), DRAFT, language_model=extractive, least=n / 20) for n in range(21)]
    kept = [answer == DRAFT for answer in found]
    assert kept == sorted(kept, reverse=True)
    assert (kept[0], kept[-1]) == (True, False)


@pytest.mark.parametrize(
    ("reply", "held"), [("Sufficient", True), ("Insufficient.", False), ("**Insufficient**", False)]
)
def test_a_chat_models_verdict_is_read(reply, held):
    assert ANSWERABLE.parse(reply) is held


@pytest.mark.parametrize("reply", ["", "Perhaps.", "Sufficient\nInsufficient"])
def test_what_is_no_verdict_is_a_failure(reply):
    with pytest.raises(ValueError, match="cannot be read"):
        ANSWERABLE.parse(reply)


@pytest.mark.parametrize(("least", "stands"), [(0.5, True), (0.52, True), (0.525, False), (1.0, False)])
def test_by_score_the_passages_need_the_least_share_of_100(least, stands):
    model = ScriptedModel({"judge_evidence": [52.0]})
    found = abstain(QUESTION, prompt(WALL), DRAFT, language_model=model, least=least, by="score")
    assert found == (DRAFT if stands else Answer(NOT_FOUND))


def test_by_score_the_best_passage_counts(extractive):
    passages = prompt("Eels are caught at night, with lanterns.", WALL)
    assert abstain(QUESTION, passages, DRAFT, language_model=extractive, by="score") == DRAFT
    other = Question("Which insurance covers a broken telescope?")
    assert abstain(other, passages, DRAFT, language_model=extractive, by="score") == Answer(NOT_FOUND)


@pytest.mark.parametrize(
    ("answer", "share"),
    [("The guild of coopers.", 1.0), ("The guild of bakers.", 0.5), ("At night.", 0.0), ("Yes.", 0.0), ("", 0.0)],
)
def test_the_score_is_halved_by_an_answer_that_is_not_in_the_passage_nearest_to_the_question(answer, share):
    passages = prompt("Eels and bakers are about at night.", WALL)
    model = ScriptedModel({"judge_evidence": [60.0]})
    assert score_support(QUESTION, passages, Answer(answer), model) == pytest.approx(0.6 * (1 + share) / 2)
