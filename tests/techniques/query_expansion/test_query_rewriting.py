import pytest

from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.techniques.query_expansion.query_rewriting import REWRITE, query_rewriting
from ragsmith.testing import ScriptedModel
from ragsmith.types import Question


def test_only_the_rewritten_query_is_searched(search, hits):
    model = ScriptedModel({"rewrite_query": ["harbour dues payer"]})
    found = search({"harbour dues payer": hits([0.9, 0.5, 0.1])})
    assert query_rewriting(Question("Who pays, please?"), found, language_model=model, depth=2) == hits([0.9, 0.5])
    assert found.calls == [("harbour dues payer",)]
    assert model.count("rewrite_query") == 1


def test_offline_keeps_content_words_and_adds_the_feedbacks(extractive):
    question = "Could you please tell me who rings the bell of the Tide Tower?"
    rewritten = extractive.run(REWRITE, question=question)
    assert rewritten == extractive.run(REWRITE, question=question)
    assert {"rings", "bell", "tide", "tower"} <= set(rewritten.split())
    assert not {"you", "who", "the"} & set(rewritten.split())
    assert set(extractive.expansion_terms(question, 5)) <= set(rewritten.split())


def test_offline_a_word_the_corpus_lacks_becomes_its_nearest_one(embedder):
    model = ExtractiveModel(
        ["The lawyer wrote.", "The physician healed the child.", "The automobile is red."], embedder
    )
    assert model.run(REWRITE, question="Did the attorney see the child and Zyxw?").split()[:4] == [
        "lawyer",
        "see",
        "child",
        "zyxw",
    ]


@pytest.mark.parametrize("question", ["", "Who is it?"])
def test_offline_a_question_without_content_words_stays(extractive, question):
    assert extractive.run(REWRITE, question=question) == question
