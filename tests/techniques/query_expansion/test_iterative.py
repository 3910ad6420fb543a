import pytest

from ragsmith.techniques.query_expansion.iterative import WRITE_NOTE, iterative
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Who pays?")


def scripted(*notes):
    return ScriptedModel({"note_on_evidence": notes})


def test_each_round_searches_with_the_question_and_its_note(search, hits):
    model, found = scripted("A.", "B.", "C."), search(hits([3, 2, 1]))
    iterative(QUESTION, found, language_model=model)
    assert found.calls == [("Who pays?",), ("Who pays? A.",), ("Who pays? B.",), ("Who pays? C.",)]
    assert len(model.calls) == 3


def test_a_note_reads_the_best_hits_of_all_rounds_so_far(search, chunks):
    a, b, c = chunks[0], chunks[1], chunks[2]
    model = scripted("A.", "B.")
    found = search({"Who pays?": hits_of((a, b), [9, 1]), "Who pays? A.": hits_of((c, b), [5, 4])})
    fused = iterative(QUESTION, found, language_model=model, rounds=2, snippets=1, max_characters=1000)
    # b is second in both rankings, 2 / 62; a and c are first in one, 1 / 61
    assert [call.inputs["passages"] for call in model.calls] == [(a.text,), (b.text,)]
    assert [hit.chunk for hit in fused] == [b, a, c]
    assert [hit.score for hit in fused] == pytest.approx([2 / 62, 1 / 61, 1 / 61])
    assert {hit.scale for hit in fused} == {Scale.RRF}


def test_a_note_that_comes_out_the_same_ends_the_rounds(search, hits):
    model, found = scripted("A.", "A.", "B."), search(hits([3, 2, 1]))
    iterative(QUESTION, found, language_model=model)
    assert found.queries == ("Who pays?", "Who pays? A.")
    assert model.left("note_on_evidence") == 1


def test_the_fused_list_is_cut(search, hits):
    assert len(iterative(QUESTION, search(hits([3, 2, 1])), language_model=scripted("A."), rounds=1, depth=2)) == 2


def test_nothing_found_is_no_hits_but_is_tried_again(search):
    found = search({})
    assert iterative(QUESTION, found, language_model=scripted("A.", "B.", "C.")) == ()
    assert len(found.calls) == 4


def test_offline_a_note_has_what_is_known_and_what_is_missing(extractive, chunks):
    question = "Who rings the bell of the Tide Tower, and what is a warden?"
    note = extractive.run(WRITE_NOTE, question=question, passages=(chunks[1].text,))
    assert "The keeper of the Tide Tower rings the bell twice" in note
    said = note.split()
    assert "warden" in said
    assert set(extractive.expansion_terms("warden", 5)) <= set(said)
    assert note == extractive.run(WRITE_NOTE, question=question, passages=(chunks[1].text,))


def test_offline_without_passages_the_question_is_what_is_missing(extractive):
    note = extractive.run(WRITE_NOTE, question="Who rings the bell?", passages=())
    assert note.split()[:2] == ["rings", "bell"]
    assert extractive.run(WRITE_NOTE, question="?", passages=()) == "?"
