"""No reranking: the order of the first stage is unchanged."""

from ragsmith.techniques.families import reranking
from ragsmith.techniques.fusion import rank
from ragsmith.types import Hits, Question


@reranking(paper="https://arxiv.org/abs/2511.01386")
def none(question: Question, hits: Hits) -> Hits:
    """Keep the order of the first stage.

    Raises ``ScaleError`` for candidates of different scales, which have no order.
    """
    return rank(hits)
