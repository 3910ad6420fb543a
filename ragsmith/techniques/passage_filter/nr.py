"""NR: keep chunks that are relevant to the question and not redundant (Verma et al. 2026, eq. 2)."""

import math
from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.index import embed_queries
from ragsmith.models.protocols import Embedder
from ragsmith.plugins import Amount, Count, Range
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.types import Hits, Question

Matrix = Sequence[Sequence[float]]

MODES = ("count", "nucleus", "greedy")
DIVISORS = ("others", "all", "sum_abs")


@passage_filter(
    paper="Verma et al., ReflectiveRAG, EACL 2026, industry track",
    choices={"mode": MODES, "share": (0.3, 0.5), "divisor": DIVISORS},
)
def nr(
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
    """Keep the ``share`` of the candidates with the highest difference of relevance and redundancy.

    Helps when candidates are redundant and the generator reads few of them; it drops evidence in passages that are
    similar to each other. Costs one embedding per question and chunk, and no call. Relevance is the cosine with the
    question, redundancy the mean cosine with the other candidates. Scores and order of the candidates are unchanged.

    ``count`` is the paper's rule; ``nucleus`` interprets its "top p%" as a share of the softmax weights. Both score all
    candidates at once and may keep duplicates. ``greedy`` selects candidates one by one, by relevance less the
    maximum cosine with a selected chunk (MMR, Carbonell & Goldstein 1998), so that a duplicate only precedes much less
    relevant chunks; ties go to the less redundant. ``alpha`` applies only to ``nucleus``, ``divisor`` to all modes but
    ``greedy``: the paper does not define its Z, which is here the number of ``others``, of ``all``, or ``sum_abs``, the
    sum of the absolute cosines of all pairs.

    The defaults are the paper's. After hybrid search with a cross-encoder, ``count`` lost the least recall of the three
    modes on the search questions of seven data sets. ``keep_at_most`` is an addition, and its default exceeds the
    length of any list: with 10 of 20 candidates, ``count`` and ``nucleus`` select the same.
    """
    order = rank(hits)
    texts = [hit.chunk.text for hit in order]
    relevance = query_cosines(embedder, question.text, texts)
    selected = select_positions(relevance, pairwise_cosines(embedder, texts), mode, share, alpha, divisor, keep_at_most)
    return tuple(order[i] for i in sorted(selected))


def pairwise_cosines(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Return the matrix of cosines of ``texts``; a text without tokens has cosine 0."""
    if not texts:
        return []
    vectors = embedder.embed(texts).astype(np.float64)
    return [_round(row) for row in vectors @ vectors.T]


def query_cosines(embedder: Embedder, query: str, texts: Sequence[str]) -> Sequence[float]:
    """Return the cosine of ``query`` with each of ``texts``."""
    if not texts:
        return []
    return _round(embedder.embed(texts).astype(np.float64) @ embed_queries(embedder, [query])[0].astype(np.float64))


def select_positions(
    relevance: Sequence[float],
    similarity: Matrix,
    mode: str,
    share: float,
    alpha: float,
    divisor: str,
    keep_at_most: int,
) -> tuple[int, ...]:
    """Return the positions to keep, best first; ties go to the earlier position."""
    n = max(1, math.ceil(round(share * len(relevance), 9)))
    if mode == "greedy":
        return order_greedily(relevance, similarity)[: min(n, keep_at_most)]
    rho = compute_contrast(relevance, similarity, divisor)
    order = sorted(range(len(rho)), key=lambda i: -rho[i])
    if mode == "nucleus":
        weights = softmax_weights(rho, alpha)
        n = nucleus_size([weights[i] for i in order], share)
    return tuple(order[: min(n, keep_at_most)])


def compute_contrast(relevance: Sequence[float], similarity: Matrix, divisor: str = "others") -> tuple[float, ...]:
    """Return relevance less redundancy; ``sum_abs`` sums over all pairs, as sums by chunk would make it always 1."""
    n = len(relevance)
    others = [[similarity[i][j] for j in range(n) if j != i] for i in range(n)]
    total = math.fsum(abs(cosine) for row in others for cosine in row)
    z = {"others": n - 1, "all": n, "sum_abs": total}[divisor] or 1  # avoids 0 / 0
    # rho(i) = rel(i) - red(i), red(i) = 1/Z sum over j != i of cos(e_i, e_j); rounded, so that equals tie
    return tuple(round(rel - math.fsum(row) / z, 9) for rel, row in zip(relevance, others, strict=True))


def softmax_weights(rho: Sequence[float], alpha: float = 5.0) -> tuple[float, ...]:
    """Return the softmax of ``alpha * rho``."""
    highest = max(rho, default=0.0)
    powers = [math.exp(alpha * (value - highest)) for value in rho]  # w(i) = exp(alpha rho(i)) / sum_j ..., eq. 2
    total = math.fsum(powers)
    return tuple(power / total for power in powers)


def nucleus_size(descending: Sequence[float], share: float) -> int:
    """Return the length of the shortest prefix of ``descending`` weights with a sum of at least ``share``."""
    lengths = range(1, len(descending))
    return next((n for n in lengths if round(math.fsum(descending[:n]) - share, 9) >= 0), len(descending))


def order_greedily(relevance: Sequence[float], similarity: Matrix) -> tuple[int, ...]:
    """Return all positions, each chosen by relevance less the maximum cosine with the preceding ones."""
    order: list[int] = []
    redundancy = [0.0] * len(relevance)  # negative cosines count as 0
    remaining = list(range(len(relevance)))
    while remaining:
        best = max(remaining, key=lambda i: (round(relevance[i] - redundancy[i], 9), -redundancy[i]))
        remaining.remove(best)
        order.append(best)
        redundancy = [max(value, similarity[i][best]) for i, value in enumerate(redundancy)]
    return tuple(order)


def _round(values: NDArray[np.float64]) -> list[float]:
    rounded: list[float] = np.round(
        values, 6
    ).tolist()  # the last bits differ between machines, and the selection must not
    return rounded
