import pytest

from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.techniques.query_expansion.modality_hyde import CODE, TABLE, modality_hyde, search_hypotheses
from ragsmith.testing import ScriptedModel, fake_search, hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Who pays?")

CODE_CHUNK = """def read_config(path):
    text = open(path).read()
    return parse_toml(text)

class ConfigLoader:
    def loadDefaults(self): ..."""
TABLE_CHUNK = """| Ship | Dues | Nights |
| --- | ---: | ---: |
| Heron | 4 crowns | 2 |
| Petrel | 8 crowns | 5 |"""
PROSE_CHUNK = "The settings of the program are kept in a file. Every ship pays dues for each night in the harbour."


def scripted(prose, code, table):
    return ScriptedModel({"imagine_passage": [prose], "imagine_code": [code], "imagine_table": [table]})


def test_question_and_hypotheses_are_searched_together(search, hits):
    model, found = scripted("P.", "c()", "a: b"), search(hits([3, 2, 1]))
    assert len(modality_hyde(QUESTION, found, language_model=model, depth=2)) == 2
    assert found.calls == [("Who pays?", "P.", "c()", "a: b")]
    assert len(model.calls) == 3


def test_empty_hypotheses_are_dropped(search, hits):
    found = search(hits([1]))
    modality_hyde(QUESTION, found, language_model=scripted("P.", "", ""))
    assert found.calls == [("Who pays?", "P.")]


def test_ranks_are_fused(chunks):
    a, b, c = chunks[0], chunks[1], chunks[2]
    found = fake_search({"Q": hits_of((a, b), [9, 1]), "P": hits_of((b, c), [5, 4])})
    fused = search_hypotheses("Q", ["P", "", "P"], found, "rrf")
    assert [hit.chunk for hit in fused] == [b, a, c]
    assert [hit.score for hit in fused] == pytest.approx([1 / 61 + 1 / 62, 1 / 61, 1 / 62])
    assert found.calls == [("Q", "P")]


def test_max_takes_the_best_cosine(chunks):
    a, b, c = chunks[0], chunks[1], chunks[2]
    found = fake_search({"Q": hits_of((a, b), [0.9, 0.1]), "P": hits_of((b, c), [0.5, 0.4])})
    assert search_hypotheses("Q", ["P"], found, "max") == hits_of((a, b, c), [0.9, 0.5, 0.4])


def test_off_cosines_max_takes_what_stands_out_most_from_its_list(chunks):
    rankings = {"Q": hits_of(chunks[:3], [9, 1, 1], Scale.BM25), "P": hits_of(chunks[1:4], [50, 48, 4], Scale.BM25)}
    fused = search_hypotheses("Q", ["P"], fake_search(rankings), "max")
    # (score - mean) / deviation: 1.41 and -0.71 twice for the question, 0.75, 0.66 and -1.41 for the passage
    assert [hit.chunk for hit in fused] == [chunks[0], chunks[1], chunks[2], chunks[3]]
    assert [hit.score for hit in fused] == pytest.approx([0.7357, 0.6256, 0.6099, 0.2645], abs=1e-4)
    assert {hit.scale for hit in fused} == {Scale.MAXIMUM}
    assert search_hypotheses("Q", ["P"], fake_search(rankings), "rrf")[0].chunk == chunks[1]


def test_the_question_alone_keeps_its_scores(hits):
    assert search_hypotheses("Q", ["", "Q"], fake_search(hits([0.9])), "rrf") == hits([0.9])


@pytest.mark.parametrize("task", [CODE, TABLE], ids=lambda task: task.name)
def test_a_model_may_say_that_a_modality_does_not_suit(task):
    assert task.parse("NONE.") == ""
    assert task.parse("```\na = 1\nb = 2\n```") == "a = 1\nb = 2"
    for reply in ("", "I'm sorry, I can't help with that."):
        with pytest.raises(ValueError, match=r"blank|refusal"):
            task.parse(reply)


# --- offline ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def mixed(embedder):
    return ExtractiveModel([CODE_CHUNK, TABLE_CHUNK, PROSE_CHUNK], embedder)


def test_offline_code_takes_lines_and_identifiers_from_code(mixed):
    snippet = mixed.run(CODE, question="How is the text of a path parsed?")
    comment, *lines = snippet.splitlines()
    assert comment.startswith("# text path parsed ")
    assert "parse toml" in comment
    assert "return parse_toml(text)" in lines
    assert set(lines) <= {line.strip() for line in CODE_CHUNK.splitlines()}


def test_offline_code_is_made_up_where_the_corpus_has_none(extractive):
    question = "Who rings the bell of the Tide Tower?"
    comment, head, body = extractive.run(CODE, question=question).splitlines()
    assert comment.startswith("# rings bell tide tower ")
    assert head == "def rings_bell_tide(tower):"
    assert body.startswith("    return ")
    assert set(map(str.lower, extractive.expansion_terms(question, 6))) <= set(comment.split())
    assert extractive.run(CODE, question="Who is it?") == ""


def test_offline_rows_are_written_with_their_columns(mixed):
    rows = mixed.run(TABLE, question="How many crowns did the ship Petrel pay in dues?").splitlines()
    assert set(rows) == {"Ship: Heron | Dues: 4 crowns | Nights: 2", "Ship: Petrel | Dues: 8 crowns | Nights: 5"}
    assert rows[0].startswith("Ship: Petrel")


def test_offline_a_row_is_made_up_where_the_corpus_has_no_table(extractive):
    row = extractive.run(TABLE, question="When was the harbour of Velmouth dug?")
    assert row.startswith("harbour: ")
    assert "1612" in row
    assert extractive.run(TABLE, question="Who is it?") == ""
