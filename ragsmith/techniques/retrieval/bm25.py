"""BM25: the chunks with the highest lexical score for the query (Robertson & Zaragoza 2009)."""

from ragsmith.index.index import Index
from ragsmith.plugins import Count
from ragsmith.techniques.families import retrieval
from ragsmith.types import Queries, Rankings


@retrieval(paper="https://doi.org/10.1561/1500000019")
def bm25(index: Index, queries: Queries, *, k: Count = 20) -> Rankings:
    """Return the ``k`` chunks with the highest BM25 score for each query, only chunks that share a term with it.

    Helps when names, numbers and technical terms are decisive. Costs no model call. Words are stemmed and stop words
    removed, which the RAGSmith code offers but never does.
    """
    return index.by_words(queries, k)
