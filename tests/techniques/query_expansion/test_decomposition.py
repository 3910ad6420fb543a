import pytest

from ragsmith.techniques.query_expansion.decomposition import DECOMPOSE, decomposition
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Question

QUESTION = Question("Who pays and when?")


def scripted(*parts):
    return ScriptedModel({"sub_questions": [parts]})


def test_question_and_parts_are_searched_and_weighed(search, chunks):
    a, b, c = chunks[0], chunks[1], chunks[2]
    found = search(
        {QUESTION.text: hits_of((a, b), [9, 1]), "Who?": hits_of((b, c), [5, 4]), "When?": hits_of((c,), [7])}
    )
    fused = decomposition(QUESTION, found, language_model=scripted("Who?", "When?"))
    assert found.calls == [(QUESTION.text, "Who?", "When?")]
    assert {hit.chunk.id: hit.score for hit in fused} == pytest.approx({a.id: 0.5, b.id: 0.25, c.id: 0.25})


def test_a_simple_question_is_searched_as_it_is(search, hits):
    found = search(hits([0.9, 0.4, 0.1]))
    assert decomposition(QUESTION, found, language_model=scripted(QUESTION.text), depth=2) == hits([0.9, 0.4])
    assert found.queries == (QUESTION.text,)


@pytest.mark.parametrize(
    ("question", "parts"),
    [
        (
            "Who founded the Salt Guild, and when did it build the covered market?",
            ("Who founded the Salt Guild?", "When did it build the covered market Salt Guild?"),
        ),
        (
            "What is the difference between harbour dues and salt taxes?",
            ("What is harbour dues?", "What is salt taxes?"),
        ),
        (
            "How does the Salt Guild differ from the harbour master?",
            ("What is the Salt Guild?", "What is the harbour master?"),
        ),
        (
            "If dues are not paid within thirty days, what may the harbour master do?",
            ("Dues are not paid within thirty days?", "What may the harbour master do?"),
        ),
        (
            "Why did both the sea wall and the salt pans break?",
            ("Why did the sea wall?", "Why did the salt pans break?"),
        ),
        (
            "When was the harbour dug; who dug the harbour; why was the harbour dug; what else was dug?",
            ("When was the harbour dug?", "Who dug the harbour?", "Why was the harbour dug?"),
        ),
        (
            "How are harbour dues raised and what happens when they are not paid?",
            ("How are harbour dues raised?", "What happens when they are not paid dues raised?"),
        ),
    ],
)
def test_offline_clauses_are_split(extractive, question, parts):
    assert extractive.run(DECOMPOSE, question=question, n=3) == parts


@pytest.mark.parametrize(
    "question",
    [
        "Who rings the bell in the Tide Tower?",
        "Which families founded the guild, the market and the salt pans?",
        "Who?",
        "",
    ],
)
def test_offline_one_clause_yields_itself(extractive, question):
    assert extractive.run(DECOMPOSE, question=question, n=3) == (question,)
