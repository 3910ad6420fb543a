"""Normalised discounted cumulative gain (Järvelin and Kekäläinen 2002), with binary and with graded gains."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from ragsmith.measures.case import Case
from ragsmith.measures.rankings import gains, something_to_find
from ragsmith.measures.registry import measure

PAPER = "https://doi.org/10.1145/582415.582418"


def ndcg_at(ranking: Iterable[str], relevant: Collection[str], k: int = 5) -> float:
    """Return the discounted gain of the first ``k`` as a share of the best possible."""
    ideal = _dcg([True] * min(len(relevant), k))
    return _dcg(gains(ranking, relevant, k)) / ideal


def graded_ndcg_at(ranking: Iterable[str], grades: Mapping[str, float], k: int = 10) -> float:
    """Return nDCG with a gain for each relevant chunk (``relevance.Relevance.grades``), linear in it.

    The best possible ranking has the highest gains first. With equal gains it is ``ndcg_at``.
    """
    something_to_find(grades, k)
    ideal = sorted(grades.values(), reverse=True)[:k]
    return _dcg([grades.get(key, 0.0) for key in dict.fromkeys(ranking)][:k]) / _dcg(ideal)


def _dcg(gains: Sequence[float]) -> float:
    return sum([gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1) if gain])


@measure(label="nDCG@5", subject="ranking", paper=PAPER)
def ndcg(case: Case) -> float:
    """The discounted gain of the first 5 chunks that passed the filter, as a share of the best possible."""
    return ndcg_at(case.ranking, case.relevant, 5)


@measure(label="nDCG@10, graded", subject="ranking", paper=PAPER)
def ndcg_10(case: Case) -> float:
    """The discounted gain of the first 10, where a chunk gains the largest share of a gold span that it covers."""
    return graded_ndcg_at(case.ranking, case.relevance.units, 10)
