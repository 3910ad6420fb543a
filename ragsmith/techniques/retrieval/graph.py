"""Graph search: the chunks whose relations connect the entities of the query (after Gutiérrez et al. 2024)."""

from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.index import Index
from ragsmith.plugins import Count
from ragsmith.techniques.families import retrieval
from ragsmith.types import Queries, Rankings


@retrieval(paper="https://arxiv.org/abs/2405.14831", choices={"seeds": (10, 20)}, most_chunks=300_000)
def graph(index: Index, queries: Queries, *, entity_graph: EntityGraph, seeds: Count = 20, k: Count = 20) -> Rankings:
    """Return the ``k`` chunks with the most evidence in the entity graph for each query.

    The ``seeds`` entities that best match the query are activated and activate their neighbours, and every relation
    between active entities that matches the query is evidence for its chunk. Helps when a question is about named
    entities and their relations. Costs no call once the graph is built. Keys of the pre-embedding are not used. The
    RAGSmith code identifies a relation by its rank in the result, so fusion confuses different ones; here chunks are
    ranked, and entities are identified by their names.
    """
    return tuple(index.select_own(entity_graph.search(query, k, seeds)) for query in queries)
