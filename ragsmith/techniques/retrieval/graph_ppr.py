"""Chunk graph: hybrid search, extended by random walks from its best hits (GAHR, Singh et al.)."""

from typing import Annotated

import numpy as np

from ragsmith.index.chunk_graph import ChunkGraph, get_chunk_graph
from ragsmith.index.index import Index
from ragsmith.index.top import best_positions
from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Count, Range, Share
from ragsmith.techniques.families import retrieval
from ragsmith.techniques.fusion import convex_combination, rank
from ragsmith.techniques.retrieval.hybrid import hybrid
from ragsmith.types import Hit, Hits, Queries, Rankings, Scale

MAX_NEIGHBOURS = 20_000
"""Maximum number of neighbours of all nodes of a walk; 20 steps then take one or two milliseconds."""

SCORE_STEP = 1e-9
"""Amount subtracted from the score of an added chunk, to rank it after a candidate of equal score."""

SCORINGS = ("blended", "reserved")
"""How added chunks are scored: by a weighted mean, or by their place."""


@retrieval(
    paper="Singh et al., Beyond the Reranker",
    choices={
        "scoring": SCORINGS,
        "budget": (5, 10, 20),
        "weight": (0.3, 0.5),
        "restart": (0.15, 0.5),
        "threshold": (0.6, 0.7, 0.8),
    },
    most_chunks=300_000,
)
def graph_ppr(
    index: Index,
    queries: Queries,
    *,
    embedder: Embedder,
    scoring: str = "blended",
    budget: Count = 10,
    weight: Share = 0.3,
    restart: Share = 0.15,
    seeds: Count = 5,
    neighbours: Count = 16,
    threshold: Annotated[float, Range(-1, 1)] = 0.7,
    k: Count = 20,
) -> Rankings:
    """Add to the ``k`` chunks of hybrid search up to ``budget`` that are near the best of them in a graph of chunks.

    The graph joins chunks that follow each other, whose cosine is above ``threshold`` (for each its ``neighbours``
    nearest), that name the same section, figure or source of their document, or of which one uses what the other
    defines, by the syntax tree of a Python file; chunks of other code are joined if they share an identifier. A walk
    starts at the ``seeds`` best hits, by score, and returns to them with the probability ``restart`` at each of 20
    steps (personalised PageRank, Haveliwala 2002). Helps when evidence is next to what the question's words find: the
    following sentence, the section referred to. Costs one embedding a query; the graph needs no call.

    All chunks are on one scale, and up to ``k + budget`` are returned, so that nothing of hybrid search is lost.
    ``blended`` scores them by ``weight`` x PageRank + (1 - ``weight``) x score of hybrid search, both min-max scaled;
    an added chunk has 0 of the latter. ``reserved`` puts the added chunks, by PageRank, in the last places of the first
    ``k``, with the score of the candidate before them, so that a reranker that reads ``k`` reads all of them. In a
    dense graph a walk is limited to the neighbourhood of its seeds; on 10,000 chunks this limit is never reached at the
    threshold 0.7, and changed 1 of 180 additions at 0.5.

    Differences from the paper: the paper gives added chunks the score 0, as ``weight=0`` does here, so that only a
    reranker could raise them, but they are ranked below its depth; ``reserved`` implements the intended method. The
    paper starts walks from all candidates with equal weights, has unweighted edges, and in the reported runs had no
    edges by order or code, but joined any two documents with a "Figure 1". Here order and references are limited to one
    document, edges by similarity are weighted by it, and dead ends return to the seeds. The learned refinement of
    vectors (GraphSAGE) influenced only one result in the paper, and is not implemented.
    """
    graph = get_chunk_graph(index, embedder, threshold=threshold, neighbours=neighbours)
    rankings = []
    for hits in hybrid(index, queries, embedder=embedder, k=k):
        walked = _walk(index, graph, hits, restart=restart, seeds=seeds, budget=budget)
        rankings.append(_reserve(hits, walked) if scoring == "reserved" else _blend(hits, walked, weight))
    return tuple(rankings)


def _blend(hits: Hits, walked: Hits, weight: float) -> Hits:
    """Score all chunks by the weighted mean of PageRank and hybrid search."""
    candidates = {hit.chunk.id for hit in hits}
    fused = convex_combination([hits, walked], [1 - weight, weight])
    # an added chunk is ranked after a candidate of the same score, as the last candidate also scores 0 in hybrid search
    return rank(h if h.chunk.id in candidates else h.rescored(h.score - SCORE_STEP, h.scale) for h in fused)


def _reserve(hits: Hits, walked: Hits) -> Hits:
    """Insert the additions before the same number of last candidates, but after the first one."""
    added = walked[len(hits) :]
    if not added:
        return hits
    before = max(1, len(hits) - len(added))
    score = hits[before - 1].score
    inserted = tuple(hit.rescored(score - n * SCORE_STEP, Scale.CONVEX) for n, hit in enumerate(added, start=1))
    # the order of candidates is kept if their scores equal that of the candidate before them
    last = tuple(
        hit.rescored(min(hit.score, score - n * SCORE_STEP), Scale.CONVEX)
        for n, hit in enumerate(hits[before:], start=len(added) + 1)
    )
    return (*hits[:before], *inserted, *last)


def _walk(index: Index, graph: ChunkGraph, hits: Hits, *, restart: float, seeds: int, budget: int) -> Hits:
    """Return the candidates and the best ``budget`` other chunks by PageRank."""
    seed_weights = np.zeros(len(graph))
    for hit in [hit for hit in hits if not hit.chunk.level][:seeds]:  # summaries are not in the graph
        seed_weights[index.positions[hit.chunk.id]] = hit.score
    ranks = graph.pagerank(seed_weights, restart=restart, most=MAX_NEIGHBOURS)
    candidates = [index.positions[hit.chunk.id] for hit in hits]
    others = ranks.copy() if index.admitted is None else ranks * index.admitted
    others[candidates] = 0.0
    added = best_positions(others, budget, positive=True).tolist()
    return tuple(Hit(index.entries[i].chunk, float(ranks[i]), Scale.GRAPH) for i in [*candidates, *added])
