"""No augmentation: each hit is a passage."""

from ragsmith.index.index import Corpus
from ragsmith.techniques.families import passage_augment
from ragsmith.types import Hits, Passage, Passages, Question


@passage_augment(paper="https://arxiv.org/abs/2511.01386")
def none(corpus: Corpus, question: Question, hits: Hits) -> Passages:
    """Return each hit as a passage, in rank order."""
    return tuple(Passage(hit.chunk.text, hit.chunk.spans, hit.score) for hit in hits)
