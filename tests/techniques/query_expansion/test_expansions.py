"""Query expansions that search with what a language model or the entity graph adds to the question."""

from functools import partial

import pytest

from ragsmith.index.entity_graph import EntityGraph
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.techniques.query_expansion.decomposition import DECOMPOSE, decomposition
from ragsmith.techniques.query_expansion.dual_path import dual_path
from ragsmith.techniques.query_expansion.graph_expansion import graph_expansion
from ragsmith.techniques.query_expansion.hyde import IMAGINE_PASSAGE, hyde
from ragsmith.techniques.query_expansion.modality_hyde import (
    IMAGINE_CODE,
    IMAGINE_TABLE,
    modality_hyde,
    search_hypotheses,
)
from ragsmith.techniques.query_expansion.multi_prose import FRAMINGS, IMAGINE_FRAMED, multi_prose
from ragsmith.techniques.query_expansion.multi_query import PARAPHRASE, multi_query
from ragsmith.techniques.query_expansion.none import none
from ragsmith.techniques.query_expansion.query_rewriting import REWRITE, query_rewriting
from ragsmith.techniques.query_expansion.rag_fusion import RELATE, TERMS_PER_PASSAGE, rag_fusion
from ragsmith.techniques.query_expansion.step_back import STEP_BACK, step_back
from ragsmith.testing import ScriptedModel, example_chunks, hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Who pays?")
DEFINITION, EXPLANATION, EXAMPLE = FRAMINGS


def replying(*replies):
    """A model that writes these texts; of one text a call, the first of them."""
    one = {name: [replies] for name in ("sub_questions", "paraphrase_question", "related_questions")}
    one |= {name: [replies[0]] for name in ("rewrite_query", "broader_question")}
    one |= {"imagine_passage": replies, "imagine_framed_passage": [*replies, *replies, *replies][:3]}
    return ScriptedModel(one | {"imagine_code": [""], "imagine_table": [""]})


# --- searching -------------------------------------------------------------------------------------------------------

ALL = (decomposition, dual_path, hyde, modality_hyde, multi_prose, multi_query, query_rewriting, rag_fusion, step_back)
RRF = (1 / 61, 1 / 61 + 1 / 62, 1 / 62)
RRF_10 = (1 / 11, 1 / 11 + 1 / 12, 1 / 12)


@pytest.mark.parametrize("expand", ALL)
def test_the_fused_list_is_cut(search, hits, expand):
    found = search(hits(range(9, 0, -1)))
    assert len(expand(QUESTION, found, language_model=replying("Who owes?"), depth=4)) == 4
    assert "Who owes?" in found.queries


@pytest.mark.parametrize("expand", ALL)
def test_a_reply_that_repeats_the_question_changes_nothing(search, hits, expand):
    found = search(hits([0.9, 0.5]))
    assert expand(QUESTION, found, language_model=replying(QUESTION.text)) == hits([0.9, 0.5])
    assert found.queries == (QUESTION.text,)


@pytest.mark.parametrize(
    ("expand", "parameters", "scale", "scores"),
    [
        (dual_path, {}, Scale.RRF, RRF),
        (dual_path, {"constant": 10}, Scale.RRF, RRF_10),
        (rag_fusion, {"constant": 10}, Scale.RRF, RRF_10),
        (hyde, {"keep_question": True}, Scale.RRF, RRF),
        (hyde, {"keep_question": True, "fusion": "convex"}, Scale.CONVEX, (0.5, 0.5, 0)),
        (decomposition, {}, Scale.CONVEX, (0.5, 0.5, 0)),
        (multi_query, {"weight": 0.6}, Scale.CONVEX, (0.6, 0.4, 0)),
        (multi_query, {"fusion": "borda"}, Scale.BORDA, (3 + 1, 2 + 3, 1 + 2)),
        (step_back, {"weight": 0.7}, Scale.CONVEX, (0.7, 0.3, 0)),
        (modality_hyde, {}, Scale.RRF, RRF),
        (modality_hyde, {"fusion": "max"}, Scale.COSINE, (0.9, 0.5, 0.4)),
        (multi_prose, {}, Scale.RRF, RRF),
        (multi_prose, {"fusion": "max"}, Scale.COSINE, (0.9, 0.5, 0.4)),
    ],
)
def test_question_and_reply_are_searched_together_and_fused(search, chunks, expand, parameters, scale, scores):
    a, b, c = chunks[:3]
    found = search({QUESTION.text: hits_of((a, b), [0.9, 0.1]), "P.": hits_of((b, c), [0.5, 0.4])})
    fused = expand(QUESTION, found, language_model=replying("P."), **parameters)
    assert found.calls == [(QUESTION.text, "P.")]
    assert {hit.chunk.id: hit.score for hit in fused} == pytest.approx(
        dict(zip((a.id, b.id, c.id), scores, strict=True))
    )
    assert {hit.scale for hit in fused} == {scale}


@pytest.mark.parametrize("expand", [hyde, query_rewriting])
def test_one_reply_is_searched_in_place_of_the_question_and_its_hits_keep_their_scores(search, hits, expand):
    found = search({"The guild pays.": hits([0.9, 0.5, 0.1])})
    assert expand(QUESTION, found, language_model=replying("The guild pays."), depth=2) == hits([0.9, 0.5])
    assert found.calls == [("The guild pays.",)]


@pytest.mark.parametrize("expand", [decomposition, multi_query, rag_fusion])
def test_more_queries_than_asked_for_are_not_searched(search, hits, expand):
    model, found = replying("A?", "B?", "C?"), search(hits([1]))
    expand(QUESTION, found, language_model=model, n=2)
    assert found.calls == [(QUESTION.text, "A?", "B?")]
    assert model.calls[0].inputs == {"question": QUESTION.text, "n": 2}


def test_other_queries_share_what_the_question_leaves(search, chunks):
    a, b, c = chunks[:3]
    rankings = {"Who pays?": hits_of((a, b), [9, 1]), "A?": hits_of((b, c), [5, 4]), "B?": hits_of((c, a), [7, 2])}
    fused = multi_query(QUESTION, search(rankings), language_model=replying("A?", "B?"), weight=0.6)
    assert {hit.chunk.id: hit.score for hit in fused} == pytest.approx({a.id: 0.6, b.id: 0.2, c.id: 0.2})
    assert [hit.chunk for hit in fused] == [a, b, c]


def test_without_expansion_the_question_is_searched_once(search, hits):
    found = search({QUESTION.text: hits([0.9, 0.5])})
    assert none(QUESTION, found) == hits([0.9, 0.5])
    assert found.calls == [(QUESTION.text,)]


def test_imagined_passages_are_numbered_samples_and_equal_ones_are_searched_once(search, hits):
    model, found = replying("A.", "B.", "A."), search(hits([1]))
    hyde(QUESTION, found, language_model=model, n=3)
    assert [call.sample for call in model.calls] == [0, 1, 2]
    assert found.calls == [("A.", "B.")]


def test_each_framing_and_each_modality_is_searched(search, hits):
    model, found = replying("A.", "B.", "C."), search(hits([3, 2, 1]))
    multi_prose(QUESTION, found, language_model=model)
    assert [call.inputs["framing"] for call in model.calls] == [DEFINITION, EXPLANATION, EXAMPLE]
    said = {"imagine_passage": ["P."], "imagine_code": ["c()"], "imagine_table": ["a: b"]}
    modality_hyde(QUESTION, found, language_model=ScriptedModel(said))
    assert found.calls == [(QUESTION.text, "A.", "B.", "C."), (QUESTION.text, "P.", "c()", "a: b")]


def test_off_cosines_max_takes_what_stands_out_most_from_its_list(search, chunks):
    rankings = {"Q": hits_of(chunks[:3], [9, 1, 1], Scale.BM25), "P": hits_of(chunks[1:4], [50, 48, 4], Scale.BM25)}
    fused = search_hypotheses("Q", ["P"], search(rankings), "max")
    # (score - mean) / deviation: 1.41 and -0.71 twice for the question, 0.75, 0.66 and -1.41 for the passage
    assert [hit.chunk for hit in fused] == [chunks[0], chunks[1], chunks[2], chunks[3]]
    assert [hit.score for hit in fused] == pytest.approx([0.7357, 0.6256, 0.6099, 0.2645], abs=1e-4)
    assert {hit.scale for hit in fused} == {Scale.MAXIMUM}


@pytest.mark.parametrize(("task", "text"), [(IMAGINE_CODE, "a = 1\nb = 2"), (IMAGINE_TABLE, "a: 1 | b: 2")])
def test_a_model_may_say_that_a_modality_does_not_suit(task, text):
    assert task.parse("NONE.") == ""
    assert task.parse(f"```\n{text}\n```") == text
    for reply in ("", "I'm sorry, I can't help with that."):
        with pytest.raises(ValueError, match=r"blank|refusal"):
            task.parse(reply)


# --- the entity graph ------------------------------------------------------------------------------------------------

FACT = "Oswin Tarrel led Salt Guild"
GRAPH = EntityGraph(example_chunks()[:2], [[("Oswin Tarrel", "led", "Salt Guild")], [("Velmouth", "has", "harbour")]])
expand_by_facts = partial(graph_expansion, Question("Whom did Oswin Tarrel lead?"), entity_graph=GRAPH)


def test_facts_are_searched_with_the_question(search, chunks):
    a, b, c = chunks[:3]
    found = search({"Whom did Oswin Tarrel lead?": hits_of((a, b), [9, 1]), FACT: hits_of((c, b), [5, 4])})
    fused = expand_by_facts(found, weight=0.7)
    assert found.calls == [("Whom did Oswin Tarrel lead?", FACT)]
    assert {hit.chunk.id: hit.score for hit in fused} == pytest.approx({a.id: 0.7, b.id: 0.0, c.id: 0.3})
    assert len(expand_by_facts(found, weight=0.7, depth=2)) == 2


def test_facts_can_be_appended_to_the_question(search, hits):
    found = search(hits([0.9, 0.5]))
    assert expand_by_facts(found, mode="append", depth=1) == hits([0.9])
    assert found.calls == [(f"Whom did Oswin Tarrel lead? {FACT}",)]


@pytest.mark.parametrize(("question", "mode"), [("Why?", "fuse"), ("Why?", "append"), (FACT, "fuse")])
def test_a_question_without_other_facts_is_searched_as_it_is(search, hits, question, mode):
    found = search(hits([0.9, 0.5]))
    assert graph_expansion(Question(question), found, entity_graph=GRAPH, mode=mode) == hits([0.9, 0.5])
    assert found.calls == [(question,)]


# --- the embedded model ----------------------------------------------------------------------------------------------

RINGS = "Who rings the bell of the Tide Tower?"


@pytest.mark.parametrize(
    ("task", "question", "expected"),
    [
        (IMAGINE_PASSAGE, "xylophone?", "xylophone?"),
        (IMAGINE_FRAMED, "xylophone?", "xylophone?"),
        (RELATE, "xylophone?", ("xylophone?",)),
        (PARAPHRASE, "Who is it?", ("Who is it?",)),
        (PARAPHRASE, "", ("",)),
        (REWRITE, "Who is it?", "Who is it?"),
        (REWRITE, "", ""),
        (STEP_BACK, "Who?", "Who?"),
        (STEP_BACK, "", ""),
        (STEP_BACK, "Xylophone 17?", "Xylophone 17?"),
        (IMAGINE_CODE, "Who is it?", ""),
        (IMAGINE_TABLE, "Who is it?", ""),
        (DECOMPOSE, "Who rings the bell in the Tide Tower?", ("Who rings the bell in the Tide Tower?",)),
        (DECOMPOSE, "Which of the guild and the market?", ("Which of the guild and the market?",)),
        (DECOMPOSE, "Who?", ("Who?",)),
        (DECOMPOSE, "", ("",)),
    ],
)
def test_offline_a_question_that_nothing_is_known_of_stays(extractive, task, question, expected):
    inputs = {"question": question, "n": 3, "framing": EXAMPLE}
    taken = {name: value for name, value in inputs.items() if f"{{{name}}}" in task.prompt}
    assert extractive.run(task, **taken) == expected


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


def test_offline_the_passage_is_made_of_the_best_passages_sentences(extractive):
    passage = extractive.run(IMAGINE_PASSAGE, question=RINGS)
    assert passage.startswith("Who rings the bell of the Tide Tower. ")
    assert "The keeper of the Tide Tower rings the bell twice" in passage
    asked = "Who pays for the sea wall of the harbour?"
    assert len({extractive.run(IMAGINE_PASSAGE, sample=i, question=asked) for i in range(3)}) == 3
    assert extractive.run(IMAGINE_PASSAGE, sample=99, question="bronze?").startswith("bronze. ")


def test_offline_sentences_with_a_cue_of_the_framing_are_preferred(embedder):
    text = (
        "Salt dues are a tax on salt. Salt dues rose because the guild was poor. Salt dues, for example those of the "
        "year 1620, are lists. Salt dues, salt dues! Salt dues fell. Salt dues ended."
    )
    run = partial(ExtractiveModel([text], embedder).run, IMAGINE_FRAMED, question="What are salt dues?")
    for framing, said in {DEFINITION: "a tax on", EXPLANATION: "because the guild", EXAMPLE: "for example"}.items():
        assert run(framing=framing).startswith("What are salt dues. ")
        assert said in run(framing=framing)


@pytest.fixture(scope="module")
def offices(embedder):
    return ExtractiveModel(["The lawyer wrote.", "The physician healed the child.", "The automobile is red."], embedder)


def test_offline_each_variant_replaces_its_own_words_and_keeps_names_and_numbers(offices):
    question = "Did the attorney of Doctor Hale see 4 cars and a doctor?"
    assert offices.run(PARAPHRASE, question=question, n=3) == (
        "Did the lawyer of Doctor Hale see 4 cars and a doctor?",
        "Did the attorney of Doctor Hale see 4 automobile and a doctor?",
        "Did the attorney of Doctor Hale see 4 cars and a physician?",
    )
    every = "Did the lawyer of Doctor Hale see 4 automobile and a physician?"
    assert offices.run(PARAPHRASE, question=question, n=1) == (every,)


def test_offline_a_variant_after_all_words_takes_the_next_nearest(extractive):
    first, second = extractive.related("money", 2)
    assert extractive.run(PARAPHRASE, question="What is money?", n=5) == (f"What is {first}?", f"What is {second}?")


def test_offline_a_rewriting_keeps_content_words_and_adds_those_of_the_feedback(extractive, offices):
    question = f"Could you please tell me {RINGS}"
    rewritten = set(extractive.run(REWRITE, question=question).split())
    assert {"rings", "bell", "tide", "tower", *extractive.expansion_terms(question, 5)} <= rewritten
    assert not {"you", "who", "the"} & rewritten
    found = offices.run(REWRITE, question="Did the attorney see the child and Zyxw?")
    assert found.split()[:4] == ["lawyer", "see", "child", "zyxw"]  # a word that the corpus lacks becomes its nearest


def test_offline_each_related_query_has_the_terms_of_another_passage(extractive):
    question = "Why was the sea wall broken?"
    seen = set(extractive.terms(question))
    queries = extractive.run(RELATE, question=question, n=3)
    for query, passage in zip(queries, extractive.feedback(question, 3), strict=True):
        added = extractive.terms(query.removeprefix(question))
        assert 1 <= len(added) <= TERMS_PER_PASSAGE
        assert set(added) <= set(extractive.terms(passage)) - seen
        seen.update(added)


def test_offline_names_numbers_and_rare_words_go_and_shared_words_come(extractive):
    question = "Did Oswin Tarrel repair the sea wall of the harbour with black stone in 1651?"
    broader = extractive.run(STEP_BACK, question=question).split()
    assert not {"oswin", "tarrel", "1651", "stone"} & set(broader)
    assert {"harbour", "sea", "wall"} <= set(broader)
    added = set(extractive.terms(" ".join(broader))) - set(extractive.terms(question))
    passages = [set(extractive.terms(passage)) for passage in extractive.feedback(question, 5)]
    assert added
    assert all(sum(term in passage for passage in passages) >= 2 for term in added)


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


@pytest.fixture(scope="module")
def mixed(embedder):
    return ExtractiveModel([CODE_CHUNK, TABLE_CHUNK, PROSE_CHUNK], embedder)


def test_offline_code_takes_lines_and_identifiers_from_code(mixed):
    comment, *lines = mixed.run(IMAGINE_CODE, question="How is the text of a path parsed?").splitlines()
    assert comment.startswith("# text path parsed ")
    assert "parse toml" in comment
    assert "return parse_toml(text)" in lines
    assert set(lines) <= {line.strip() for line in CODE_CHUNK.splitlines()}


def test_offline_code_is_made_up_where_the_corpus_has_none(extractive):
    comment, head, body = extractive.run(IMAGINE_CODE, question=RINGS).splitlines()
    assert comment.startswith("# rings bell tide tower ")
    assert head == "def rings_bell_tide(tower):"
    assert body.startswith("    return ")
    assert set(map(str.lower, extractive.expansion_terms(RINGS, 6))) <= set(comment.split())


def test_offline_rows_are_written_with_their_columns_or_made_up(mixed, extractive):
    rows = mixed.run(IMAGINE_TABLE, question="How many crowns did the ship Petrel pay in dues?").splitlines()
    assert set(rows) == {"Ship: Heron | Dues: 4 crowns | Nights: 2", "Ship: Petrel | Dues: 8 crowns | Nights: 5"}
    assert rows[0].startswith("Ship: Petrel")
    row = extractive.run(IMAGINE_TABLE, question="When was the harbour of Velmouth dug?")
    assert row.startswith("harbour: ")
    assert "1612" in row
