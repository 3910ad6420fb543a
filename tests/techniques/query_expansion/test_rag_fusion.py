import pytest

from ragsmith.techniques.query_expansion.rag_fusion import RELATE, TERMS, rag_fusion
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Who pays?")


def scripted(*queries):
    return ScriptedModel({"related_questions": [queries]})


def test_rankings_are_fused_by_reciprocal_rank(search, chunks):
    a, b, c = chunks[0], chunks[1], chunks[2]
    found = search({"Who pays?": hits_of((a, b), [9, 1]), "A?": hits_of((b, c), [5, 4])})
    fused = rag_fusion(QUESTION, found, language_model=scripted("A?"), constant=10)
    assert [hit.chunk for hit in fused] == [b, a, c]
    assert [hit.score for hit in fused] == pytest.approx([1 / 12 + 1 / 11, 1 / 11, 1 / 12])
    assert {hit.scale for hit in fused} == {Scale.RRF}
    assert found.calls == [("Who pays?", "A?")]


def test_the_fused_list_is_cut_and_surplus_queries_are_dropped(search, hits):
    found = search(hits(range(9, 0, -1)))
    assert len(rag_fusion(QUESTION, found, language_model=scripted("A?", "B?"), n=1, depth=3)) == 3
    assert found.queries == ("Who pays?", "A?")


def test_offline_each_query_has_the_terms_of_another_passage(extractive):
    question = "Why was the sea wall broken?"
    queries = extractive.run(RELATE, question=question, n=3)
    passages = extractive.feedback(question, 3)
    assert len(queries) == len(passages)
    seen = set(extractive.terms(question))
    for query, passage in zip(queries, passages, strict=True):
        added = extractive.terms(query.removeprefix(question))
        assert 1 <= len(added) <= TERMS
        assert set(added) <= set(extractive.terms(passage))
        assert not seen & set(added)
        seen.update(added)


def test_offline_without_feedback_there_is_only_the_question(extractive):
    assert extractive.run(RELATE, question="xylophone?", n=3) == ("xylophone?",)
