from ragsmith.techniques.passage_augment.none import none
from ragsmith.testing import hits_of
from ragsmith.types import Passage, Question


def test_each_hit_is_a_passage_of_its_own(corpus, chunks):
    hits = hits_of(chunks[3:], [0.9, 0.5, 0.7])
    passages = none(corpus, Question("?"), hits)
    assert passages == tuple(Passage(hit.chunk.text, (hit.chunk.span,), hit.score) for hit in hits)
    assert all(corpus.text(passage.sources[0]) == passage.text for passage in passages)
