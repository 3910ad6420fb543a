import pytest

from ragsmith.techniques.query_expansion.dual_path import dual_path
from ragsmith.techniques.query_expansion.hyde import hyde
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Who pays?")


def scripted(passage):
    return ScriptedModel({"imagine_passage": [passage]})


@pytest.mark.parametrize("constant", [60, 10])
def test_both_paths_are_fused_by_reciprocal_rank(search, chunks, constant):
    a, b, c = chunks[0], chunks[1], chunks[2]
    found = search({"Who pays?": hits_of((a, b), [9, 1]), "P.": hits_of((b, c), [5, 4])})
    fused = dual_path(QUESTION, found, language_model=scripted("P."), constant=constant)
    k = constant
    assert [hit.chunk for hit in fused] == [b, a, c]
    assert [hit.score for hit in fused] == pytest.approx([1 / (k + 1) + 1 / (k + 2), 1 / (k + 1), 1 / (k + 2)])
    assert {hit.scale for hit in fused} == {Scale.RRF}
    assert found.calls == [("Who pays?", "P.")]


def test_it_is_hyde_that_keeps_the_question(search, chunks):
    found = search({"Who pays?": hits_of(chunks[:5], [5, 4, 3, 2, 1]), "P.": hits_of(chunks[3:], [4, 3, 2, 1])})
    plain = hyde(QUESTION, found, language_model=scripted("P."), keep_question=True)
    assert dual_path(QUESTION, found, language_model=scripted("P.")) == plain
