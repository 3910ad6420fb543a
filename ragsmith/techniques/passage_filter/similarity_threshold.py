"""Similarity threshold: keep candidates with scores close to the best one."""

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
    """Keep candidates with a min-max scaled score of at least ``threshold``: the worst has 0, the best 1.

    Helps when the number of relevant passages varies between questions: if scores drop early, few are kept. Costs
    nothing. Scores are min-max scaled over the candidates because a constant is not comparable between scales: 0.6 is a
    typical cosine, is never reached by reciprocal rank fusion and always by BM25, and scores of cross-encoders may be
    negative. Min-max scaling is invariant to shifts and positive rescaling of the scores.
    """
    if not 1 <= keep_at_least <= keep_at_most or not 0 <= threshold <= 1:
        raise ValueError(
            f"passage_filter.similarity_threshold: threshold is {threshold}, keep_at_least {keep_at_least}, "
            f"keep_at_most {keep_at_most}; give a threshold from 0 to 1 and 1 <= keep_at_least <= keep_at_most"
        )
    order = rank(hits)
    accepted = sum(score >= threshold for score in normalize(order, "minmax"))
    return order[: min(keep_at_most, max(keep_at_least, accepted))]
