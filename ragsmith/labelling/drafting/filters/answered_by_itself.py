"""A question that says its own answer, or whose answer says nothing, needs no documents."""

from __future__ import annotations

from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.english.clauses import PRONOUNS
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.words import normalise_answer, words


def answered_by_itself(draft: Draft, material: Material, kept: Sequence[str]) -> str | None:
    """Refuse a question that can be answered without the documents."""
    if not draft.answerable:
        return None
    answer = set(material.terms(draft.answer)) or set(words(draft.answer))
    if not answer:
        return "its answer has no words"
    if answer <= set(material.terms(draft.question)) | set(words(draft.question)):
        return "the question contains its answer"
    if normalise_answer(draft.answer) in PRONOUNS or (
        len(words(draft.answer)) == 1 and words(draft.answer)[0] in PRONOUNS
    ):
        return f"the answer {draft.answer!r} stands for something outside it"
    return None
