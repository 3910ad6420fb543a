"""Complete hybrid: vectors, BM25 and the entity graph together (Kartal et al. 2025)."""

from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.index import Index
from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import retrieval
from ragsmith.techniques.fusion import FUSIONS, fuse
from ragsmith.types import Hits, Queries, Rankings


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
    the rest; ``rrf`` and ``borda`` use ranks and ignore both. Helps when relations between named entities add to what
    words and vectors find. Costs one embedding per query. The RAGSmith code concatenates the three lists, unsorted and
    with duplicates; here they are fused.
    """
    rest = 1 - graph_weight
    shares = [rest * weight, rest * (1 - weight), graph_weight]
    sources = search_sources(index, queries, embedder, entity_graph, max(k, pool))
    return tuple(fuse(lists, fusion, shares)[:k] for lists in sources)


def search_sources(
    index: Index, queries: Queries, embedder: Embedder, entity_graph: EntityGraph, k: int
) -> list[tuple[Hits, Hits, Hits]]:
    """Return the best ``k`` hits of each query by vectors, BM25 and the entity graph, each with its own scale."""

    def search_graph(missing: Queries) -> Rankings:
        return tuple(index.select_own(entity_graph.search(query, k)) for query in missing)

    graph = index.search_cached(f"entity graph {entity_graph.id} {k}", queries, k, search_graph)
    return list(zip(index.by_vector(queries, k, embedder), index.by_words(queries, k), graph, strict=True))
