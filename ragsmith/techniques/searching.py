"""Search with several queries at once and fuse their rankings, as most query expansions do."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ragsmith.techniques.fusion import fuse
from ragsmith.types import Hits, Question, Rankings, Search


def fused_search(search: Search, queries: Iterable[str], combine: Callable[[Rankings], Hits]) -> Hits:
    """Search with each distinct query and ``combine`` the rankings; a single ranking keeps its scores."""
    rankings = search(tuple(dict.fromkeys(queries)))
    return rankings[0] if len(rankings) == 1 else combine(rankings)


def weighted_search(
    search: Search, question: Question, others: Iterable[str], weight: float, fusion: str = "convex"
) -> Hits:
    """Search with the question, whose share of the score is ``weight``, and ``others``, which share the rest equally.

    ``fusion`` is one of the `FUSIONS`.
    """

    def combine(rankings: Rankings) -> Hits:
        n = len(rankings) - 1
        return fuse(rankings, fusion, [weight] + [(1 - weight) / n] * n)

    return fused_search(search, (question.text, *others), combine)
