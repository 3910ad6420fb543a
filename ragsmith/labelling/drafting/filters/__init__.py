"""A filter says what is wrong with a draft, or nothing: it sees the draft, the documents, and what is asked already.

Each is a function in a file of its own; a draft is refused by the first of `FILTERS` that finds something. What
`ragsmith.labelling.drafting.quotes` says goes before all of them, so that every quotation has its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.filters.answered_by_itself import answered_by_itself
from ragsmith.labelling.drafting.filters.answered_elsewhere import answered_elsewhere
from ragsmith.labelling.drafting.filters.near_duplicate import near_duplicate
from ragsmith.labelling.drafting.filters.one_answer import one_answer
from ragsmith.labelling.drafting.filters.quote_unique import quote_unique
from ragsmith.labelling.drafting.filters.self_contained import self_contained
from ragsmith.labelling.drafting.filters.specific import specific
from ragsmith.labelling.drafting.filters.unanswerable_is_absent import unanswerable_is_absent
from ragsmith.labelling.drafting.filters.well_formed import well_formed
from ragsmith.labelling.drafting.material import Material

Filter = Callable[[Draft, Material, Sequence[str]], str | None]
"""What is wrong with a draft in a sentence; the texts are the questions that are kept already."""

QUOTE = "quote_found"
"""What refuses a draft whose quotations are not where they should be."""

FILTERS: tuple[Filter, ...] = (
    quote_unique,
    well_formed,
    self_contained,
    answered_by_itself,
    specific,
    one_answer,
    answered_elsewhere,
    unanswerable_is_absent,
    near_duplicate,
)
"""In the order in which they are asked: what is quickly found out comes first."""
