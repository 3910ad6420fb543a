"""A question that points at something that only a reader of the passage sees cannot be searched with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material

_POINTING = re.compile(
    r"\b(?:(?:this|that|these|those|the (?:above|following|previous|preceding|present|said)) (?:section|chapter|"
    r"article|paragraph|passage|text|document|table|figure|list|example|page|part|case|rule|way|time)s?"
    r"|(?:mentioned|described|listed|shown|defined|stated) (?:above|below|here)|above[- ]mentioned)\b",
    re.IGNORECASE,
)
_PRONOUN = re.compile(r"\b(?:it|its|he|him|his|she|her|hers|they|them|their|theirs|this|these|those)\b", re.IGNORECASE)
_NAMED_BEFORE = re.compile(r"\b(?:an?|the|any|each|every|someone|somebody|who|which|what|\w+s)\b", re.IGNORECASE)


def self_contained(draft: Draft, material: Material, kept: Sequence[str]) -> str | None:
    """Refuse ``What does this section say?``, and pronouns that nothing before them can stand for."""
    if found := _POINTING.search(draft.question):
        return f"{found[0]!r} points at something that is not in the question"
    if (found := _PRONOUN.search(draft.question)) and not _stands_for(draft.question[: found.start()]):
        return f"nobody knows what {found[0]!r} is"
    return None


def _stands_for(before: str) -> bool:
    """Whether the words before a pronoun name something: two or more besides the question word and its verb."""
    return len(re.findall(r"\w+", before)) >= 4 and bool(_NAMED_BEFORE.search(before.partition(" ")[2]))
