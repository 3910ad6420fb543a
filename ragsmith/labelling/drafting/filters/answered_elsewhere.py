"""A question that another passage answers as well has evidence that is not the only one."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.words import normalise_answer

COVERED = 0.6
"""Share of a question's words that a passage must have to be about the same."""

LOOKED_AT = 3
"""Passages, best first by the question's words, that would be read before or beside the right one."""

LONGEST = 8
"""Words of an answer that a passage may have by itself; a longer one is compared by the share of its words."""


def answered_elsewhere(draft: Draft, material: Material, kept: Sequence[str]) -> str | None:
    """Refuse a question for which another of the best passages has the answer, and most of the question, too."""
    if not draft.answerable:
        return None
    asked, answer = frozenset(material.terms(draft.question)), frozenset(material.terms(draft.answer))
    plain = normalise_answer(draft.answer)
    spans = [quote.span for quote in draft.quotes]
    for passage in material.best(draft.question, LOOKED_AT):
        if any(s.doc == passage.doc and s.start < passage.end and passage.start < s.end for s in spans):
            continue
        held = frozenset(material.terms(passage.text))
        if not answer or len(asked & held) < COVERED * len(asked):
            continue
        short = len(plain.split()) <= LONGEST
        if (short and plain in normalise_answer(passage.text)) or (
            not short and len(answer & held) >= 0.8 * len(answer)
        ):
            return f"passage {passage.id} has the answer, too"
    return None
