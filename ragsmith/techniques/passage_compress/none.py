"""No compression."""

from ragsmith.techniques.families import passage_compress
from ragsmith.types import Passages, Question


@passage_compress(paper="https://arxiv.org/abs/2511.01386")
def none(question: Question, passages: Passages) -> Passages:
    """Return the passages unchanged."""
    return passages
