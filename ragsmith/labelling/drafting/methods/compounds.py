"""Questions that ask two things at once, whose answers stand in two passages that are about the same."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.filters.well_formed import well_formed
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods.circumstances import circumstances
from ragsmith.labelling.drafting.methods.conditions import conditions
from ragsmith.labelling.drafting.methods.objects import objects
from ragsmith.labelling.drafting.methods.subjects import subjects
from ragsmith.text.words import terms, words
from ragsmith.types import Chunk, Modality

MOST = 2
"""Questions from a passage together with others."""

LOOKED_AT = 6
"""Passages, best first by the first question's words, that the second may come from."""

LONGEST = 16
"""Words of either question."""

COMMON = 0.15
"""Least share, by what they tell, of the second question's words that the first one's sentence has, too."""

_ASKED = (circumstances, conditions, objects, subjects)


def compounds(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``Within what time must the buyer give notice, and who bears the cost of the repair?``"""
    if passage.modality is not Modality.PROSE:
        return []
    drafts: list[Draft] = []
    for first in _simple(passage, material):
        second = _second(first, passage, material)
        if second is not None:
            drafts.append(_both(first, second, passage))
        if len(drafts) == MOST:
            break
    return drafts


def _simple(passage: Chunk, material: Material) -> list[Draft]:
    """Short questions on single statements of a passage that are well formed."""
    found = material.remembered(
        f"simple {passage.id}", lambda: [draft for method in _ASKED for draft in method(passage, material)]
    )
    return [
        draft
        for draft in found
        if len(words(draft.question)) <= LONGEST
        and len(set(terms(draft.question))) > 1
        and well_formed(draft, material, ()) is None
    ]


def _second(first: Draft, passage: Chunk, material: Material) -> Draft | None:
    """The question of another passage that has most in common with the statement that the first is about."""
    held = frozenset(terms(first.quotes[0].text))
    best: tuple[float, Draft] | None = None
    for other in material.best(first.quotes[0].text, LOOKED_AT):
        if other.id == passage.id or other.modality is not Modality.PROSE:
            continue
        for draft in _simple(other, material):
            asked = frozenset(terms(draft.question))
            weight = fsum(material.lexicon.idf(term) for term in asked)
            share = fsum(material.lexicon.idf(term) for term in asked & held) / weight  # in whatever order
            if COMMON <= share < 1 and (best is None or share > best[0]) and draft.question != first.question:
                best = (share, draft)
    return best[1] if best else None


def _both(first: Draft, second: Draft, passage: Chunk) -> Draft:
    begins = f"{second.question[0].lower()}{second.question[1:]}"
    question = f"{first.question.rstrip('?')}, and {begins}"
    one_document = first.quotes[0].doc == second.quotes[0].doc
    return Draft(
        question,
        f"{first.answer} {second.answer}",
        (*first.quotes, *second.quotes),
        "multi_passage" if one_document else "multi_document",
        "compounds",
        passage.span,
    )
