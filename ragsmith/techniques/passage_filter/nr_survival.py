"""NR on survival: contrastive noise removal (ReflectiveRAG) with NEST's survival score as relevance (Verma et al.)."""

import math
from typing import Annotated

from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Amount, Count, Range
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.techniques.passage_filter.nr import DIVISORS, MODES, choose, cosines
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
    """Keep the ``share`` of the candidates that survived best across NEST's scopes and repeat the others least.

    Helps when the wording of a question is a poor guide: if document, section and chunk were all found, the evidence is
    likely to be relevant. Costs one embedding a chunk and no call. Only after ``nest``, which writes the ranks that are
    read; scores of rerankers are not used.

    Relevance is the mean of 1/rank over all scopes, 0 where a chunk was not found (the corrected form of NEST's score),
    divided by that of the best candidate, so that it has the range of cosines. Otherwise it is ``nr``. The two papers
    do not combine the methods; NEST's own cut, NR-MRR, is ``survival_mrr``.
    """
    order = rank(hits)
    similarity = cosines(embedder, [hit.chunk.text for hit in order])
    kept = choose(mean_survival(order), similarity, mode, share, alpha, divisor, keep_at_most)
    return tuple(order[i] for i in sorted(kept))


def mean_survival(hits: Hits) -> tuple[float, ...]:
    """Return the mean reciprocal rank of each hit over all scopes, as a share of the best one's.

    Raises:
        ValueError: no hit has a survival profile.
    """
    scopes = max((len(hit.survival) for hit in hits), default=0)
    if hits and not scopes:
        raise ValueError("passage_filter.nr_survival: no candidate has a survival profile; use it after retrieval.nest")
    # MRR(c) = 1/|scopes| * sum over the scopes where c was found of 1/r(c)
    means = [math.fsum(1 / rank for _, rank in hit.survival) / scopes for hit in hits]
    return tuple(mean / max(means) for mean in means)
