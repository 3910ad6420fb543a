"""Graph search: the chunks whose relations connect what the query names (after Gutiérrez et al. 2024)."""

from ragsmith.index.entity_graph import EntityGraph
from ragsmith.index.index import Index
from ragsmith.plugins import Count
from ragsmith.techniques.families import retrieval
from ragsmith.types import Queries, Rankings


@retrieval(paper="https://arxiv.org/abs/2405.14831", choices={"seeds": (10, 20)}, most_chunks=300_000)
def graph(index: Index, queries: Queries, *, entity_graph: EntityGraph, seeds: Count = 20, k: Count = 20) -> Rankings:
    """Find the ``k`` chunks with most evidence in the entity graph for each query.

    The ``seeds`` entities best matching the query are activated, pass it on to their neighbours, and every relation
    between active entities that fits the query speaks for its chunk. Helps when a question is about named things and
    how they are connected. Costs no call once the graph is built, whatever the pre-embedding: keys are not read. The
    RAGSmith code identifies a relation by its rank in the result, so fusion mixes up different ones; here chunks are
    what is found, and entities are known by their names.
    """
    return tuple(index.own(entity_graph.search(query, k, seeds)) for query in queries)
