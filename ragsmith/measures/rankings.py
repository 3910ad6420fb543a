"""What the measures of a ranking share.

A ranking is a sequence of chunk ids, best first; of an id that is repeated only the first occurrence counts.
``relevant`` is the set of chunk ids that are right (``relevance.Relevance.relevant``). A question with nothing to find
has no score of its ranking: the functions of these measures raise ``ValueError`` rather than call it 0.
"""

from collections.abc import Collection, Iterable


def gains(ranking: Iterable[str], relevant: Collection[str], k: int | None = None) -> list[bool]:
    """Return, for each of the first ``k`` distinct ids, whether it is relevant."""
    something_to_find(relevant, k)
    return [key in relevant for key in dict.fromkeys(ranking)][:k]


def something_to_find(gold: Collection[object], k: int | None) -> None:
    """Raise ValueError where there is no gold, or nothing of the ranking is looked at."""
    if not gold:
        raise ValueError("a question without gold evidence has no retrieval score: leave it out of the mean")
    if k is not None and k < 1:
        raise ValueError(f"a ranking is scored on its first k entries and k is {k}: give 1 or more")
