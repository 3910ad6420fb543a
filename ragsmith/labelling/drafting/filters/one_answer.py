"""A question that another place answers otherwise has more than one answer."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.words import sentences

COVERED = 0.85
"""Share of a question's words, by what they tell, that another sentence must have to answer it, too."""

LOOKED_AT = 6
"""Passages, best first by the question's words."""


def one_answer(draft: Draft, material: Material, kept: Sequence[str]) -> str | None:
    """Refuse a question whose words are nearly all in a sentence elsewhere that says something else."""
    if not draft.answerable:
        return None
    asked = frozenset(material.terms(draft.question))
    weight = fsum(material.lexicon.idf(term) for term in asked)
    spans = [quote.span for quote in draft.quotes]
    for passage in material.best(draft.question, LOOKED_AT):
        for start, end in sentences(passage.text):
            first, last = passage.start + start, passage.start + end
            if any(span.doc == passage.doc and span.start < last and first < span.end for span in spans):
                continue
            found = asked & frozenset(material.terms(passage.text[start:end]))
            if weight and fsum(material.lexicon.idf(term) for term in found) >= COVERED * weight:
                return f"{passage.text[start:end]!r} answers it, too"
    return None
