"""Success at a cut-off (top-k accuracy; Karpukhin et al. 2020): whether anything relevant was found."""

from collections.abc import Collection, Iterable

from ragsmith.measures.case import Case
from ragsmith.measures.rankings import gains
from ragsmith.measures.registry import measure

PAPER = "https://arxiv.org/abs/2004.04906"


def success_at(ranking: Iterable[str], relevant: Collection[str], k: int = 5) -> float:
    """Return 1 if a relevant chunk is among the first ``k``, else 0."""
    return float(any(gains(ranking, relevant, k)))


@measure(label="Success@5", subject="ranking", paper=PAPER)
def success(case: Case) -> float:
    """1 if a relevant chunk is among the first 5 that passed the filter, else 0."""
    return success_at(case.ranking, case.relevant, 5)


@measure(label="Success@10", subject="ranking", paper=PAPER)
def success_10(case: Case) -> float:
    """1 if a relevant chunk is among the first 10 that passed the filter, else 0."""
    return success_at(case.ranking, case.relevant, 10)
