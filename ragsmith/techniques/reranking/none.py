"""No reranking: the order of the first stage stands."""

from ragsmith.techniques.families import reranking
from ragsmith.techniques.fusion import rank
from ragsmith.types import Hits, Question


@reranking(paper="https://arxiv.org/abs/2511.01386")
def none(question: Question, hits: Hits) -> Hits:
    """Keep the order of the first stage.

    Candidates of different scales have no order and are refused (``ScaleError``).
    """
    return rank(hits)
