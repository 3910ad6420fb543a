"""No query expansion: search with the question unchanged."""

from ragsmith.techniques.families import query_expansion
from ragsmith.types import Hits, Question, Search


@query_expansion(paper="https://arxiv.org/abs/2511.01386")
def none(question: Question, search: Search) -> Hits:
    """Search with the question.

    Costs one search; the baseline of the family.
    """
    return search((question.text,))[0]
