from ragsmith.index.index import Index
from ragsmith.techniques.pre_embedding.parent_document import parent_document
from ragsmith.techniques.retrieval.bm25 import bm25
from ragsmith.types import Scale


def test_rare_words_decide(index):
    hits, bells = bm25(index, ("covered market", "bells"))
    assert hits[0].chunk.id == "guild:2"
    assert {hit.scale for hit in hits} == {Scale.BM25}
    assert {hit.chunk.id for hit in bells} == {"harbour:1", "flood:1"}  # stemmed


def test_chunks_without_a_common_word_are_not_found(index):
    assert bm25(index, ("xylophone", "the of", "")) == ((), (), ())


def test_k_counts_chunks_not_keys(chunks):
    hits = bm25(Index(parent_document(chunks, window=1)), ("the harbour and the guild of Velmouth",), k=3)[0]
    assert len(hits) == len({hit.chunk.id for hit in hits}) == 3
