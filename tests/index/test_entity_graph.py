from __future__ import annotations

import math
import pickle

import pytest

from ragsmith.index.entity_graph import EntityGraph, Relation, Triple, build_graph, format_passage, make_entity_id
from ragsmith.models.embedded.extractive import ExtractiveModel
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.testing import ScriptedModel, example_chunks
from ragsmith.types import Chunk, Scale


def chunks_of(*texts: str) -> tuple[Chunk, ...]:
    return tuple(Chunk(f"d:{i}", "d", i, 0, len(text), text) for i, text in enumerate(texts))


def matched(graph: EntityGraph, text: str) -> dict[str, float]:
    """The entities whose names are like ``text``, best first, and how much."""
    nodes, scores = graph._match_entities(graph._correct_terms(text))
    found = zip((graph._names[node] for node in nodes), scores.tolist(), strict=True)
    return dict(sorted(found, key=lambda one: -one[1]))


@pytest.fixture
def graph() -> EntityGraph:
    chunks = chunks_of(
        "Tarrel led the Salt Guild.", "The Salt Guild owns salt pans.", "Salt pans lie north.", "Rain fell."
    )
    triples: list[tuple[Triple, ...]] = [
        (("Oswin Tarrel", "led", "Salt Guild"),),
        (("The Salt Guilds", "owns", "salt pans"),),
        (("salt pans", "lie", "north"),),
        (),
    ]
    return EntityGraph(chunks, triples)


@pytest.fixture(scope="module")
def velmouth() -> EntityGraph:
    chunks = example_chunks()
    return build_graph(chunks, ExtractiveModel([chunk.text for chunk in chunks], WordLlamaEmbedder()))


def test_an_entity_is_known_by_its_normalised_name() -> None:
    assert make_entity_id("The Salt Guilds") == make_entity_id("salt guild")
    assert make_entity_id("The Who") == "the who"
    assert make_entity_id("...") == ""
    assert EntityGraph(chunks_of("a"), [(("--", "is", "y"),)]).entities == {}


def test_spellings_of_one_entity_are_one_node(graph: EntityGraph) -> None:
    assert set(graph.entities) == {"oswin tarrel", "salt guild", "salt pan", "north"}
    assert graph.relations[1] == Relation("salt guild", "owns", "salt pan", "d:1")


def test_match_is_the_cosine_of_idf_weighted_terms(graph: EntityGraph) -> None:
    def idf(n: int) -> float:
        return math.log(1 + (4 - n + 0.5) / (n + 0.5))

    # "salt" is in three of the four chunks; "guild" in two
    salt, guild, pan = idf(3), idf(2), idf(2)
    found = matched(graph, "salt guild")
    assert found["salt guild"] == pytest.approx(1.0)
    assert found["salt pan"] == pytest.approx(salt**2 / (math.hypot(salt, pan) * math.hypot(salt, guild)), abs=1e-6)
    assert "north" not in found


def test_ordinary_words_match_next_to_nothing(velmouth: EntityGraph) -> None:
    found = matched(velmouth, "Which ship rang the bell of the Tide Tower?")
    assert next(iter(found)) == "tide tower"
    assert all(score < 0.5 for entity, score in found.items() if "tide" not in entity and "bell" not in entity)


def test_a_misspelt_name_is_matched_by_its_letters(velmouth: EntityGraph) -> None:
    assert next(iter(matched(velmouth, "What did Tarrell build?"))) == "oswin tarrel"
    assert velmouth.search("Tarrell", 1)[0].chunk.id in {"guild:2", "flood:2"}
    assert matched(velmouth, "zzzzzzzz qqqqqqq") == {}


def test_search_finds_what_is_said_about_the_entities_first(velmouth: EntityGraph) -> None:
    hits = velmouth.search("Who was warden of the Salt Guild?", 3)
    assert hits[0].chunk.id == "guild:2"
    assert {hit.scale for hit in hits} == {Scale.GRAPH}
    assert list(hits) == sorted(hits, key=lambda hit: (-hit.score, hit.chunk.id))
    assert len({hit.chunk.id for hit in hits}) == 3
    assert pickle.loads(pickle.dumps(velmouth)).search("Who was warden of the Salt Guild?", 3) == hits


def test_search_walks_to_neighbours_of_what_is_asked(graph: EntityGraph) -> None:
    found = [hit.chunk.id for hit in graph.search("Does what Oswin Tarrel led own salt pans?", 10, seeds=1)]
    assert "d:1" in found  # says nothing of Tarrel, but of the guild he led
    assert "d:3" not in found


@pytest.mark.parametrize("text", ["", "?", "the of and", "xylophone quartz"])
def test_a_question_without_known_entities_finds_nothing(velmouth: EntityGraph, text: str) -> None:
    assert velmouth.search(text, 5) == ()
    assert velmouth.facts(text) == ()
    assert matched(velmouth, text) == {}
    assert EntityGraph((), []).search(text, 3) == ()


def test_facts_are_sentences_each_once(velmouth: EntityGraph) -> None:
    facts = velmouth.facts("Why does the Salt Guild pay no harbour dues?", 3)
    assert facts[0].startswith("The Salt Guild pays no dues, because Countess Isaura Brandt")
    assert len(set(facts)) == 3


def test_facts_of_a_chat_model_name_both_ends(graph: EntityGraph) -> None:
    assert graph.facts("Who led the Salt Guild?", 1) == ("Oswin Tarrel led Salt Guild",)


def test_a_graph_depends_on_content_not_on_order(graph: EntityGraph) -> None:
    chunks = example_chunks()
    model = ExtractiveModel([chunk.text for chunk in chunks], WordLlamaEmbedder())
    forward, backward = build_graph(chunks, model), build_graph(chunks[::-1], model)
    assert forward.id == backward.id != graph.id
    question = "Who repaid the loan of Oswin Tarrel?"
    assert forward.search(question, 5) == backward.search(question, 5)
    assert forward.relations == backward.relations


def test_changing_a_relation_changes_the_identity() -> None:
    chunks = chunks_of("a", "b")
    first = EntityGraph(chunks, [(("x", "is", "y"),), ()])
    assert first.id != EntityGraph(chunks, [(("x", "was", "y"),), ()]).id
    assert first.id != EntityGraph(chunks, [(), (("x", "is", "y"),)]).id


def test_each_chunk_is_read_once_below_its_heading() -> None:
    chunks = example_chunks()
    model = ScriptedModel({"extract_relations": [(("Velmouth", "has", "harbour"),)] * len(chunks)})
    graph = build_graph(chunks, model)
    assert model.count("extract_relations") == len(chunks)
    assert model.calls[1].inputs["passage"] == f"The bell — The harbour of Velmouth\n\n{chunks[1].text}"
    assert len(graph.relations) == len(chunks)
    assert format_passage(chunks_of("text")[0]) == "text"
