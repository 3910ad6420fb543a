"""Oracle router: choose the best search strategy by the gold labels ("Beyond the Reranker", Singh et al.)."""

from collections.abc import Callable, Iterable
from collections.abc import Set as AbstractSet
from functools import partial

from ragsmith.measures.rankings import average_precision, ndcg_at, recall_at, reciprocal_rank, success_at
from ragsmith.models.protocols import LanguageModel
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.keyword_router import STRATEGIES, search_by_strategy
from ragsmith.types import Gold, Hits, Question, Search

CUTOFF = 10
"""Number of hits that metrics with a cutoff consider."""

_METRICS: dict[str, Callable[[Iterable[str], AbstractSet[str]], float]] = {
    "ndcg": partial(ndcg_at, k=CUTOFF),
    "recall": partial(recall_at, k=CUTOFF),
    "success": partial(success_at, k=CUTOFF),
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
    """Search by the strategy whose hits have the best ``metric`` by the gold labels.

    For analysis only: it is an upper bound of the gain of routing among plain search, ``dual_path`` and ``step_back``,
    and no pipeline can contain it. Costs the calls of both. ``metric`` is computed on the hits that this stage returns:
    nDCG, recall and success of the first 10, average precision and reciprocal rank of all. A tie goes to ``ties`` if
    that is among the best, else to the cheaper strategy; a question without gold goes to ``ties``.

    It is a bound only of its own metric. The paper presents its oracle on nDCG as a bound of answer F1, where it is
    below a fixed strategy. Its ties, most of its questions, go to the plain search; set ``ties`` to the best fixed
    strategy. The maximum of three noisy scores is biased upwards: compare with an oracle over three runs of one
    strategy.
    """
    order = (ties, *(strategy for strategy in STRATEGIES if strategy != ties))
    if not gold.relevant:
        return search_by_strategy(ties, question, search, language_model=language_model, depth=depth)
    rankings = [
        search_by_strategy(strategy, question, search, language_model=language_model, depth=depth) for strategy in order
    ]
    return max(rankings, key=lambda hits: _METRICS[metric]([hit.chunk.id for hit in hits], gold.relevant))
