"""A model that embeds queries otherwise than documents is asked for the question's vector as a query's."""

import pytest

from ragsmith.index.index import Index
from ragsmith.models.embedded.wordllama import WordLlamaEmbedder
from ragsmith.techniques.passage_filter.nr import nr
from ragsmith.techniques.query_expansion.compositional_router import observe
from ragsmith.techniques.query_expansion.entropy_router import entropy_router
from ragsmith.techniques.retrieval.graph_ppr import graph_ppr
from ragsmith.techniques.retrieval.hybrid import hybrid
from ragsmith.techniques.retrieval.nest import nest
from ragsmith.techniques.retrieval.vector import vector
from ragsmith.testing import ScriptedModel
from ragsmith.types import Fitted, Gold, IndexEntry, Question

QUESTION = Question("Who rings the bell of Velmouth?")


class Asymmetric:
    """Puts a prefix of its own in front of queries, and notes what it was asked for as which."""

    id = "asymmetric"

    def __init__(self):
        self._model = WordLlamaEmbedder()
        self.documents = []
        self.queries = []

    def embed(self, texts):
        self.documents += texts
        return self._model.embed(texts)

    def embed_queries(self, texts):
        self.queries += texts
        return self._model.embed([f"query: {text}" for text in texts])


@pytest.mark.parametrize("retrieval", [vector, hybrid, nest, graph_ppr])
def test_retrieval_embeds_queries_as_queries(chunks, retrieval):
    embedder = Asymmetric()
    retrieval(Index(tuple(IndexEntry((c.text,), c) for c in chunks)), (QUESTION.text, "a bell"), embedder=embedder)
    assert embedder.queries == [QUESTION.text, "a bell"]
    assert sorted(set(embedder.documents)) == sorted(chunk.text for chunk in chunks)


def test_a_filter_embeds_the_question_as_a_query(hits):
    embedder, found = Asymmetric(), hits([0.9, 0.8, 0.7])
    nr(QUESTION, found, embedder=embedder)
    assert embedder.queries == [QUESTION.text]
    assert set(embedder.documents) == {hit.chunk.text for hit in found}


@pytest.mark.parametrize("router", ["entropy", "compositional"])
def test_a_router_embeds_the_question_as_a_query(hits, search, router):
    embedder, found = Asymmetric(), hits([0.9, 0.8, 0.7])
    said = {"imagine_passage": ["a bell"], "broader_question": ["What rings?"]}
    model = ScriptedModel(said)
    if router == "entropy":
        entropy_router(QUESTION, search(found), language_model=model, embedder=embedder, fitted=Fitted({}))
    else:
        gold = Gold(frozenset({found[0].chunk.id}))
        observe(QUESTION, search(found), language_model=model, embedder=embedder, gold=gold, depth=20)
    assert set(embedder.queries) == {QUESTION.text}
    assert set(embedder.documents) == {hit.chunk.text for hit in found}
