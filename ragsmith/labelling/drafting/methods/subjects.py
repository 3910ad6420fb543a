"""Questions for the subject of a statement (Heilman and Smith 2009)."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.english.clauses import Clause
from ragsmith.labelling.drafting.english.verbs import BASE, listed, third_person
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods.statements import asked, statements, without_tail
from ragsmith.types import Chunk

_PERSONS = listed(
    """
    person people man woman men women child children party buyer seller purchaser vendor lessor lessee tenant
    landlord creditor debtor surety judge owner holder user operator author writer actor actress singer player
    director president minister manager worker employee employer customer consumer trader bearer carrier maker
    member officer clerk registrar witness expert lawyer advocate claimant plaintiff defendant applicant
    respondent student teacher doctor engineer scientist investor lender borrower shareholder agent broker
    musician artist king queen prince economist founder researcher analyst journalist politician senator
    governor critic guarantor heir assessor mediator neighbour keeper
    skipper captain pilot sailor farmer nurse driver pupil guest visitor
    """
)
_FULL_NAME = re.compile(r"(?:Judge |Dr\.? |Sir |Lord )?[A-Z][a-z]+(?: [A-Z]\.?)? [A-Z][a-z]+")
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
    """``Who`` for what is a person by its noun or its shape, ``What`` for all else."""
    head = re.split(r" (?:of|in|who|whose|with|from|by|for|to)\b", subject)[0]
    last = head.split()[-1].lower()
    named = _FULL_NAME.fullmatch(head) is not None and not head.startswith(("The ", "New ", "North ", "South "))
    return "Who" if named or last in _PERSONS or last.removesuffix("s") in _PERSONS else "What"


def _verb_of(found: Clause) -> str:
    """The verb in the singular, as ``who`` and ``what`` have it."""
    return third_person(found.base) if found.form == BASE else _SINGULAR.get(found.verb, found.verb)
