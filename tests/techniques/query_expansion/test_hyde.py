import pytest

from ragsmith.techniques.query_expansion.hyde import IMAGINE, hyde
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Who pays?")


def scripted(*passages):
    return ScriptedModel({"imagine_passage": passages})


def test_the_imagined_passage_is_searched_in_place_of_the_question(search, hits):
    found = search({"The guild pays.": hits([0.9, 0.5, 0.1])})
    assert hyde(QUESTION, found, language_model=scripted("The guild pays."), depth=2) == hits([0.9, 0.5])
    assert found.calls == [("The guild pays.",)]


def test_samples_are_numbered(search, hits):
    model, found = scripted("A.", "B.", "C."), search(hits([1]))
    hyde(QUESTION, found, language_model=model, n=3)
    assert [call.sample for call in model.calls] == [0, 1, 2]
    assert found.calls == [("A.", "B.", "C.")]


@pytest.mark.parametrize(
    ("fusion", "scale", "scores"),
    [("rrf", Scale.RRF, (1 / 61, 1 / 61 + 1 / 62, 1 / 62)), ("convex", Scale.CONVEX, (0.5, 0.5, 0.0))],
)
def test_the_question_can_be_kept_and_fused(search, chunks, fusion, scale, scores):
    a, b, c = chunks[0], chunks[1], chunks[2]
    found = search({"Who pays?": hits_of((a, b), [9, 1]), "A.": hits_of((b, c), [5, 4])})
    fused = hyde(QUESTION, found, language_model=scripted("A."), keep_question=True, fusion=fusion)
    assert {hit.chunk.id: hit.score for hit in fused} == pytest.approx(
        dict(zip((a.id, b.id, c.id), scores, strict=True))
    )
    assert {hit.scale for hit in fused} == {scale}
    assert found.calls == [("Who pays?", "A.")]


def test_equal_passages_are_searched_once(search, hits):
    found = search(hits([0.9]))
    assert hyde(QUESTION, found, language_model=scripted("A.", "A."), n=2) == hits([0.9])
    assert found.queries == ("A.",)


def test_a_passage_that_is_the_question_changes_nothing(search, hits):
    assert hyde(QUESTION, search(hits([0.9])), language_model=scripted("Who pays?"), keep_question=True) == hits([0.9])


def test_offline_the_passage_is_made_of_the_best_passages_sentences(extractive):
    question = "Who rings the bell of the Tide Tower?"
    passage = extractive.run(IMAGINE, question=question)
    assert passage.startswith("Who rings the bell of the Tide Tower. ")
    assert "The keeper of the Tide Tower rings the bell twice" in passage
    assert passage == extractive.run(IMAGINE, question=question)


def test_offline_samples_read_other_passages(extractive):
    question = "Who pays for the sea wall of the harbour?"
    assert len({extractive.run(IMAGINE, sample=i, question=question) for i in range(3)}) == 3


def test_offline_a_question_the_corpus_knows_nothing_of_stays(extractive):
    assert extractive.run(IMAGINE, question="xylophone?") == "xylophone?"
    assert extractive.run(IMAGINE, sample=99, question="bronze?").startswith("bronze. ")
