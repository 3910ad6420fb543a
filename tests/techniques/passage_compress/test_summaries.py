"""One text in place of several passages: by a tree of summaries, or updated passage by passage."""

import pytest

from ragsmith.techniques.passage_compress.llm_refine import llm_refine, refine_offline
from ragsmith.techniques.passage_compress.tree_summarize import summarise_offline, tree_summarize
from ragsmith.types import Passage, Question, Span

# --- tree summarize --------------------------------------------------------------------------------------------------


QUESTION = Question("Who paid for the new sea wall?")


def passages_of(n):
    return tuple(Passage(f"text {i}", (Span("doc", i, i + 1),), 1 - i / 100) for i in range(n))


@pytest.mark.parametrize(("n", "calls"), [(0, 0), (1, 0), (2, 1), (3, 1), (4, 3), (5, 3), (10, 7)])
def test_calls_with_a_fan_in_of_three(language_model, n, calls):
    model = language_model({"summarise_passages": [f"summary {i}" for i in range(calls)]})
    result = tree_summarize(QUESTION, passages_of(n), language_model=model)
    assert model.count("summarise_passages") == calls
    assert len(result) == min(n, 1)


def test_groups_in_order_and_then_their_summaries(language_model):
    model = language_model({"summarise_passages": ["first", "second", "whole"]})
    (result,) = tree_summarize(QUESTION, passages_of(5), language_model=model, max_words=50)
    assert [call.inputs["passages"] for call in model.calls] == [
        ("text 0", "text 1", "text 2"),
        ("text 3", "text 4"),
        ("first", "second"),
    ]
    assert {call.inputs["question"] for call in model.calls} == {QUESTION.text}
    assert result == Passage("whole", tuple(Span("doc", i, i + 1) for i in range(5)), 1.0)


def test_names_a_source_once(language_model):
    span = Span("doc", 0, 9)
    same = (Passage("a", (span,), 0.1), Passage("b", (span, Span("doc", 20, 22)), 0.2))
    (result,) = tree_summarize(QUESTION, same, language_model=language_model({"summarise_passages": ["both"]}))
    assert result.sources == (span, Span("doc", 20, 22))
    assert result.score == 0.2


def test_offline_keeps_wording_order_and_budget(chunks, extractive):
    texts = tuple(chunk.text for chunk in chunks)
    summary = summarise_offline(extractive, sample=0, question=QUESTION.text, passages=texts, words=40)
    said = summary.split("\n")
    everything = [sentence for text in texts for sentence in extractive.sentences(text)]
    assert "Oswin Tarrel paid for a new sea wall of black stone." in said
    assert said == [sentence for sentence in everything if sentence in said]
    assert len(summary.split()) <= 40
    assert summary == summarise_offline(extractive, sample=0, question=QUESTION.text, passages=texts, words=40)


def test_offline_the_best_sentence_is_never_cut(chunks, extractive):
    texts = (chunks[0].text,)
    summary = summarise_offline(extractive, sample=0, question="harbour of Velmouth", passages=texts, words=3)
    assert summary in extractive.sentences(chunks[0].text)


def test_offline_passages_without_a_sentence_stay(extractive):
    assert summarise_offline(extractive, sample=0, question="?", passages=("", ""), words=9).strip() == ""


def test_offline_a_tree_over_the_whole_town(chunks, extractive):
    passages = tuple(Passage(chunk.text, (chunk.span,), 1.0) for chunk in chunks)
    (result,) = tree_summarize(QUESTION, passages, language_model=extractive, max_words=40)
    assert "Oswin Tarrel paid for a new sea wall" in result.text
    assert len(result.text.split()) <= 40
    assert result.sources == tuple(chunk.span for chunk in chunks)


# --- llm refine ------------------------------------------------------------------------------------------------------


WALL = "Oswin Tarrel paid for a new sea wall of black stone."


SALT = "It owns the salt pans north of the harbour and sells grey salt to the inland markets."


def refine(model, summary, passage, words=40):
    return refine_offline(
        model, sample=0, question=QUESTION.text, summary=summary, passage=(passage,), words=words
    ).split("\n")


def test_updates_one_summary_by_one_passage_after_the_other(language_model):
    model = language_model({"refine_summary": ["one", "two", "three"]})
    passages = tuple(Passage(f"text {i}", (Span("doc", i, i + 1),), 0.5 + i) for i in range(3))
    result = llm_refine(QUESTION, passages, language_model=model)
    assert [(call.inputs["summary"], call.inputs["passage"]) for call in model.calls] == [
        ("", ("text 0",)),
        ("one", ("text 1",)),
        ("two", ("text 2",)),
    ]
    assert result == (Passage("three", tuple(Span("doc", i, i + 1) for i in range(3)), 2.5),)


def test_no_passage_needs_no_call(language_model):
    assert llm_refine(QUESTION, (), language_model=language_model()) == ()


def test_offline_adds_while_there_is_room(extractive):
    assert refine(extractive, SALT, WALL) == [SALT, WALL]


def test_offline_a_better_sentence_takes_the_place_of_the_least_useful(extractive):
    assert refine(extractive, SALT, WALL, words=20) == [WALL]


def test_offline_a_worse_sentence_takes_no_place(extractive):
    assert refine(extractive, WALL, SALT, words=20) == [WALL]


def test_offline_nothing_is_said_twice(extractive):
    assert refine(extractive, WALL, WALL) == [WALL]
    assert refine(extractive, WALL, "Oswin Tarrel paid for the new sea wall of black stone.") == [WALL]


def test_offline_a_first_sentence_longer_than_the_budget_is_kept_whole(extractive):
    assert refine(extractive, "", SALT, words=3) == [SALT]


def test_offline_over_the_whole_town(chunks, extractive):
    passages = tuple(Passage(chunk.text, (chunk.span,), 1.0) for chunk in chunks)
    (result,) = llm_refine(QUESTION, passages, language_model=extractive, max_words=40)
    assert WALL in result.text.split("\n")
    assert len(result.text.split()) <= 40
    everything = {sentence for chunk in chunks for sentence in extractive.sentences(chunk.text)}
    assert set(result.text.split("\n")) <= everything
