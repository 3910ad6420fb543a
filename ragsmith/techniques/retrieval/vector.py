"""Vector search: the chunks whose vectors are nearest to that of the query (Karpukhin et al. 2020)."""

from ragsmith.index.index import Index
from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Count
from ragsmith.techniques.families import retrieval
from ragsmith.types import Queries, Rankings


@retrieval(paper="https://arxiv.org/abs/2004.04906")
def vector(index: Index, queries: Queries, *, embedder: Embedder, k: Count = 20) -> Rankings:
    """Return the ``k`` chunks nearest to each query by cosine similarity.

    Helps when questions and documents express the same in other words. Costs one embedding per query.
    """
    return index.by_vector(queries, k, embedder)
