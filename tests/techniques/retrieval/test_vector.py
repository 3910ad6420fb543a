import numpy as np

from ragsmith.index.index import Index
from ragsmith.techniques.pre_embedding.none import none
from ragsmith.techniques.retrieval.vector import vector
from ragsmith.types import Scale


def test_each_query_has_its_own_ranking_by_cosine(index, embedder, chunks):
    queries = ("Who rings the bell?", "How long is a warden elected?")
    rankings = vector(index, queries, embedder=embedder, k=4)
    assert [len(hits) for hits in rankings] == [4, 4]
    cosines = embedder.embed(queries) @ embedder.embed([chunk.text for chunk in chunks]).T
    for row, hits in zip(cosines, rankings, strict=True):
        assert hits[0].chunk == chunks[int(np.argmax(row))]
        assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
        assert {hit.scale for hit in hits} == {Scale.COSINE}


def test_k_may_exceed_the_corpus(index, embedder, chunks):
    assert len(vector(index, ("bell",), embedder=embedder, k=99)[0]) == len(chunks)


def test_no_queries_and_no_chunks(index, embedder):
    assert vector(index, (), embedder=embedder) == ()
    assert vector(Index(none(())), ("bell",), embedder=embedder) == ((),)
