"""Hybrid search: the fusion of vector search and BM25 (Bruch et al. 2023)."""

from ragsmith.index.index import Index
from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import retrieval
from ragsmith.techniques.fusion import FUSIONS, fuse
from ragsmith.types import Queries, Rankings


@retrieval(
    paper="https://arxiv.org/abs/2210.11934",
    choices={"fusion": FUSIONS, "weight": (0.3, 0.5, 0.7)},
)
def hybrid(
    index: Index,
    queries: Queries,
    *,
    embedder: Embedder,
    fusion: str = "convex",
    weight: Share = 0.5,
    pool: Count = 60,
    k: Count = 20,
) -> Rankings:
    """Fuse, for each query, the best chunks by cosine and by BM25.

    ``convex`` adds min-max normalised scores, in which vectors have the share ``weight``, and ``dbsf`` adds scores
    normalised by mean and standard deviation of their list (Mazzeschi 2023); ``rrf`` adds reciprocal ranks and
    ``borda`` Borda points (Aslam and Montague 2001), both without ``weight``. Helps nearly always, as the two fail on
    different questions. Costs one embedding per query. Each side returns ``pool`` chunks, at least ``k``: the RAGSmith
    code takes 10 of each, so that a chunk that both sides rank eleventh is lost.
    """
    depth = max(k, pool)
    sides = zip(index.by_vector(queries, depth, embedder), index.by_words(queries, depth), strict=True)
    return tuple(fuse(pair, fusion, [weight, 1 - weight])[:k] for pair in sides)
