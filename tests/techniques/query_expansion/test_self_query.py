"""Self-query: which filter a question proposes, and that a proposal is a guess which only narrows."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenants import TENANTS, filter_of, make_corpus, make_models, make_questions

from ragsmith.evaluation.baselines import baseline
from ragsmith.gateway.gateway import Gateway
from ragsmith.index.fields import FieldSearch, list_fields
from ragsmith.index.index import Corpus
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate, make_gene
from ragsmith.techniques.query_expansion.self_query import PROPOSE_FILTER, propose_filter_offline, self_query
from ragsmith.techniques.registry import load_techniques
from ragsmith.testing import ScriptedModel, fake_search, hits_of
from ragsmith.text.filters import parse_filter
from ragsmith.types import Chunk, Condition, Document, Filter, Hits, Question, Scale, Search

load_techniques()

TYPES = {"tenant": str, "signed": date, "year": float, "tags": tuple, "volume": float}
DEEDS: list[dict[str, Any]] = [
    {"tenant": "Acme", "signed": date(2019, 5, 1), "tags": ("rent", "Harbour Act")},
    {"tenant": "Acme Nord", "signed": date(2021, 5, 1), "tags": ("rent",)},
    {"tenant": "brass", "signed": date(2022, 1, 31), "tags": ("dues",)},
]


def propose(question: str, documents: list[dict[str, Any]]) -> str:
    def within(_: Filter) -> Search:
        raise AssertionError("nothing is to be searched")

    described = FieldSearch(list_fields(documents), within).describe(question)
    return propose_filter_offline(None, sample=0, question=question, fields=described)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "filter_"),
    [
        ("What does Acme pay?", "tenant=Acme"),
        ("Acme pays what?", "tenant=Acme"),
        ("What does ACME NORD pay?", 'tenant="Acme Nord"'),
        ("What do Acme and Acme Nord pay?", 'tenant in Acme|"Acme Nord"'),
        ("What does the tenant brass pay?", "tenant=brass"),
        ("What does the Harbour Act say?", 'tags="Harbour Act"'),
        ("What was signed in 2021?", "signed>=2021-01-01 and signed<=2021-12-31"),
        ("Who paid before May 2021?", "signed<=2021-04-30"),
        ("Who had a total of 1200 tenants in 2021?", "signed>=2021-01-01 and signed<=2021-12-31"),
        ("What does Acme pay since 2020?", "tenant=Acme and signed>=2020-01-01"),
    ],
)
def test_names_and_periods_in_the_question_are_conditions(question: str, filter_: str) -> None:
    assert parse_filter(propose(question, DEEDS), TYPES) == parse_filter(filter_, TYPES)


@pytest.mark.parametrize(
    "question",
    ["When is the rent due?", "Rent is due when?", "Who polishes brass?", "Who pays the Acmeist?", "", "Who may sign?"],
)
def test_words_that_are_no_names_are_no_conditions(question: str) -> None:
    assert propose(question, DEEDS) == ""


def test_a_period_is_that_of_the_field_the_question_names_or_of_the_only_one() -> None:
    year, signed, due = ({"year": 2021.0}, {"signed": date(2021, 5, 1)}, {"due": date(2022, 5, 1)})
    question = "What happened in May 2021?"
    of_year, of_signed = "year >= 2021 and year <= 2021", "signed >= 2021-05-01 and signed <= 2021-05-31"
    assert propose(question, [year]) == of_year
    assert propose(question, [year | signed]) == of_signed
    assert propose(question, [year | signed | due]) == of_year
    assert propose(question, [signed | due]) == ""
    assert propose("What was signed in May 2021?", [year | signed | due]) == of_signed
    assert propose(question, [{"volume": 7.0}]) == ""


@given(st.text(max_size=60))
def test_what_is_proposed_can_be_read(question: str) -> None:
    proposed = propose(question, DEEDS)
    assert not proposed or parse_filter(proposed, TYPES)


# --- what a proposal does --------------------------------------------------------------------------------------------

QUESTION = Question("Who pays?")
CHUNKS = tuple(Chunk(f"a:{number}", "a", number, 0, 1, "x") for number in range(9))
FILTERED, PLAIN = hits_of(CHUNKS, [0.5, 0.4]), hits_of(CHUNKS, [0.9] * 9)


def run(reply: str, *, found: Hits = FILTERED, documents: Any = DEEDS, **parameters: Any) -> tuple[Hits, int]:
    """The hits of a model that replies so, and how often it was asked."""
    model = ScriptedModel({"propose_filter": [reply]})
    search = FieldSearch(list_fields(documents), lambda _: fake_search(found))
    return self_query(QUESTION, fake_search(PLAIN), language_model=model, field_search=search, **parameters), len(
        model.calls
    )


def test_the_hits_are_those_of_the_proposed_filter() -> None:
    assert run("tenant=Acme") == (FILTERED, 1)


@pytest.mark.parametrize("reply", ["", "landlord=Acme", "signed>=soon", "who knows"])
def test_without_a_filter_that_can_be_read_the_question_is_searched(reply: str) -> None:
    assert run(reply) == (PLAIN, 1)


def test_a_filter_that_admits_too_little_was_a_wrong_guess() -> None:
    assert run("tenant=Acme", found=()) == (PLAIN, 1)
    assert run("tenant=Acme", min_hits=3) == (PLAIN, 1)
    assert run("tenant=Acme", min_hits=2) == (FILTERED, 1)


def test_a_retriever_that_finds_no_more_without_the_filter_is_no_sign_of_a_wrong_guess() -> None:
    model = ScriptedModel({"propose_filter": ["tenant=Acme"]})
    search, plain = FieldSearch(list_fields(DEEDS), lambda _: fake_search(FILTERED)), hits_of(CHUNKS[5:7], [0.9, 0.8])
    assert self_query(QUESTION, fake_search(plain), language_model=model, field_search=search, min_hits=5) == FILTERED


@pytest.mark.parametrize(
    ("operator", "value", "values"),
    [
        ("=", 'The "Blue" Inn', ('The "Blue" Inn',)),
        ("=", "C:\\deeds", ("C:\\deeds",)),
        ("=", "on | off", ("on | off",)),
        ("in", 'a "b"|c d', ('a "b"', "c d")),
    ],
)
def test_values_in_json_may_have_marks_of_the_language(operator: str, value: str, values: tuple[str, ...]) -> None:
    reply = json.dumps({"conditions": [{"field": "tenant", "operator": operator, "value": value}]})
    assert parse_filter(PROPOSE_FILTER.read(reply), TYPES).conditions == (Condition("tenant", "in", values),)


def test_below_a_weight_of_1_the_search_without_the_filter_has_the_rest() -> None:
    plain = hits_of(CHUNKS[1:4], [0.9, 0.7, 0.5])
    model = ScriptedModel({"propose_filter": ["tenant=Acme"]})
    search = FieldSearch(list_fields(DEEDS), lambda _: fake_search(hits_of(CHUNKS, [0.5, 0.4, 0.1])))
    hits = self_query(QUESTION, fake_search(plain), language_model=model, field_search=search, weight=0.75)
    scores = {hit.chunk.id: hit.score for hit in hits}
    assert scores == pytest.approx({"a:0": 0.75, "a:1": 0.75 * 0.75 + 0.25, "a:2": 0.125, "a:3": 0})
    assert {hit.scale for hit in hits} == {Scale.CONVEX}


def test_without_fields_no_model_is_asked() -> None:
    assert run("tenant=Acme", documents=[{}, {}]) == (PLAIN, 0)


# --- in a pipeline ---------------------------------------------------------------------------------------------------

CORPUS = make_corpus(60)
MODELS = make_models(CORPUS)


def pipeline(expansion: str, retrieval: str = "hybrid") -> Candidate:
    genes = {gene.technique.family: gene for gene in baseline("naive")}
    genes |= {
        name: make_gene(name, option) for name, option in (("query_expansion", expansion), ("retrieval", retrieval))
    }
    return tuple(genes.values())


def hits_for(engine: Engine, candidate: Candidate, question: Question) -> Hits:
    return engine.rank(candidate, question).outputs["query_expansion"].value  # type: ignore[no-any-return]


@pytest.mark.parametrize("retrieval", ["bm25", "vector", "hybrid", "nest", "complete_hybrid"])
def test_a_proposed_filter_answers_as_if_the_question_had_it(retrieval: str) -> None:
    engine, text = Engine(CORPUS, MODELS, Gateway()), "Which deed of Coralind was signed in 2019?"
    proposed = parse_filter("tenant=Coralind and signed>=2019-01-01 and signed<=2019-12-31", TYPES)
    found = hits_for(engine, pipeline("self_query", retrieval), Question(text))
    assert found
    assert found == hits_for(engine, pipeline("none", retrieval), Question(text, proposed))


def test_a_proposed_filter_never_widens_that_of_the_asker() -> None:
    engine = Engine(CORPUS, MODELS, Gateway())
    seen = set()
    for tenant in TENANTS:
        for other in TENANTS:
            for text in (f"What does {other} lease in 2019?", f"Which deed of {other} was signed before 2030?"):
                hits = hits_for(engine, pipeline("self_query"), Question(text, filter_of(tenant)))
                assert {CORPUS.documents[hit.chunk.doc].fields["tenant"] for hit in hits} == {tenant}
                seen.add(hits != hits_for(engine, pipeline("none"), Question(text, filter_of(tenant))))
    assert seen == {True, False}  # some proposals narrowed it


def test_a_model_learns_nothing_of_what_the_asker_may_not_see() -> None:
    tenant, *others = TENANTS
    model = ScriptedModel({"propose_filter": [f"tenant={others[0]}"]})
    engine = Engine(CORPUS, replace(MODELS, controller=model), Gateway())
    hits = hits_for(engine, pipeline("self_query"), Question("Who pays?", filter_of(tenant)))
    assert {CORPUS.documents[hit.chunk.doc].fields["tenant"] for hit in hits} == {tenant}
    [call] = model.calls
    described = repr(call.inputs["fields"])
    assert tenant in described
    assert not [other for other in others if other in described]


def test_without_fields_a_pipeline_is_that_without_expansion() -> None:
    bare = Corpus([Document(d.id, d.title, d.text) for d in CORPUS.documents.values()], CORPUS.chunks)
    engine = Engine(bare, MODELS, Gateway())
    for text in make_questions(5):
        first = engine.answer(pipeline("none"), Question(text))
        stages = len(engine.stages)
        second = engine.answer(pipeline("self_query"), Question(text))
        assert {name: output.number for name, output in second.outputs.items()} == {
            name: output.number for name, output in first.outputs.items()
        }
        assert len(engine.stages) == stages + 1  # the expansion itself: all later stages are those of the other one
        assert second.usage == first.usage
