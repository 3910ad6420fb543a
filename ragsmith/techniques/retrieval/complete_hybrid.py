"""Complete hybrid: vectors, words and the entity graph together (Kartal et al. 2025)."""

from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.index import Index
from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import retrieval
from ragsmith.techniques.fusion import FUSIONS, fuse
from ragsmith.types import Queries, Rankings


@retrieval(
    paper="https://arxiv.org/abs/2511.01386",
    choices={"fusion": FUSIONS, "weight": (0.3, 0.5, 0.7), "graph_weight": (0.1, 0.2, 0.3)},
    most_chunks=300_000,
)
def complete_hybrid(
    index: Index,
    queries: Queries,
    *,
    embedder: Embedder,
    entity_graph: EntityGraph,
    fusion: str = "convex",
    weight: Share = 0.5,
    graph_weight: Share = 0.2,
    pool: Count = 60,
    k: Count = 20,
) -> Rankings:
    """Fuse, for each query, the best chunks by cosine, by BM25 and by the entity graph.

    With ``convex`` and ``dbsf`` the graph has the share ``graph_weight`` of the score and vectors have ``weight`` of
    the rest; ``rrf`` and ``borda`` go by ranks and ignore both. Helps when connections between named things add to what
    words and vectors find. Costs one embedding a query. The RAGSmith code strings the three lists together, unsorted
    and with duplicates; here they are fused.
    """
    each = max(k, pool)

    def related(missing: Queries) -> Rankings:
        return tuple(index.own(entity_graph.search(query, each)) for query in missing)

    graph = index.remembered(f"entity graph {entity_graph.id} {each}", queries, each, related)
    sides = zip(index.by_vector(queries, each, embedder), index.by_words(queries, each), graph, strict=True)
    rest = 1 - graph_weight
    shares = [rest * weight, rest * (1 - weight), graph_weight]
    return tuple(fuse(lists, fusion, shares)[:k] for lists in sides)
