"""Similarity threshold: keep the candidates whose score comes near the best one."""

from ragsmith.plugins import Count, Share
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import normalize, rank
from ragsmith.types import Hits, Question


@passage_filter(paper="https://arxiv.org/abs/2511.01386", choices={"threshold": (0.4, 0.6, 0.8)})
def similarity_threshold(
    question: Question,
    hits: Hits,
    *,
    threshold: Share = 0.6,
    keep_at_least: Count = 1,
    keep_at_most: Count = 10,
) -> Hits:
    """Keep candidates that score at least ``threshold`` on the way from the worst candidate (0) to the best (1).

    Helps when the number of useful passages differs between questions: where the scores fall off early, few are kept.
    Costs nothing. Scores are min-max scaled over the candidates first, because a fixed number means something else on
    every scale: 0.6 is an ordinary cosine, no reciprocal rank fusion reaches it, BM25 always does, and a
    cross-encoder's score may be negative. Min-max is the one scaling that no shift or stretch of a scale can change.
    """
    if not 1 <= keep_at_least <= keep_at_most or not 0 <= threshold <= 1:
        raise ValueError(
            f"passage_filter.similarity_threshold: threshold is {threshold}, keep_at_least {keep_at_least}, "
            f"keep_at_most {keep_at_most}; give a threshold from 0 to 1 and 1 <= keep_at_least <= keep_at_most"
        )
    order = rank(hits)
    near = sum(score >= threshold for score in normalize(order, "minmax"))
    return order[: min(keep_at_most, max(keep_at_least, near))]
