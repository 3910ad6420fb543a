"""No compression: passages are read whole."""

from ragsmith.techniques.families import passage_compress
from ragsmith.types import Passages, Question


@passage_compress(paper="https://arxiv.org/abs/2511.01386")
def none(question: Question, passages: Passages) -> Passages:
    """Read the passages whole."""
    return passages
