"""Oracle router: search in the way that scores best by the gold labels ("Beyond the Reranker", Singh et al.)."""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from functools import partial

from ragsmith.measures.rankings import average_precision, ndcg_at, recall_at, reciprocal_rank, success_at
from ragsmith.models.protocols import LanguageModel
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.keyword_router import STRATEGIES, searched_by
from ragsmith.types import Gold, Hits, Question, Search

CUT = 10

_METRICS: dict[str, Callable[[Iterable[str], AbstractSet[str]], float]] = {
    "ndcg": partial(ndcg_at, k=CUT),
    "recall": partial(recall_at, k=CUT),
    "success": partial(success_at, k=CUT),
    "average_precision": average_precision,
    "reciprocal_rank": reciprocal_rank,
}


@query_expansion(
    paper="Singh et al., Beyond the Reranker",
    choices={"metric": tuple(_METRICS), "ties": STRATEGIES},
)
def oracle_router(
    question: Question,
    search: Search,
    *,
    language_model: LanguageModel,
    gold: Gold,
    metric: str = "ndcg",
    ties: str = "semantic",
    depth: Count = 20,
) -> Hits:
    """Search in the way whose hits score best on ``metric`` by the gold labels.

    For analysis only: it bounds the gain of routing among plain search, ``dual_path`` and ``step_back``, and no
    pipeline can contain it. Costs the calls of both. ``metric`` is computed on the hits that this stage returns: nDCG,
    recall and success of the first 10, average precision and reciprocal rank of all. A tie goes to ``ties`` if that is
    among the best, else to the cheaper; a question without gold goes to ``ties``.

    It bounds only its own metric. The paper presents its oracle on nDCG as a bound on answer F1, where it is below a
    fixed strategy. Its ties, most of its questions, go to the plain search; set ``ties`` to the best fixed strategy.
    The best of three noisy scores is too high: compare with an oracle over three runs of one strategy.
    """
    order = (ties, *(strategy for strategy in STRATEGIES if strategy != ties))
    if not gold.relevant:
        return searched_by(ties, question, search, language_model=language_model, depth=depth)
    pools = [searched_by(way, question, search, language_model=language_model, depth=depth) for way in order]
    return max(pools, key=lambda hits: _METRICS[metric]([hit.chunk.id for hit in hits], gold.relevant))
