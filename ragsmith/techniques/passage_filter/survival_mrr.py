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
    """Keep the ``k`` candidates with the best survival score over NEST's scopes, independently of later reordering.

    Helps when a reranker or several queries reorder the hits, and the ranks at document, section and chunk level should
    still determine the selection. Costs nothing. Only after ``nest``, which records the ranks; scores and order of the
    candidates are unchanged. A candidate of several queries has its best rank in each scope.

    The score is MRR, the mean of 1/rank over the scopes where a chunk was retrieved (``mean_present``). ``mean_all``
    divides by the number of all scopes, which penalises missing ones; ``rrf60`` and ``depth_weighted`` are those of
    ``nest``. Ties go to more scopes, then the best rank, then the rank in the deepest scope. ``nr_survival`` also
    considers redundancy.

    Differences from the paper: there, as in ``nest``, one score both ranks and selects; directly after a ``nest`` with
    the same ``aggregate`` this is ``top_k``. The default is the published one: after ``nest`` and a cross-encoder, it
    loses no more recall than ``mean_all`` on the search questions of six of seven data sets.
    """
    order = rank(hits)
    present = {scope for hit in order for scope, _ in hit.survival}
    if order and not present:
        raise ValueError(
            "passage_filter.survival_mrr: no candidate has a survival profile; use it after retrieval.nest"
        )
    scopes = 3 if "section" in present else 2 if "document" in present else 1

    def sort_key(hit: Hit) -> tuple[float, int, int, int]:
        if not hit.survival:  # a hit of another source
            return 0.0, 0, 0, 0
        value = round(aggregate_survival(hit.survival, scopes, aggregate), 9)
        return value, len(hit.survival), -min(rank for _, rank in hit.survival), -hit.survival[-1][1]

    kept = sorted(range(len(order)), key=lambda i: sort_key(order[i]), reverse=True)[:k]
    return tuple(order[i] for i in sorted(kept))
