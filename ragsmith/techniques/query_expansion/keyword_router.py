"""Keyword router: choose how to search by the words of the question ("Beyond the Reranker", Singh et al.)."""

import re
from collections.abc import Iterable

from ragsmith.measures.rankings import ndcg_at
from ragsmith.models.protocols import LanguageModel
from ragsmith.plugins import Count
from ragsmith.techniques.families import query_expansion
from ragsmith.techniques.query_expansion.dual_path import dual_path
from ragsmith.techniques.query_expansion.step_back import step_back
from ragsmith.text.words import sentences, words
from ragsmith.types import Gold, Hits, Question, Search

STRATEGIES = ("semantic", "dual_path", "step_back")
"""The strategies of all routers: the question as it is, with an imagined passage, with a broader question."""

_WH = frozenset(words("who whom whose what when where which why how"))
_AUXILIARIES = frozenset(
    words("am is are was were do does did has have had can could may might must shall should will would")
)
_BREADTH = frozenset(
    words(
        """
        advantages all categories compare compares comparison contrast difference differences differ disadvantages kinds
        list main outline overall overview summarise summarize summary types various
        """
    )
)
_NOT_BREADTH = re.compile(r"\b(?:after|above|at|first of|in) all\b", re.IGNORECASE)
_QUANTITIES = frozenset(words("big deep far fast heavily high large late little long many much often old soon tall"))
_FACTS = frozenset(
    words(
        """
        age amount city colour company country court date day days fee month name number percentage period person place
        price rate share size sum time title word year years
        """
    )
)


@query_expansion(
    paper="Singh et al., Beyond the Reranker",
    choices={"rule": ("corrected", "as_printed")},
)
def keyword_router(
    question: Question, search: Search, *, language_model: LanguageModel, rule: str = "corrected", depth: Count = 20
) -> Hits:
    """Search plainly, with an imagined passage or with a broader question, by the words of the question.

    Helps when questions differ in kind and calls are expensive. Costs no call, or that of the strategy it chooses:
    ``dual_path`` or ``step_back``.

    Differences from the paper: its rule (``as_printed``) chooses ``dual_path`` for every question mark or initial
    question word, which in a set of questions is all of them. ``corrected`` ignores the mark and uses the question
    word: who, when, where, which and how many ask for one fact, which the question's own words find and a language
    model can only invent; so do questions for yes or no. Why, how and what ask for an explanation, whose words an
    imagined passage shares. In both a word of breadth (overview, compare, all, ...) means ``step_back``; corrected,
    only in the last sentence, and not in "at all".
    """
    strategy = correct(question.text) if rule == "corrected" else as_printed(question.text)
    return searched_by(strategy, question, search, language_model=language_model, depth=depth)


def searched_by(
    strategy: str, question: Question, search: Search, *, language_model: LanguageModel, depth: int
) -> Hits:
    """Search as one of `STRATEGIES` does."""
    if strategy == "semantic":
        return search((question.text,))[0][:depth]
    expand = dual_path if strategy == "dual_path" else step_back
    return expand(question, search, language_model=language_model, depth=depth)


def ndcg_of_each(rankings: Iterable[Hits], gold: Gold) -> list[float]:
    """Return the nDCG@10 of the hits of each strategy."""
    return [ndcg_at((hit.chunk.id for hit in hits), gold.relevant, 10) for hits in rankings]


def as_printed(text: str) -> str:
    """Choose a strategy by the rule of the paper."""
    if broad(text):
        return "step_back"
    opens = not (_WH | _AUXILIARIES).isdisjoint(words(text)[:1])
    return "dual_path" if "?" in text or opens else "semantic"


def correct(text: str) -> str:
    """Choose a strategy by what the last sentence, after whatever tells the case, asks for."""
    start, end = (sentences(text) or [(0, 0)])[-1]
    if broad(_NOT_BREADTH.sub(" ", text[start:end])):
        return "step_back"
    asked = words(text[start:end])
    position = next((i for i, word in enumerate(asked) if word in _WH), None)
    if position is None or asked[0] in _AUXILIARIES:
        return "semantic"
    after = set(asked[position + 1 : position + 2])
    explains = {"why": True, "how": not after & _QUANTITIES, "what": not after & _FACTS}
    return "dual_path" if explains.get(asked[position]) else "semantic"


def broad(text: str) -> bool:
    """Whether the text has a word of breadth."""
    return not _BREADTH.isdisjoint(words(text))
