"""Recall at a cut-off (Cleverdon 1967): how much of what is relevant was found."""

from collections.abc import Collection, Iterable

from ragsmith.measures.case import Case
from ragsmith.measures.rankings import gains
from ragsmith.measures.registry import measure

PAPER = "https://doi.org/10.1108/eb050097"


def recall_at(ranking: Iterable[str], relevant: Collection[str], k: int = 5) -> float:
    """Return the share of the relevant chunks among the first ``k``."""
    return sum(gains(ranking, relevant, k)) / len(relevant)


@measure(label="Recall@5", subject="ranking", paper=PAPER)
def recall(case: Case) -> float:
    """The share of the relevant chunks among the first 5 that passed the filter."""
    return recall_at(case.ranking, case.relevant, 5)


@measure(label="Pool recall@50", subject="ranking", paper=PAPER)
def recall_50(case: Case) -> float:
    """The recall of the first 50 candidates before reranking and filter, or of all where fewer are fetched.

    It bounds what reranking can bring up. How deep query expansion and retrieval fetch bounds it in turn.
    """
    return recall_at(case.units(case.pool), case.relevant, 50)
