from ragsmith.index.index import Index
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.techniques.retrieval.graph import graph
from ragsmith.types import Scale


def test_each_query_finds_the_chunks_about_its_entities(index, entity_graph):
    warden, bell, nothing = graph(
        index,
        ("Who was warden of the Salt Guild?", "Who rings in the Tide Tower?", "xylophone"),
        entity_graph=entity_graph,
    )
    assert warden[0].chunk.id == "guild:2"
    assert bell[0].chunk.id == "harbour:1"
    assert nothing == ()
    assert {hit.scale for hit in warden + bell} == {Scale.GRAPH}


def test_the_list_is_cut_at_k(index, entity_graph):
    assert len(graph(index, ("the Salt Guild of Velmouth",), entity_graph=entity_graph, k=2)[0]) == 2


def test_more_seeds_reach_further(index, entity_graph):
    query = ("Why did the Salt Guild, Oswin Tarrel and Countess Isaura Brandt need the sea wall?",)
    few, many = (len(graph(index, query, entity_graph=entity_graph, seeds=n)[0]) for n in (1, 20))
    assert few < many


def test_chunks_that_are_not_indexed_are_not_found(chunks, entity_graph):
    part = Index(none(tuple(chunk for chunk in chunks if chunk.doc == "flood")))
    hits = graph(part, ("the Salt Guild and Oswin Tarrel",), entity_graph=entity_graph)[0]
    assert {hit.chunk.doc for hit in hits} == {"flood"}
