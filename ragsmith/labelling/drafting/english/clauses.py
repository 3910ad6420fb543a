"""The main clause of a plain statement: its subject, its verb and what follows, told by function words and endings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ragsmith.labelling.drafting.english.verbs import BASE, BE_HAVE_MODAL, PAST, THIRD, forms, listed

MODALS = frozenset({"can", "could", "may", "might", "must", "shall", "should", "will", "would", "cannot"})
PRONOUNS = listed(
    """
    it its he his him she her they their them this that these those such we our us i my you your one ones whoever
    whatever there here another others both each either neither some many most few all none nothing everything
    what which who
    """
)
"""Words that open a sentence whose subject nobody knows who has not read the one before."""

_DETERMINERS = listed(
    """
    a an the any every each no this that these those its his her their some all both
    """
)
_PREPOSITIONS = listed(
    """
    of in on at by for with from to into over under between among against during within without through after
    before since until about upon per via as than
    """
)
_SUBORDINATE = listed(
    """
    that which who whom whose when where while because although if unless whether
    """
)
_TOKEN = re.compile(r"\S+")
_CONNECTIVE = re.compile(
    r"(?:However|Therefore|Moreover|Furthermore|Additionally|Also|Thus|Hence|Nevertheless|Finally|For example|"
    r"For instance|In addition|In general|Generally|Typically|Usually|Consequently|Similarly|Traditionally|Today), "
)
_FRONTED = re.compile(
    r"(?P<phrase>(?:In|On|At|By|During|Since|After|Before|Under|From|Until) (?:(?!\b(?:is|are|was|were|has|have)\b)"
    r"[^,;:]){2,50})"
    r", (?P<rest>(?:[Tt]he|[Aa]n?|[A-Z])[^,;:]*)"
)
_LONGEST_SUBJECT = 12


@dataclass(frozen=True, slots=True)
class Clause:
    """``subject verb rest``; ``form`` and ``base`` of the verb, both empty where it is an auxiliary."""

    subject: str
    verb: str
    rest: str
    form: str = ""
    base: str = ""

    @property
    def auxiliary(self) -> str:
        """What a question puts in front of the subject."""
        if not self.base:
            return self.verb
        return {THIRD: "does", BASE: "do", PAST: "did"}[self.form]

    @property
    def predicate(self) -> str:
        """What stands behind the subject then."""
        return self.rest if not self.base else f"{self.base} {self.rest}"

    @property
    def plural(self) -> bool:
        """Whether the verb shows that the subject is several."""
        return self.verb in {"are", "were", "have"} or self.form == BASE


def clause(sentence: str) -> Clause | None:
    """The main clause of a sentence that begins with a noun phrase; None where it is not that plain."""
    text = _CONNECTIVE.sub("", sentence.strip().rstrip(".").strip())
    if fronted := _FRONTED.fullmatch(text):  # "In 2005, the fee rose" -> "the fee rose in 2005"
        moved = f"{fronted['phrase'][0].lower()}{fronted['phrase'][1:]}"
        text = f"{fronted['rest'][0].upper()}{fronted['rest'][1:]} {moved}"
    else:
        text = f"{text[:1].upper()}{text[1:]}"
    tokens = [match.group() for match in _TOKEN.finditer(text)]
    if len(tokens) < 5 or text[-1:] in "?!:;" or not (tokens[0][:1].isupper() or tokens[0][:1].isdigit()):
        return None
    if tokens[0].lower().strip(",'") in PRONOUNS | _PREPOSITIONS | _SUBORDINATE:
        return None
    if tokens[0].lower() in forms() and tokens[1].lower() in _DETERMINERS:  # "Bring the papers"
        return None
    for place in range(1, min(len(tokens) - 2, _LONGEST_SUBJECT + 1)):
        word = tokens[place]
        before = tokens[place - 1].lower()
        if any(mark in tokens[place - 1] for mark in ",;:(") or before in _SUBORDINATE or word in _SUBORDINATE:
            return None
        if before in _DETERMINERS or before in _PREPOSITIONS:
            continue
        found = _verb(tokens, place)
        if found is not None:
            form, base = found
            subject = " ".join(tokens[:place])
            return Clause(subject, word.lower(), " ".join(tokens[place + 1 :]), form, base)
    return None


def _verb(tokens: Sequence[str], place: int) -> tuple[str, str] | None:
    """The form and base of the finite verb at ``place``, both empty for an auxiliary; None where there is none."""
    word = tokens[place]
    if word in BE_HAVE_MODAL:
        return "", ""
    known = forms().get(word)
    if known is None:
        return None
    following = tokens[place + 1].lower().strip(",.;:") if place + 1 < len(tokens) else ""
    head = tokens[place - 1].strip(",'\"")
    noun = following in BE_HAVE_MODAL or (following in forms() and not _opens_phrase(following))  # "the claim lapses"
    agrees = {
        BASE: head.endswith("s") and not head.endswith("ss"),  # a plural subject ends in s; "a buyer may" has none
        THIRD: not head.endswith("s") or head.endswith(("ss", "us", "is")),
        PAST: following != "by",  # else it is a participle: "the report published by ..."
    }
    return known if agrees[known[0]] and not noun else None


def _opens_phrase(word: str) -> bool:
    return word in _DETERMINERS or word in _PREPOSITIONS
