"""The option of a family that changes nothing."""

from ragsmith.techniques.passage_augment.none import none as not_augmented
from ragsmith.techniques.passage_compress.none import none as not_compressed
from ragsmith.techniques.post_generation.none import none as not_revised
from ragsmith.techniques.pre_embedding.none import none as not_enriched
from ragsmith.testing import hits_of
from ragsmith.types import Answer, IndexEntry, Passage, Prompt, Question

QUESTION = Question("?")


def test_chunks_are_indexed_read_and_answered_from_as_they_are(corpus, chunks):
    assert not_enriched(chunks) == tuple(IndexEntry((chunk.text,), chunk) for chunk in chunks)
    hits = hits_of(chunks[3:], [0.9, 0.5, 0.7])
    passages = not_augmented(corpus, QUESTION, hits)
    assert passages == tuple(Passage(hit.chunk.text, (hit.chunk.span,), hit.score) for hit in hits)
    assert all(corpus.text(passage.sources[0]) == passage.text for passage in passages)
    assert not_compressed(QUESTION, passages) == passages
    draft = Answer("In 1598.", (0,))
    assert not_revised(QUESTION, Prompt("", ()), draft) is draft
