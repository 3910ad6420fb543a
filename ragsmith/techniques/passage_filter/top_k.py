"""Top k: keep the best-scored candidates."""

from ragsmith.plugins import Count
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.types import Hits, Question


@passage_filter(paper="https://arxiv.org/abs/2511.01386", choices={"k": (3, 5, 10)})
def top_k(question: Question, hits: Hits, *, k: Count = 10) -> Hits:
    """Keep the ``k`` best candidates.

    Helps as a simple limit on the context. Costs nothing. Candidates are ordered by the score of the last stage, e.g. a
    reranker; the original system uses that of the first stage.
    """
    return rank(hits)[:k]
