"""NR: keep the chunks that say much about the question and little that the others say (Verma et al. 2026, eq. 2)."""

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
    """Keep the ``share`` of the candidates whose relevance most exceeds their redundancy.

    Helps when candidates repeat each other and the generator reads few of them; it drops evidence that is in passages
    similar to each other. Costs one embedding for each question and chunk, and no call. Relevance is the cosine with
    the question, redundancy the cosines with the other candidates. Candidates keep their scores, and so their order.

    ``count`` is the paper's rule; ``nucleus`` reads its "top p%" as a share of the softmax weights. Both score all
    candidates at once, so that of two equal chunks both may be kept. ``greedy`` chooses one after the other by
    relevance less the largest cosine with a chunk already chosen (MMR, Carbonell & Goldstein 1998), so that a copy is
    chosen only before much less relevant chunks; ties go to the less redundant. ``alpha`` matters only to ``nucleus``,
    ``divisor`` to all but ``greedy``: the paper leaves its Z open, here it is the number of ``others``, of ``all``, or
    ``sum_abs``, the sum of the absolute cosines of all pairs.

    The defaults are the paper's. After hybrid search with a cross-encoder ``count`` lost the least recall of the three
    on the search questions of seven data sets. ``keep_at_most`` is an addition, by default larger than any list: with
    10 of 20 candidates ``count`` and ``nucleus`` keep the same.
    """
    order = rank(hits)
    texts = [hit.chunk.text for hit in order]
    relevance = cosines_with(embedder, question.text, texts)
    kept = choose(relevance, cosines(embedder, texts), mode, share, alpha, divisor, keep_at_most)
    return tuple(order[i] for i in sorted(kept))


def cosines(embedder: Embedder, texts: Sequence[str]) -> Matrix:
    """Return the cosine of every two ``texts``; 0 with a text without tokens."""
    if not texts:
        return []
    vectors = embedder.embed(texts).astype(np.float64)
    return [_round(row) for row in vectors @ vectors.T]


def cosines_with(embedder: Embedder, query: str, texts: Sequence[str]) -> Sequence[float]:
    """Return the cosine of ``query`` with each of ``texts``."""
    if not texts:
        return []
    return _round(embedder.embed(texts).astype(np.float64) @ embed_queries(embedder, [query])[0].astype(np.float64))


def choose(
    relevance: Sequence[float],
    similarity: Matrix,
    mode: str,
    share: float,
    alpha: float,
    divisor: str,
    keep_at_most: int,
) -> tuple[int, ...]:
    """Return the positions to keep, the best first; ties go to the earlier one."""
    few = max(1, math.ceil(round(share * len(relevance), 9)))
    if mode == "greedy":
        return greedy(relevance, similarity)[: min(few, keep_at_most)]
    rho = contrast(relevance, similarity, divisor)
    order = sorted(range(len(rho)), key=lambda i: -rho[i])
    if mode == "nucleus":
        shares = weights(rho, alpha)
        few = nucleus([shares[i] for i in order], share)
    return tuple(order[: min(few, keep_at_most)])


def contrast(relevance: Sequence[float], similarity: Matrix, divisor: str = "others") -> tuple[float, ...]:
    """Return relevance less redundancy; ``sum_abs`` sums over all pairs, as a sum for each chunk would make all 1."""
    n = len(relevance)
    others = [[similarity[i][j] for j in range(n) if j != i] for i in range(n)]
    total = math.fsum(abs(cosine) for row in others for cosine in row)
    z = {"others": n - 1, "all": n, "sum_abs": total}[divisor] or 1  # a chunk alone, or unlike all: nothing to divide
    # rho(i) = rel(i) - red(i), red(i) = 1/Z sum over j != i of cos(e_i, e_j); rounded, so that equals tie
    return tuple(round(rel - math.fsum(row) / z, 9) for rel, row in zip(relevance, others, strict=True))


def weights(rho: Sequence[float], alpha: float = 5.0) -> tuple[float, ...]:
    """Return the softmax of ``alpha * rho``."""
    highest = max(rho, default=0.0)
    powers = [math.exp(alpha * (value - highest)) for value in rho]  # w(i) = exp(alpha rho(i)) / sum_j ..., eq. 2
    total = math.fsum(powers)
    return tuple(power / total for power in powers)


def nucleus(falling: Sequence[float], share: float) -> int:
    """Return the length of the smallest prefix of ``falling`` weights that holds ``share`` of their sum."""
    lengths = range(1, len(falling))
    return next((n for n in lengths if round(math.fsum(falling[:n]) - share, 9) >= 0), len(falling))


def greedy(relevance: Sequence[float], similarity: Matrix) -> tuple[int, ...]:
    """Return all positions, each time the one of most relevance less its largest cosine with those before it."""
    order: list[int] = []
    redundancy = [0.0] * len(relevance)  # never below: to say the opposite is no merit
    waiting = list(range(len(relevance)))
    while waiting:
        best = max(waiting, key=lambda i: (round(relevance[i] - redundancy[i], 9), -redundancy[i]))
        waiting.remove(best)
        order.append(best)
        redundancy = [max(known, similarity[i][best]) for i, known in enumerate(redundancy)]
    return tuple(order)


def _round(values: NDArray[np.float64]) -> list[float]:
    rounded: list[float] = np.round(values, 6).tolist()  # the last bits differ between machines; choices must not
    return rounded
