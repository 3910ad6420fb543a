"""A question that fits many passages as well as its own does not say what it wants."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material

FEWEST_TERMS = 3
"""Distinct words of a question, without function words."""

WITHIN = 10
"""Passages among which its own must be found by the words of a draft that has not been reworded yet."""


def specific(draft: Draft, material: Material, kept: Sequence[str]) -> str | None:
    """Refuse a question of few words, or one whose own words do not lead to its passage."""
    if len(set(material.terms(draft.question))) < FEWEST_TERMS:
        return "it has too few words to be found by"
    if draft.answerable and not draft.model and material.rank(draft.question, draft.quotes[0].span, WITHIN) is None:
        return f"its own words lead to {WITHIN} other passages first"
    return None
