import pytest

from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.techniques.query_expansion.multi_prose import FRAMINGS, IMAGINE_FRAMED, multi_prose
from ragsmith.testing import ScriptedModel, hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Who pays?")
DEFINITION, EXPLANATION, EXAMPLE = FRAMINGS


def scripted(*passages):
    return ScriptedModel({"imagine_framed_passage": passages})


def test_each_framing_is_asked_for_and_all_are_searched(search, hits):
    model, found = scripted("A.", "B.", "C."), search(hits([3, 2, 1]))
    assert len(multi_prose(QUESTION, found, language_model=model, depth=2)) == 2
    assert found.calls == [("Who pays?", "A.", "B.", "C.")]
    assert [call.inputs["framing"] for call in model.calls] == [DEFINITION, EXPLANATION, EXAMPLE]


@pytest.mark.parametrize(("fusion", "scale"), [("rrf", Scale.RRF), ("max", Scale.COSINE)])
def test_it_fuses_as_modality_hyde_does(search, chunks, fusion, scale):
    found = search({"Who pays?": hits_of(chunks[:2], [0.9, 0.1]), "A.": hits_of(chunks[1:3], [0.5, 0.4])})
    fused = multi_prose(QUESTION, found, language_model=scripted("A.", "B.", "C."), fusion=fusion)
    assert {hit.scale for hit in fused} == {scale}
    assert len(fused) == 3


def test_offline_sentences_with_a_cue_of_the_framing_are_preferred(embedder):
    model = ExtractiveModel(
        [
            "Salt dues are a tax on salt. Salt dues rose because the guild was poor. Salt dues, for example those of "
            "the year 1620, are lists. Salt dues, salt dues! Salt dues fell. Salt dues ended."
        ],
        embedder,
    )
    passages = {
        framing: model.run(IMAGINE_FRAMED, question="What are salt dues?", framing=framing) for framing in FRAMINGS
    }
    assert all(passage.startswith("What are salt dues. ") for passage in passages.values())
    assert "a tax on salt" in passages[DEFINITION]
    assert "because the guild was poor" in passages[EXPLANATION]
    assert "for example" in passages[EXAMPLE]


def test_offline_a_question_the_corpus_knows_nothing_of_stays(extractive):
    assert extractive.run(IMAGINE_FRAMED, question="xylophone?", framing=EXAMPLE) == "xylophone?"
