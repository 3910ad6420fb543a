"""A filter says what is wrong with a draft, or nothing: it sees the draft, the documents, and the drafts kept so far.

Each is a function in a file of its own; a draft is refused by the first of `FILTERS` that finds something. What
`ragsmith.labelling.drafting.quotes` says goes before all of them, so that every quotation has its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.filters.near_duplicate import near_duplicate
from ragsmith.labelling.drafting.filters.self_contained import self_contained
from ragsmith.labelling.drafting.material import Material

Filter = Callable[[Draft, Material, Sequence[str]], str | None]
"""What is wrong with a draft in a sentence; the texts are the questions that are kept already."""

QUOTE = "quote_found"
"""What refuses a draft whose quotations are not where they should be."""

FILTERS: tuple[Filter, ...] = (self_contained, near_duplicate)
