import pytest

from ragsmith.techniques.query_expansion.step_back import STEP_BACK, step_back
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Question

QUESTION = Question("Did Tarrel pay in 1650?")


def scripted(broader):
    return ScriptedModel({"broader_question": [broader]})


def test_both_lists_count_by_their_shares_whatever_their_scores(search, chunks):
    a, b, c = chunks[0], chunks[1], chunks[2]
    found = search({QUESTION.text: hits_of((a, b), [0.2, 0.1]), "Who pays?": hits_of((c, b), [900, 100])})
    fused = step_back(QUESTION, found, language_model=scripted("Who pays?"), weight=0.7)
    assert {hit.chunk.id: hit.score for hit in fused} == pytest.approx({a.id: 0.7, b.id: 0.0, c.id: 0.3})
    assert [hit.chunk for hit in fused] == [a, c, b]
    assert found.calls == [(QUESTION.text, "Who pays?")]


def test_offline_names_numbers_and_rare_words_go_and_shared_words_come(extractive):
    question = "Did Oswin Tarrel repair the sea wall of the harbour with black stone in 1651?"
    broader = extractive.run(STEP_BACK, question=question).split()
    assert broader == extractive.run(STEP_BACK, question=question).split()
    assert not {"oswin", "tarrel", "1651", "stone"} & set(broader)
    assert {"harbour", "sea", "wall"} <= set(broader)
    added = set(extractive.terms(" ".join(broader))) - set(extractive.terms(question))
    passages = [set(extractive.terms(passage)) for passage in extractive.feedback(question, 5)]
    assert added
    assert all(sum(term in passage for passage in passages) >= 2 for term in added)


@pytest.mark.parametrize("question", ["Who?", "", "Xylophone 17?"])
def test_offline_what_cannot_be_broadened_stays(extractive, question):
    assert extractive.run(STEP_BACK, question=question) in {question, "xylophone"}
