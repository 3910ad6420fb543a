"""Year filter: search the documents of the years that a question names."""

import re

from ragsmith.index.fields import FieldSearch
from ragsmith.techniques.families import query_expansion
from ragsmith.types import Hits, Question, Search

_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


@query_expansion()
def year_filter(question: Question, search: Search, *, field_search: FieldSearch) -> Hits:
    """Search the documents whose field ``year`` has a year of the question, and all documents if there are none.

    Helps when the same document exists for several years, such as a price list. Costs one search, or two.
    """
    years = "|".join(_YEAR.findall(question.text))
    hits = field_search(f"year in {years}", question.text) if years else ()
    return hits or search((question.text,))[0]
