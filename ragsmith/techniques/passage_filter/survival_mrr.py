"""NR-MRR: keep the chunks with the best mean reciprocal rank over NEST's scopes (NEST, Verma et al., Algorithm 1)."""

from ragsmith.plugins import Count
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.techniques.retrieval.nest import AGGREGATES, aggregate_survival
from ragsmith.types import Hit, Hits, Question


@passage_filter(
    paper="Verma et al., Nested Evidence Survival for Retrieval",
    choices={"aggregate": AGGREGATES, "k": (5, 10)},
    after={"retrieval": ("nest",)},
)
def survival_mrr(question: Question, hits: Hits, *, aggregate: str = "mean_present", k: Count = 10) -> Hits:
    """Keep the ``k`` candidates that survived best across NEST's scopes, whatever reordered them since.

    Helps when a reranker or several queries order the hits, and being found as document, section and chunk should still
    decide what is read. Costs nothing. Only after ``nest``, which writes the ranks that are read; candidates keep their
    scores, and so their order. A candidate of several queries has its best rank of each scope.

    The score is MRR, the mean of 1/rank over the scopes where a chunk was found (``mean_present``). ``mean_all``
    divides by all scopes, so that losing a chunk costs something; ``rrf60`` and ``depth_weighted`` are those of
    ``nest``. Ties go to more scopes, then the best rank, then that at the deepest scope. ``nr_survival`` also considers
    redundancy.

    Differences from the paper: there the same score ranks and cuts at once, as ``nest`` does; directly after a ``nest``
    of the same ``aggregate`` this is ``top_k``. The default is as published: it loses no more than ``mean_all`` after
    ``nest`` and a cross-encoder on the search questions of six data sets of seven.
    """
    order = rank(hits)
    found = {scope for hit in order for scope, _ in hit.survival}
    if order and not found:
        raise ValueError(
            "passage_filter.survival_mrr: no candidate has a survival profile; use it after retrieval.nest"
        )
    scopes = 3 if "section" in found else 2 if "document" in found else 1

    def survives(hit: Hit) -> tuple[float, int, int, int]:
        if not hit.survival:  # it came from elsewhere
            return 0.0, 0, 0, 0
        value = round(aggregate_survival(hit.survival, scopes, aggregate), 9)
        return value, len(hit.survival), -min(rank for _, rank in hit.survival), -hit.survival[-1][1]

    kept = sorted(range(len(order)), key=lambda i: survives(order[i]), reverse=True)[:k]
    return tuple(order[i] for i in sorted(kept))
