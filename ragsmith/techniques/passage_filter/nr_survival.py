"""NR on survival: contrastive noise removal (ReflectiveRAG) with NEST's survival score as relevance (Verma et al.)."""

import math
from typing import Annotated

from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Amount, Count, Range
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.techniques.passage_filter.nr import DIVISORS, MODES, pairwise_cosines, select_positions
from ragsmith.types import Hits, Question


@passage_filter(
    paper="Verma et al., ReflectiveRAG, EACL 2026, industry track",
    choices={"mode": MODES, "share": (0.3, 0.5), "divisor": DIVISORS},
    after={"retrieval": ("nest",)},
)
def nr_survival(
    question: Question,
    hits: Hits,
    *,
    embedder: Embedder,
    mode: str = "count",
    share: Annotated[float, Range(0.01, 1)] = 0.7,
    alpha: Amount = 5.0,
    divisor: str = "others",
    keep_at_most: Count = 100,
) -> Hits:
    """Keep the ``share`` of the candidates with the highest difference of NEST's survival score and redundancy.

    Helps when similarity to the question is unreliable: chunks retrieved at document, section and chunk level are
    likely to be relevant. Costs one embedding per chunk and no call. Only after ``nest``, which records the ranks;
    scores of rerankers are not used.

    Relevance is the mean of 1/rank over all scopes, 0 where a chunk was not retrieved (the corrected form of NEST's
    score), divided by that of the best candidate, so that it has the range of cosines. Otherwise the method is ``nr``.
    The two papers do not combine the methods; NEST's own filter, NR-MRR, is ``survival_mrr``.
    """
    order = rank(hits)
    similarity = pairwise_cosines(embedder, [hit.chunk.text for hit in order])
    selected = select_positions(compute_survival(order), similarity, mode, share, alpha, divisor, keep_at_most)
    return tuple(order[i] for i in sorted(selected))


def compute_survival(hits: Hits) -> tuple[float, ...]:
    """Return the mean reciprocal rank of each hit over all scopes, divided by the maximum.

    Raises:
        ValueError: no hit has a survival profile.
    """
    scopes = max((len(hit.survival) for hit in hits), default=0)
    if hits and not scopes:
        raise ValueError("passage_filter.nr_survival: no candidate has a survival profile; use it after retrieval.nest")
    # MRR(c) = 1/|scopes| * sum of 1/r(c) over the scopes where c was retrieved
    means = [math.fsum(1 / rank for _, rank in hit.survival) / scopes for hit in hits]
    return tuple(mean / max(means) for mean in means)
