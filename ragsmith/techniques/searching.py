"""Search with several queries at once and fuse what they find: what most query expansions end with."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ragsmith.techniques.fusion import fused
from ragsmith.types import Hits, Question, Rankings, Search


def fused_search(search: Search, queries: Iterable[str], fuse: Callable[[Rankings], Hits]) -> Hits:
    """Search with each of ``queries`` once and `fuse` the rankings; the hits of one query alone keep their scores."""
    rankings = search(tuple(dict.fromkeys(queries)))
    return rankings[0] if len(rankings) == 1 else fuse(rankings)


def weighted_search(
    search: Search, question: Question, others: Iterable[str], weight: float, fusion: str = "convex"
) -> Hits:
    """Search with the question and with ``others``, and combine the scores, in one of the `FUSIONS`.

    The question has the share ``weight`` of the score, and the other queries have equal shares of the rest.
    """

    def combined(rankings: Rankings) -> Hits:
        n = len(rankings) - 1
        return fused(rankings, fusion, [weight] + [(1 - weight) / n] * n)

    return fused_search(search, (question.text, *others), combined)
