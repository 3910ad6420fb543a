import pytest

from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.techniques.query_expansion.multi_query import PARAPHRASE, multi_query
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Who pays?")


def scripted(*variants):
    return ScriptedModel({"paraphrase_question": [variants]})


def test_question_and_paraphrases_are_searched_together(search, hits):
    model, found = scripted("A?", "B?"), search(hits([3, 2, 1]))
    multi_query(QUESTION, found, language_model=model, n=2)
    assert found.calls == [("Who pays?", "A?", "B?")]
    assert model.calls[0].inputs == {"question": "Who pays?", "n": 2}


def test_the_question_keeps_its_share_of_the_score(search, chunks):
    a, b, c = chunks[0], chunks[1], chunks[2]
    found = search({"Who pays?": hits_of((a, b), [9, 1]), "A?": hits_of((b, c), [5, 4]), "B?": hits_of((c, a), [7, 2])})
    fused = multi_query(QUESTION, found, language_model=scripted("A?", "B?"), weight=0.6)
    # min-max: question a 1, b 0; A b 1, c 0; B c 1, a 0; weights 0.6, 0.2, 0.2
    assert {hit.chunk.id: hit.score for hit in fused} == pytest.approx({a.id: 0.6, b.id: 0.2, c.id: 0.2})
    assert [hit.chunk for hit in fused] == [a, b, c]
    assert {hit.scale for hit in fused} == {Scale.CONVEX}


def test_lists_may_be_fused_by_votes_as_published(search, chunks):
    a, b, c = chunks[0], chunks[1], chunks[2]
    found = search({"Who pays?": hits_of((a, b), [9, 1]), "A?": hits_of((c, b), [5, 4])})
    fused = multi_query(QUESTION, found, language_model=scripted("A?"), fusion="borda")
    # of three: a 3 + 1, b 2 + 2, c 1 + 3
    assert {hit.chunk.id: hit.score for hit in fused} == {a.id: 4.0, b.id: 4.0, c.id: 4.0}
    assert {hit.scale for hit in fused} == {Scale.BORDA}


def test_more_paraphrases_than_asked_for_are_not_searched(search, hits):
    found = search(hits([1]))
    multi_query(QUESTION, found, language_model=scripted("A?", "B?", "C?"), n=1)
    assert found.queries == ("Who pays?", "A?")


def test_offline_each_variant_replaces_its_own_words_and_keeps_names_and_numbers(embedder):
    model = ExtractiveModel(
        ["The lawyer wrote.", "The physician healed the child.", "The automobile is red."], embedder
    )
    question = "Did the attorney of Doctor Hale see 4 cars and a doctor?"
    assert model.run(PARAPHRASE, question=question, n=3) == (
        "Did the lawyer of Doctor Hale see 4 cars and a doctor?",
        "Did the attorney of Doctor Hale see 4 automobile and a doctor?",
        "Did the attorney of Doctor Hale see 4 cars and a physician?",
    )
    assert model.run(PARAPHRASE, question=question, n=1) == (
        "Did the lawyer of Doctor Hale see 4 automobile and a physician?",
    )


def test_offline_a_variant_after_all_words_takes_the_next_nearest(extractive):
    first, second = extractive.related("money", 2)
    assert extractive.run(PARAPHRASE, question="What is money?", n=5) == (f"What is {first}?", f"What is {second}?")


def test_offline_a_question_without_related_words_stays(extractive):
    assert extractive.run(PARAPHRASE, question="Who is it?", n=3) == ("Who is it?",)
    assert extractive.run(PARAPHRASE, question="", n=3) == ("",)
