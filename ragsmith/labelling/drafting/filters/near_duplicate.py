"""Two questions with nearly the same words ask the same."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material

ALIKE = 0.7
"""Least share of common words among all of both questions (Jaccard) of near-duplicates."""


def near_duplicate(draft: Draft, material: Material, kept: Sequence[str]) -> str | None:
    """Refuse a question whose words are nearly those of one that is kept."""
    own = frozenset(material.terms(draft.question))
    for question in kept:
        other = frozenset(material.terms(question))
        if own and len(own & other) >= ALIKE * len(own | other):
            return f"nearly the same as {question!r}"
    return None
