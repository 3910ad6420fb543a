"""Questions for the object of a statement: what somebody must, may or does do, pay, hold or cause."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.english.clauses import MODALS
from ragsmith.labelling.drafting.english.verbs import forms, participles
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods.statements import asked, statements
from ragsmith.types import Chunk

_OBJECT = re.compile(
    r"(?:(?:an?|the|any|every|all|some|one|two|three)\b|\d|[A-Z$€£])"
    r"(?:(?!\b(?:of|in|on|at|by|for|with|to|from|into|over|under|between|during|within|after|before|when|if|unless|"
    r"where|which|that|who|because|since|until|as|and)\b)(?:[^,;:]|,(?=\d)))*"
)


def objects(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``The library raises a ValueError for jogs above ...`` -> ``What does the library raise for jogs above ...?``"""
    drafts: list[Draft] = []
    for quote, found in statements(passage, material):
        verb, rest = found.base, found.rest
        if found.verb in MODALS:
            verb, _, rest = found.rest.partition(" ")
            if forms().get(verb, ("", ""))[1] != verb or verb in participles() - forms().keys():
                continue
        elif found.base in {"", "do", "have", "be"}:
            continue
        if (taken := _OBJECT.match(rest)) is None or not taken[0].strip():
            continue
        after = rest[taken.end() :].split(", ")[0].split("; ")[0]
        if after.startswith(("of ", "to ", "that ", "which ", "who ", "and ")):
            after = ""
        question = f"What {found.auxiliary} {found.subject} {verb} {after}"
        drafts += asked(passage, quote, question, rest.split(", ")[0].split("; ")[0], "objects")
    return drafts
