"""Word a drafted question away from its evidence: people who have not read a text use other words than it does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ragsmith.digest import digest
from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.english.synonyms import NOUNS_TOO, nouns, verbs
from ragsmith.labelling.drafting.english.verbs import forms, listed
from ragsmith.labelling.drafting.material import Material
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import STOP_WORDS, terms

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
"""Shares of a question's words that its evidence has, one drawn for each draft.

They are about the deciles of people's questions: of the search questions of `law` and `workshop`, and of those on ten
articles on finance.
"""

_TOKEN = re.compile(r"[^\W\d_]+|[\W\d_]+")
_ARTICLE = re.compile(r"\b(?P<article>[Aa]n?) (?P<word>[a-z]{2,})\b")
_BEFORE_VERB = listed("to must may can could should shall will would cannot not who what which that be")
_BEFORE_NOUN = listed("a an the any every each this that these those its his her their no of in on for by with from at")


def reworded(draft: Draft, material: Material, shares: Sequence[float] = SHARES) -> Draft:
    """The draft with words of its evidence replaced until no more than a share of its question's words are left.

    Names, numbers and labels stay, and so does what has no plain synonym. The share is drawn by the draft's content:
    the same draft is always worded the same. Only English is reworded.
    """
    passage = material.passage_at(draft.passage)
    if passage is None or passage.language != ENGLISH:
        return draft
    wanted = shares[int(digest("share", draft.id)[:8], 16) % len(shares)]
    near = words_near(draft, material)
    tokens = _TOKEN.findall(draft.question)
    for place, other in _replacements(draft.question, tuple(tokens), near):
        if overlap("".join(tokens), near) <= wanted:
            break
        tokens[place] = other
    return draft.asked(_ARTICLE.sub(_article, "".join(tokens)))


def words_near(draft: Draft, material: Material) -> frozenset[str]:
    """The words of the evidence, and of the title and headings above it, stemmed."""
    above = (
        f"{passage.title} {' '.join(passage.headings)}"
        for quote in draft.quotes
        if (passage := material.passage_at(quote.span)) is not None
    )
    return frozenset(term for text in (*above, *(quote.text for quote in draft.quotes)) for term in terms(text))


def overlap(question: str, near: frozenset[str]) -> float:
    """The share of the question's distinct words that are among ``near``, stemmed and without function words."""
    own = frozenset(terms(question))
    return len(own & near) / len(own) if own else 0.0


def _replacements(question: str, tokens: Sequence[str], near: frozenset[str]) -> Iterator[tuple[int, str]]:
    """Yield the number of a token and what it may become; words are taken in an order drawn by the question."""
    able = [i for i, token in enumerate(tokens) if i and _is_plain(token) and set(terms(token)) & near]
    able.sort(key=lambda i: digest("order", question, i))
    for i in able:
        before = next((token.lower() for token in reversed(tokens[:i]) if token.isalpha()), "")
        others = [other for other in _synonyms(tokens[i], before) if not set(terms(other)) & near]
        if others:
            yield i, others[int(digest("synonym", question, i)[:6], 16) % len(others)]


def _synonyms(word: str, before: str) -> Sequence[str]:
    """What people say for a word; the word before it tells whether it is a noun or a verb."""
    base = forms().get(word, ("", word))[1]
    if before in _BEFORE_VERB and before not in _BEFORE_NOUN:
        return verbs().get(word, nouns().get(word, ()) if word not in forms() else ())
    if before in _BEFORE_NOUN:
        return nouns().get(word, ())
    if base in NOUNS_TOO:
        return ()
    return nouns().get(word, ()) or verbs().get(word, ())


def _is_plain(token: str) -> bool:
    return len(token) > 2 and token.isalpha() and token.islower() and token not in STOP_WORDS


def _article(found: re.Match[str]) -> str:
    vowel = found["word"][0] in "aeiou" and not found["word"].startswith(("uni", "use", "usu", "one", "eu"))
    return f"{found['article'][0]}{'n' if vowel else ''} {found['word']}"
