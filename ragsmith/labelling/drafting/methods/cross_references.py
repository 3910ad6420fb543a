"""Questions that take two documents: passages that name the same thing, which few others name."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ragsmith.digest import digest
from ragsmith.labelling.drafting.draft import Draft, Quote
from ragsmith.labelling.drafting.english.clauses import PRONOUNS, Clause
from ragsmith.labelling.drafting.material import Material, names_in
from ragsmith.labelling.drafting.methods.statements import statements
from ragsmith.labelling.drafting.methods.subjects import who
from ragsmith.text.words import terms, words
from ragsmith.types import Chunk

MOST = 2
"""Questions from a passage to others."""

LONGEST_SUBJECT = 9
"""Words."""

_SAYS_WHAT = re.compile(r"(?:an?|the) (?P<what>(?:(?!\b(?:that|which|who|where|and)\b)[^,;:.]){6,80})")


def cross_references(passage: Chunk, material: Material) -> Sequence[Draft]:
    """``E is a port of Ostra`` here and ``Ann left E in May`` there -> ``What left the port of Ostra in May?``

    Where nothing says what the common thing is, the question is how a statement on it here and one there hang together.
    """
    drafts: list[Draft] = []
    here = list(statements(passage, material))
    if not here:
        return []
    for name in names_in(passage.text):
        others = [other for other in material.entities.get(name, ()) if other.doc != passage.doc]
        for other in sorted(others, key=lambda chunk: digest("cross", passage.id, chunk.id))[:1]:
            there = [pair for pair in statements(other, material) if name in pair[0].text]
            ours = [pair for pair in here if name in pair[0].text]
            if there and ours:
                drafts += _bridged(name, ours[0], there[0], passage) or _joined(name, ours[0], there[0], passage)
    return drafts[:MOST]


def _bridged(name: str, ours: tuple[Quote, Clause], theirs: tuple[Quote, Clause], passage: Chunk) -> list[Draft]:
    """Ask about the one statement, with what the other says the name is in its place."""
    for (quote, found), (told, tells) in ((ours, theirs), (theirs, ours)):
        if tells.subject != name or tells.verb not in {"is", "was"} or name not in found.rest or name in found.subject:
            continue
        if (what := _SAYS_WHAT.match(tells.rest)) is None:
            continue
        rest = found.rest.split(", ")[0].replace(name, f"the {what['what']}", 1)
        if name in rest or f"the {what['what']}" not in rest or len(words(rest)) > 24:
            continue
        asks = f"{who(found.subject)} {found.verb} {rest}?"
        return [_draft(asks, f"{found.subject}.", (quote, told), passage)]
    return []


def _joined(name: str, ours: tuple[Quote, Clause], theirs: tuple[Quote, Clause], passage: Chunk) -> list[Draft]:
    """Ask what two statements have to do with each other."""
    both = [found.subject for _, found in (ours, theirs)]
    for subject in both:
        opens = subject.split()[0].lower()
        if name in subject or not terms(subject) or opens in PRONOUNS or len(words(subject)) > LONGEST_SUBJECT:
            return []
    if both[0] == both[1]:
        return []
    asks = f"What connects {both[0]} and {both[1]} with regard to {name}?"
    answer = f"{' '.join(ours[0].text.split())} {' '.join(theirs[0].text.split())}"
    return [_draft(asks, answer, (ours[0], theirs[0]), passage)]


def _draft(question: str, answer: str, quotes: tuple[Quote, ...], passage: Chunk) -> Draft:
    return Draft(" ".join(question.split()), answer, quotes, "multi_document", "cross_references", passage.span)
