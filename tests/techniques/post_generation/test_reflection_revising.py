import pytest

from ragsmith.techniques.post_generation.reflection_revising import (
    parse_review,
    reflection_revising,
    review_offline,
    revise_offline,
)
from ragsmith.text.blocks import number_blocks
from ragsmith.text.declining import NOT_FOUND
from ragsmith.types import Answer, Passage, Prompt, Question

QUESTION = Question("Who paid for the new sea wall?")
DRAFT = Answer("The town paid.", (0,))
WALL = "Oswin Tarrel paid for a new sea wall of black stone."
LOAN = "The town repaid the loan with half of the harbour dues for ten years."
BELL = "A bronze bell hangs in the Tide Tower."


def prompt_of(*texts):
    passages = tuple(Passage(text, (), 1.0) for text in texts)
    return Prompt(number_blocks(texts), passages)


def test_a_draft_that_passes_is_delivered_after_one_call(language_model):
    model = language_model({"review_answer": [()]})
    assert reflection_revising(QUESTION, prompt_of(WALL), DRAFT, language_model=model) == DRAFT
    assert [call.task for call in model.calls] == ["review_answer"]


def test_reviewer_and_reviser_see_everything(language_model):
    model = language_model({"review_answer": [("missing: who lent it",)], "revise_answer": [("Oswin Tarrel.", (1,))]})
    prompt = prompt_of(BELL, WALL)
    assert reflection_revising(QUESTION, prompt, DRAFT, language_model=model) == Answer("Oswin Tarrel.", (1,))
    seen = {"question": QUESTION.text, "context": prompt.text, "answer": DRAFT.text}
    assert model.calls[0].inputs == seen
    assert model.calls[1].inputs == {**seen, "feedback": "- missing: who lent it"}


def test_rounds_end_with_a_pass_or_with_their_number(language_model):
    results = {"review_answer": [("a",), ("b",), ()], "revise_answer": [("one", ()), ("two", ())]}
    model = language_model(results)
    assert reflection_revising(QUESTION, prompt_of(WALL), DRAFT, language_model=model, max_rounds=5).text == "two"
    assert model.calls[2].inputs["answer"] == "one"
    assert len(model.calls) == 5
    once = language_model(results)
    assert reflection_revising(QUESTION, prompt_of(WALL), DRAFT, language_model=once).text == "one"
    assert len(once.calls) == 2


def test_citations_of_passages_that_do_not_exist_are_dropped(language_model):
    model = language_model({"review_answer": [("a",)], "revise_answer": [("Oswin Tarrel.", (0, 6))]})
    assert reflection_revising(QUESTION, prompt_of(WALL), DRAFT, language_model=model).cited == (0,)


def test_without_passages_there_is_nothing_to_review(language_model):
    assert reflection_revising(QUESTION, Prompt("", ()), DRAFT, language_model=language_model()) == DRAFT


@pytest.mark.parametrize("reply", ["Verdict: ok", "verdict: OK.", "**Verdict:** ok", "Verdict: **ok**\n"])
def test_reads_a_pass(reply):
    assert parse_review(reply) == ()


def test_reads_what_is_wrong():
    reply = "Verdict: revise\n\n- unsupported: the town paid\n* missing: who lent the money"
    assert parse_review(reply) == ("unsupported: the town paid", "missing: who lent the money")


@pytest.mark.parametrize(
    "reply", ["", "ok", "The answer is fine.", "Verdict: perhaps", "Verdict: revise", "Verdict: ok\n- missing: a date"]
)
def test_refuses_everything_else(reply):
    with pytest.raises(ValueError, match="review"):
        parse_review(reply)


def review(model, answer, *texts, question=QUESTION.text):
    return review_offline(model, sample=0, question=question, context=number_blocks(texts), answer=answer)


def test_offline_passes_the_best_answer(extractive):
    assert review(extractive, WALL, WALL, BELL) == ()


def test_offline_finds_a_sentence_that_nothing_supports(extractive):
    points = review(extractive, f"{WALL} Penguins cannot fly.", WALL, BELL)
    assert points == ("unsupported: Penguins cannot fly.",)


def test_offline_finds_a_clearly_better_sentence(extractive):
    assert review(extractive, BELL, WALL, BELL) == (f"beside the point: {BELL}", f"missing: {WALL}")


def test_offline_finds_what_refers_back(extractive):
    question = "Explain how the new sea wall was paid for."
    that = "This new wall was paid for with a loan."
    assert review(extractive, WALL, f"{WALL} {that}", BELL, question=question) == (f"missing: {that}",)
    assert review(extractive, WALL, f"{WALL} {that}", BELL) == ()  # a question for a fact is answered


def test_offline_an_answer_was_there_after_all(extractive):
    points = review(extractive, NOT_FOUND, WALL, BELL)
    assert points == (f"unsupported: {NOT_FOUND}", f"missing: {WALL}")


def test_offline_takes_out_and_puts_in_with_sources(extractive):
    context = number_blocks((f"{BELL}\n\n{LOAN}", WALL))
    answer, cited = revise_offline(
        extractive,
        sample=0,
        question=QUESTION.text,
        context=context,
        answer=f"{BELL} {LOAN}",
        feedback=f"- beside the point: {BELL}\n- missing: {WALL}",
    )
    assert answer == f"{LOAN} {WALL}"
    assert cited == (0, 1)


def test_offline_keeps_the_draft_rather_than_nothing(extractive):
    answer, _ = revise_offline(
        extractive,
        sample=0,
        question="?",
        context=number_blocks((WALL,)),
        answer=BELL,
        feedback=f"- unsupported: {BELL}",
    )
    assert answer == BELL
