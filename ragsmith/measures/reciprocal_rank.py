"""Reciprocal rank (Voorhees 2001); its mean over the questions is MRR."""

from collections.abc import Collection, Iterable

from ragsmith.measures.case import Case
from ragsmith.measures.rankings import gains
from ragsmith.measures.registry import measure


def reciprocal_rank(ranking: Iterable[str], relevant: Collection[str]) -> float:
    """Return ``1 / rank`` of the first relevant chunk, 0 if there is none; the whole ranking counts."""
    return next((1 / rank for rank, gain in enumerate(gains(ranking, relevant), 1) if gain), 0.0)


@measure(label="MRR", subject="ranking", paper="https://doi.org/10.1017/S1351324901002789")
def mrr(case: Case) -> float:
    """1 / rank of the first relevant chunk among all that passed the filter, 0 if there is none."""
    return reciprocal_rank(case.ranking, case.relevant)
