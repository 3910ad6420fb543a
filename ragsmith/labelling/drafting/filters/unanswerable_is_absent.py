"""A near-miss must ask for something that the documents do not have, and sound as if they had it."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material


def unanswerable_is_absent(draft: Draft, material: Material, kept: Sequence[str]) -> str | None:
    """Refuse a question without evidence of which one passage has every word."""
    if draft.answerable:
        return None
    asked = frozenset(material.terms(draft.question))
    for passage in material.best(draft.question, 5):
        if asked <= frozenset(material.terms(passage.text)):
            return f"passage {passage.id} may answer it"
    return None
