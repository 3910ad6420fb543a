"""SSCC over a pool: each hit is accepted by a threshold on the scale of its source, then fused (Singh et al.)."""

from collections.abc import Mapping, Sequence
from typing import Any

from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.index import Index
from ragsmith.models.protocols import Embedder, LanguageModel
from ragsmith.plugins import Count
from ragsmith.techniques.acceptance import OBJECTIVES, PUBLISHED, fit_thresholds
from ragsmith.techniques.families import retrieval
from ragsmith.techniques.fusion import convex_combination, reciprocal_rank_fusion
from ragsmith.techniques.query_expansion.query_rewriting import REWRITE
from ragsmith.techniques.registry import Fitting
from ragsmith.techniques.retrieval.complete_hybrid import search_sources
from ragsmith.types import Fitted, Gold, Hits, Queries, Rankings

SHARES = (0.4, 0.4, 0.2)
"""Shares of vectors, BM25 and the graph in a convex score, as in ``complete_hybrid``."""


def observe(
    index: Index, queries: Queries, *, embedder: Embedder, entity_graph: EntityGraph, gold: Gold, pool: int
) -> list[list[Any]]:
    """Return ``[scale, score, relevant]`` of every hit of every source."""
    return [
        [str(hit.scale), hit.score, hit.chunk.id in gold.relevant]
        for sources in search_sources(index, queries, embedder, entity_graph, pool)
        for hits in sources
        for hit in hits
    ]


def solve(observations: Sequence[Sequence[Sequence[Any]]], *, thresholds: str) -> dict[str, Any]:
    """Fit one threshold for each scale; scales of which all hits should be accepted have none."""
    return {"thresholds": fit_thresholds(observations, thresholds)}


@retrieval(
    paper="Singh et al., Beyond the Reranker",
    choices={"thresholds": (*OBJECTIVES, "published"), "fusion": ("convex", "rrf"), "query_again": (True, False)},
    fitting=Fitting(observe, solve, when={"thresholds": OBJECTIVES}),
    most_chunks=300_000,
)
def sscc_pool(
    index: Index,
    queries: Queries,
    *,
    language_model: LanguageModel,
    embedder: Embedder,
    entity_graph: EntityGraph,
    fitted: Fitted,
    thresholds: str = "recall",
    fusion: str = "convex",
    query_again: bool = True,
    pool: Count = 60,
    k: Count = 20,
) -> Rankings:
    """Pool the hits of vectors, BM25 and the entity graph, and accept those that reach the threshold of their scale.

    Helps when a source finds nothing useful for some questions, which a fusion of ranks cannot recognise. Costs an
    embedding per query, and a call if nothing is accepted. Each source returns ``pool`` hits with its own score:
    cosine, BM25, evidence in the graph. A hit is accepted if score >= tau(scale); all hits of a scale without threshold
    are accepted. If none is accepted, the query is rewritten once and searched again (``query_again``); if none is
    accepted then, the first pool is returned. Accepted hits are fused by scores that are min-max scaled in their list
    (``convex``; vectors and BM25 0.4 each, the graph 0.2), or by reciprocal rank.

    ``thresholds`` are fitted on search questions: ``recall``, the highest that accept 95 % of the relevant hits of a
    source, was the best of the three objectives on search questions of six data sets, with ``convex`` and a ``pool`` of
    60. Balanced accuracy and F2 are far stricter, as nearly all hits are irrelevant.

    Differences from the paper: its thresholds follow a reranker, which has put all scores on one scale, so that there
    is nothing to calibrate by source, and they were never fitted. ``published`` are the constants of its code: 0.5 for
    1 / (1 + squared L2), which unit vectors with the cosine 0.5 have, and none for other sources. Its formula tau(s) =
    tau_0 (1 + alpha [s is bi-encoder]) has two parameters whose values it does not give.
    """
    thresholds_by_scale = PUBLISHED if thresholds == "published" else fitted.numbers["thresholds"]
    rankings: list[Hits] = []
    for query, sources in zip(queries, search_sources(index, queries, embedder, entity_graph, pool), strict=True):
        accepted = _accept(sources, thresholds_by_scale)
        if query_again and not any(accepted):
            rewritten = language_model.run(REWRITE, question=query)
            [second_sources] = search_sources(index, (rewritten,), embedder, entity_graph, pool)
            accepted = _accept(second_sources, thresholds_by_scale)
        lists = accepted if any(accepted) else sources
        rankings.append((reciprocal_rank_fusion(lists) if fusion == "rrf" else convex_combination(lists, SHARES))[:k])
    return tuple(rankings)


def _accept(sources: Sequence[Hits], taus: Mapping[str, float]) -> list[Hits]:
    """Return the hits of each source that reach the threshold of their scale: h with h.score >= tau(h.scale)."""
    return [hits[: sum(hit.score >= taus.get(str(hit.scale), hit.score) for hit in hits)] for hits in sources]
