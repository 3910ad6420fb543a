import pytest

from ragsmith.index.entity_graph import EntityGraph
from ragsmith.techniques.query_expansion.graph_expansion import graph_expansion
from ragsmith.testing import example_chunks, hits_of
from ragsmith.types import Question, Scale

QUESTION = Question("Whom did Oswin Tarrel lead?")
FACT = "Oswin Tarrel led Salt Guild"


@pytest.fixture
def graph():
    return EntityGraph(
        example_chunks()[:2], [[("Oswin Tarrel", "led", "Salt Guild")], [("Velmouth", "has", "harbour")]]
    )


def test_facts_are_searched_beside_the_question(graph, search, chunks):
    a, b, c = chunks[0], chunks[1], chunks[2]
    found = search({QUESTION.text: hits_of((a, b), [9, 1]), FACT: hits_of((c, b), [5, 4])})
    fused = graph_expansion(QUESTION, found, entity_graph=graph, weight=0.7)
    assert found.calls == [(QUESTION.text, FACT)]
    assert {hit.chunk.id: hit.score for hit in fused} == pytest.approx({a.id: 0.7, b.id: 0.0, c.id: 0.3})
    assert {hit.scale for hit in fused} == {Scale.CONVEX}


def test_facts_can_be_appended_to_the_question(graph, search, hits):
    found = search(hits([0.9, 0.5]))
    assert graph_expansion(QUESTION, found, entity_graph=graph, mode="append", depth=1) == hits([0.9])
    assert found.calls == [(f"{QUESTION.text} {FACT}",)]


@pytest.mark.parametrize("mode", ["fuse", "append"])
def test_a_question_without_known_entities_is_searched_as_it_is(graph, search, hits, mode):
    found = search(hits([0.9, 0.5]))
    assert graph_expansion(Question("Why?"), found, entity_graph=graph, mode=mode) == hits([0.9, 0.5])
    assert found.calls == [("Why?",)]


def test_a_question_that_is_the_fact_is_searched_once(graph, search, hits):
    assert graph_expansion(Question(FACT), search(hits([0.9])), entity_graph=graph) == hits([0.9])


def test_the_fused_list_is_cut(graph, search, hits):
    assert len(graph_expansion(QUESTION, search(hits([3, 2, 1])), entity_graph=graph, depth=2)) == 2
