"""Keyword router: choose a search strategy by the words of the question ("Beyond the Reranker", Singh et al.)."""

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
"""The strategies of all routers: the question alone, with a hypothetical passage, or with a broader question."""

_QUESTION_WORDS = frozenset(words("who whom whose what when where which why how"))
_AUXILIARIES = frozenset(
    words("am is are was were do does did has have had can could may might must shall should will would")
)
_BREADTH_WORDS = frozenset(
    words(
        """
        advantages all categories compare compares comparison contrast difference differences differ disadvantages kinds
        list main outline overall overview summarise summarize summary types various
        """
    )
)
_OTHER_ALL = re.compile(r"\b(?:after|above|at|first of|in) all\b", re.IGNORECASE)
_QUANTITY_WORDS = frozenset(
    words("big deep far fast heavily high large late little long many much often old soon tall")
)
_FACT_NOUNS = frozenset(
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
    """Search with the question, a hypothetical passage or a broader question, chosen by the words of the question.

    Helps when questions differ in kind and calls are expensive. Costs no call, or that of the chosen strategy:
    ``dual_path`` or ``step_back``.

    Differences from the paper: its rule (``as_printed``) chooses ``dual_path`` for every question with a question mark
    or an initial question word, which in a set of questions is all of them. ``corrected`` ignores the mark and uses the
    question word: who, when, where, which and how many ask for one fact, which the words of the question find and which
    a language model can only invent; the same holds for yes/no questions. Why, how and what ask for an explanation,
    whose words a hypothetical passage shares. Both rules choose ``step_back`` for a word of breadth (overview, compare,
    all, ...); ``corrected`` only in the last sentence, and not in "at all".
    """
    strategy = choose_corrected(question.text) if rule == "corrected" else choose_as_printed(question.text)
    return search_by_strategy(strategy, question, search, language_model=language_model, depth=depth)


def search_by_strategy(
    strategy: str, question: Question, search: Search, *, language_model: LanguageModel, depth: int
) -> Hits:
    """Search by one of `STRATEGIES`."""
    if strategy == "semantic":
        return search((question.text,))[0][:depth]
    expand = dual_path if strategy == "dual_path" else step_back
    return expand(question, search, language_model=language_model, depth=depth)


def compute_ndcgs(rankings: Iterable[Hits], gold: Gold) -> list[float]:
    """Return the nDCG@10 of each ranking."""
    return [ndcg_at((hit.chunk.id for hit in hits), gold.relevant, 10) for hits in rankings]


def choose_as_printed(text: str) -> str:
    """Choose a strategy by the rule of the paper."""
    if has_breadth_word(text):
        return "step_back"
    is_question = not (_QUESTION_WORDS | _AUXILIARIES).isdisjoint(words(text)[:1])
    return "dual_path" if "?" in text or is_question else "semantic"


def choose_corrected(text: str) -> str:
    """Choose a strategy by the question word of the last sentence, as earlier ones only describe the case."""
    start, end = (sentences(text) or [(0, 0)])[-1]
    if has_breadth_word(_OTHER_ALL.sub(" ", text[start:end])):
        return "step_back"
    question_words = words(text[start:end])
    position = next((i for i, word in enumerate(question_words) if word in _QUESTION_WORDS), None)
    if position is None or question_words[0] in _AUXILIARIES:
        return "semantic"
    after = set(question_words[position + 1 : position + 2])
    explains = {"why": True, "how": not after & _QUANTITY_WORDS, "what": not after & _FACT_NOUNS}
    return "dual_path" if explains.get(question_words[position]) else "semantic"


def has_breadth_word(text: str) -> bool:
    """Whether the text has a word of breadth."""
    return not _BREADTH_WORDS.isdisjoint(words(text))
