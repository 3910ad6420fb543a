"""Average precision (Buckley and Voorhees 2000); its mean over the questions is mAP."""

from collections.abc import Collection, Iterable

from ragsmith.measures.case import Case
from ragsmith.measures.rankings import gains
from ragsmith.measures.registry import measure


def average_precision(ranking: Iterable[str], relevant: Collection[str]) -> float:
    """Return the mean, over the relevant chunks, of the precision at their ranks; the whole ranking counts."""
    found, total = 0, 0.0
    for rank, gain in enumerate(gains(ranking, relevant), 1):
        if gain:
            found += 1
            total += found / rank
    return total / len(relevant)


@measure(name="map", label="mAP", subject="ranking", paper="https://doi.org/10.1145/345508.345543")
def average_precision_of_the_filtered(case: Case) -> float:
    """The mean, over the relevant chunks, of the precision at their ranks; all that passed the filter counts."""
    return average_precision(case.ranking, case.relevant)
