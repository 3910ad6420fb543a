"""A question that lost a part on its way from a sentence is no question."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.english.verbs import BE_HAVE_MODAL
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import words

_LOOSE = re.compile(
    r"\b(?:the|an?|of|and|or|to|from|with|by|than|as|its|their|his|her|that|which|who|most|least) "
    r"(?:of|and|or|to|from|with|by|than|that|which|who|if|when|unless|as)\b|\b(\w+) \1\b",
    re.IGNORECASE,
)
_GOOD = re.compile(
    r"\b(?:of (?:which|whom|that)|(?:by|with|from|to|of|than|as) (?:which|whom|that|who|if|when)|"
    r"(?:and|or) (?:to|from|with|by|of|if|when|who|that|which|as)|as (?:to|of|if|from|by)|that of|had had)\b",
    re.IGNORECASE,
)
_ENDS = re.compile(
    r"\b(?:the|an?|and|or|if|when|that|which|who|than|as|its|their|his|her|more|most|least|only|also|not|very|"
    r"such|each|every|both|either|unless|because|where|while|customer if)\W*$",
    re.IGNORECASE,
)
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("“", "”"))
_WORDLESS = re.compile(r"[=<>{}\\|^_]{1}|\bhttps?:|\.\.\.|\u2026")
SHORTEST, LONGEST = 4, 40
"""Words."""

MOST_VERBS = 1
"""Auxiliaries of a question before its first subordinate clause."""

_SUBORDINATE = re.compile(r"\b(?:if|when|unless|that|which|who|whom|because|where|while|although|as|what)\b")


def well_formed(draft: Draft, material: Material, kept: Sequence[str]) -> str | None:
    """Refuse questions with loose ends, half a bracket, two sentences, or hardly a word."""
    return next(_problems(draft, english=material.documents[draft.passage.doc].language == ENGLISH), None)


def _problems(draft: Draft, *, english: bool) -> Iterator[str]:
    question = draft.question.strip()
    count = len(words(question))
    if not SHORTEST <= count <= LONGEST:
        yield f"it has {count} words"
    body = question.rstrip("?").strip()
    if any(body.count(one) != body.count(other) for one, other in _PAIRS) or body.count('"') % 2:
        yield "half of a pair of brackets or quotation marks is missing"
    if draft.type != "code" and (found := _WORDLESS.search(body)):
        yield f"{found[0]!r} is not part of a question in words"
    if draft.model or not english:
        return
    if re.search(r"[?!;]\s|\.\s+[A-Z]", body):
        yield "it is more than one sentence"
    yield from (
        f"{found[0]!r} has lost what stood between" for found in _LOOSE.finditer(body) if not _GOOD.fullmatch(found[0])
    )
    if found := _ENDS.search(body):
        yield f"it ends with {found[0].strip()!r}"
    main = _SUBORDINATE.split(body, maxsplit=1)[0]
    if sum(word in BE_HAVE_MODAL or word in {"do", "does", "did"} for word in main.split()) > MOST_VERBS:
        yield "it has too many verbs for one question"
