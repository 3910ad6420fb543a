"""Word a drafted question away from its evidence: people who have not read a text use other words than it does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragsmith.digest import digest
from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.english.synonyms import synonyms
from ragsmith.labelling.drafting.english.verbs import listed
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.words import STOP_WORDS, terms

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85, 1.0)
"""Shares of a question's words that its evidence has, one drawn for each draft."""

MEASURES = listed(
    """
    second seconds minute minutes hour hours day days week weeks month months quarter quarters year years decade
    decades metre metres meter meters kilometre kilometres kilometer kilometers mile miles inch inches foot feet
    gram grams kilogram kilograms ton tons litre litres percent euro euros dollar dollars pound pounds degree
    degrees first second third one two three four five six seven eight nine ten half double twice more less
    fewer before after above below highest lowest most least maximum minimum increase decrease many much long
    """
)
"""Related words of these mean something else: who asks for days does not ask for hours."""

_TOKEN = re.compile(r"[^\W\d_]+|[\W\d_]+")
_ARTICLE = re.compile(r"\b(?P<article>[Aa]n?) (?P<word>[a-z]{2,})\b")
_ENDINGS = ("ing", "ed", "ly", "es", "s")


def reworded(draft: Draft, material: Material, shares: Sequence[float] = SHARES) -> Draft:
    """The draft with words of its evidence replaced until no more than a share of its question's words are left.

    Names, numbers and labels stay. A plain synonym goes before a related word of the documents. The share is drawn by
    the draft's content: the same draft is always worded the same.
    """
    if material.language != "en":
        return draft
    wanted = shares[int(digest("share", draft.id)[:8], 16) % len(shares)]
    quoted = frozenset(term for quote in draft.quotes for term in terms(quote.text))
    tokens = _TOKEN.findall(draft.question)
    for place, other in _replacements(draft.question, tokens, quoted, material):
        if overlap("".join(tokens), quoted) <= wanted:
            break
        tokens[place] = other
    return draft.asked(_ARTICLE.sub(_article, "".join(tokens)))


def overlap(question: str, quoted: frozenset[str]) -> float:
    """The share of the question's distinct words that the evidence has, stemmed and without function words."""
    own = frozenset(terms(question))
    return len(own & quoted) / len(own) if own else 0.0


def _replacements(
    question: str, tokens: Sequence[str], quoted: frozenset[str], material: Material
) -> Iterator[tuple[int, str]]:
    """Yield the number of a token and what it may become; words are taken in an order drawn by the question."""
    able = [i for i, token in enumerate(tokens) if _is_plain(token, i, material) and set(terms(token)) & quoted]
    able.sort(key=lambda i: digest("order", question, i))
    known = synonyms()
    for i in able:
        others = [other for other in known.get(tokens[i].lower(), ()) if not set(terms(other)) & quoted]
        if others:
            yield i, others[int(digest("synonym", question, i)[:6], 16) % len(others)]
        elif other := _related(tokens[i], quoted, material):
            yield i, other


def _related(word: str, quoted: frozenset[str], material: Material) -> str | None:
    """The nearest related word of the documents that ends alike and is not in the evidence."""
    for other in material.thesaurus.related(word.lower(), 6):
        if (
            other.islower()
            and not {word.lower(), other} & MEASURES
            and _ending(other) == _ending(word.lower())
            and not set(terms(other)) & quoted
        ):
            return other
    return None


def _is_plain(token: str, place: int, material: Material) -> bool:
    if len(token) < 3 or not token.isalpha() or token.lower() in STOP_WORDS or place == 0:
        return False
    return token.islower()


def _ending(word: str) -> str:
    return next((ending for ending in _ENDINGS if word.endswith(ending)), "")


def _article(found: re.Match[str]) -> str:
    vowel = found["word"][0] in "aeiou" and not found["word"].startswith(("uni", "use", "usu", "one", "eu"))
    return f"{found['article'][0]}{'n' if vowel else ''} {found['word']}"
