"""A quotation that stands in the documents twice leaves open which place is the evidence."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material


def quote_unique(draft: Draft, material: Material, kept: Sequence[str]) -> str | None:
    """Refuse a draft that quotes what stands in two places."""
    for quote in draft.quotes:
        if len(quote.text) < SHORTEST:
            return f"{quote.text!r} is too short to be evidence"
        if (count := material.occurrences(quote.text)) > 1:
            return f"{quote.text!r} stands in the documents {count} times"
    return None


SHORTEST = 12
"""Characters; half of a shorter one is in many a chunk by accident."""
