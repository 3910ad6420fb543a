"""Questions for the subject of a statement (Heilman and Smith 2009)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.english.clauses import Clause
from ragsmith.labelling.drafting.english.verbs import BASE, third_person
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods.statements import asked, statements, without_tail
from ragsmith.types import Chunk

_PERSON = re.compile(
    r"(?i)\b(?:\w{3,}(?:or|er|ee|ist|ian)s?|person|party|parties|judge|people|author|owner|wom[ae]n|m[ae]n)$"
)
_NO_PERSON = re.compile(
    r"(?i)\b(?:number|order|letter|matter|factor|sector|error|power|paper|water|register|computer|server|filter|layer|"
    r"chapter|centre|center|quarter|year|folder|parameter|sensor|motor|router|timer|transfer|cover|offer|refer|other|"
    r"fee|degree|committee|guarantee|either|summer|winter|river|tower|container|controller|buffer|vector|operator|"
    r"indicator|shower|corner|diameter|character|master|cylinder|counter|header|pointer|driver|tier|paper|remainder)s?$"
)
_SINGULAR = {"are": "is", "were": "was", "have": "has"}


def subjects(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``A party pays M 50 into the court chest.`` -> ``Who pays M 50 into the court chest?``"""
    drafts: list[Draft] = []
    for quote, found in statements(passage, material):
        rest = without_tail(found.rest)
        question = f"{who(found.subject)} {_verb_of(found)} {rest}"
        drafts += asked(passage, quote, question, found.subject, "subjects")
    return drafts


def who(subject: str) -> str:
    """``Who`` for what is probably a person, ``What`` for all else."""
    head = subject.split(" of ", maxsplit=1)[0].split(" in ", maxsplit=1)[0]
    return "Who" if _PERSON.search(head) and not _NO_PERSON.search(head) else "What"


def _verb_of(found: Clause) -> str:
    """The verb in the singular, as ``who`` and ``what`` have it."""
    return third_person(found.base) if found.form == BASE else _SINGULAR.get(found.verb, found.verb)
