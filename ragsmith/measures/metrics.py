"""Scores of one question: of a ranking, of an answer, of the passages' variety.

A ranking is a sequence of chunk ids, best first; of an id that is repeated only the first occurrence counts.
``relevant`` is the set of chunk ids that are right (``relevance.Relevance.relevant``); gains are binary, but for
``graded_ndcg_at``. A question with nothing to find has no retrieval score: these functions raise ``ValueError`` rather
than call it 0.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragsmith.datasets.relevance import overlap
from ragsmith.text.words import normalise_answer
from ragsmith.types import Span


def recall_at(ranking: Iterable[str], relevant: AbstractSet[str], k: int = 5) -> float:
    """Return the share of the relevant chunks among the first ``k``."""
    return sum(_gains(ranking, relevant, k)) / len(relevant)


def success_at(ranking: Iterable[str], relevant: AbstractSet[str], k: int = 5) -> float:
    """Return 1 if a relevant chunk is among the first ``k``, else 0."""
    return float(any(_gains(ranking, relevant, k)))


def average_precision(ranking: Iterable[str], relevant: AbstractSet[str]) -> float:
    """Return the mean, over the relevant chunks, of the precision at their ranks; the whole ranking counts."""
    found, total = 0, 0.0
    for rank, gain in enumerate(_gains(ranking, relevant), 1):
        if gain:
            found += 1
            total += found / rank
    return total / len(relevant)


def reciprocal_rank(ranking: Iterable[str], relevant: AbstractSet[str]) -> float:
    """Return ``1 / rank`` of the first relevant chunk, 0 if there is none; the whole ranking counts."""
    return next((1 / rank for rank, gain in enumerate(_gains(ranking, relevant), 1) if gain), 0.0)


def ndcg_at(ranking: Iterable[str], relevant: AbstractSet[str], k: int = 5) -> float:
    """Return the discounted gain of the first ``k`` as a share of the best possible (Järvelin and Kekäläinen 2002)."""
    ideal = _dcg([True] * min(len(relevant), k))
    return _dcg(_gains(ranking, relevant, k)) / ideal


def graded_ndcg_at(ranking: Iterable[str], grades: Mapping[str, float], k: int = 10) -> float:
    """Return nDCG with a gain for each relevant chunk (``relevance.Relevance.grades``), linear in it.

    The best possible ranking has the highest gains first. With equal gains it is ``ndcg_at``.
    """
    _something_to_find(grades, k)
    ideal = sorted(grades.values(), reverse=True)[:k]
    return _dcg([grades.get(key, 0.0) for key in dict.fromkeys(ranking)][:k]) / _dcg(ideal)


def span_recall_at(retrieved: Iterable[Span], evidence: Iterable[Span], k: int = 5) -> float:
    """Return the share of the gold spans of which the first ``k`` retrieved spans, together, cover at least half.

    Unlike the other metrics it does not depend on how many chunks a gold span was cut into. A repeated span counts
    once, in either argument.
    """
    gold = tuple(dict.fromkeys(evidence))
    _something_to_find(gold, k)
    top = list(dict.fromkeys(retrieved))[:k]
    return sum(2 * _covered(span, top) >= max(1, span.end - span.start) for span in gold) / len(gold)


def exact_match(answer: str, reference: str) -> float:
    """Return 1 if the two texts agree after SQuAD's normalisation, else 0."""
    return float(normalise_answer(answer) == normalise_answer(reference))


def token_f1(answer: str, reference: str) -> float:
    """Return the harmonic mean of precision and recall of words (SQuAD); 1 if both texts are empty, 0 if one is."""
    given, wanted = (normalise_answer(text).split() for text in (answer, reference))
    if not given or not wanted:
        return float(given == wanted)
    shared = (Counter(given) & Counter(wanted)).total()
    return 2 * shared / (len(given) + len(wanted))  # = 2PR / (P + R) with P = shared/given, R = shared/wanted


@dataclass(frozen=True, slots=True)
class Redundancy:
    """How alike passages are: the share of their pairs with a cosine above a threshold, and the mean cosine of all."""

    ratio: float
    mean_cosine: float


def redundancy(vectors: ArrayLike, threshold: float = 0.85) -> Redundancy | None:
    """Return how much passages repeat each other; ``vectors``: ``(n, dimensions)``.

    None for fewer than two passages, which have no pair; leave them out of a mean, and say how many. A vector of zeros
    has cosine 0 with everything. The values depend on the embedder: report it alongside. Six decimals, so that the last
    bits of a cosine, which differ between machines, decide nothing.
    """
    matrix = np.asarray(vectors, dtype=np.float64)
    if len(matrix) < 2:
        return None
    products = matrix @ matrix.T
    lengths = np.sqrt(products.diagonal())
    lengths[lengths == 0] = np.inf
    cosines = np.round(products / lengths / lengths[:, np.newaxis], 6)[_pairs(len(matrix))].tolist()
    above = sum([cosine > threshold for cosine in cosines])
    return Redundancy(round(above / len(cosines), 6), round(math.fsum(cosines) / len(cosines), 6))


@lru_cache(maxsize=256)
def _pairs(n: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the positions above the diagonal of an ``n`` × ``n`` matrix: each pair once."""
    rows, columns = np.triu_indices(n, 1)
    return rows, columns


def _gains(ranking: Iterable[str], relevant: AbstractSet[str], k: int | None = None) -> list[bool]:
    """Return, for each of the first ``k`` distinct ids, whether it is relevant."""
    _something_to_find(relevant, k)
    return [key in relevant for key in dict.fromkeys(ranking)][:k]


def _something_to_find(gold: AbstractSet[str] | Mapping[str, float] | Sequence[Span], k: int | None) -> None:
    if not gold:
        raise ValueError("a question without gold evidence has no retrieval score: leave it out of the mean")
    if k is not None and k < 1:
        raise ValueError(f"a ranking is scored on its first k entries and k is {k}: give 1 or more")


def _dcg(gains: Sequence[float]) -> float:
    return sum([gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1) if gain])


def _covered(gold: Span, spans: Sequence[Span]) -> int:
    """Return how many characters of ``gold`` lie in at least one of ``spans``."""
    covered, reached = 0, gold.start
    for span in sorted((s for s in spans if overlap(s, gold)), key=lambda s: s.start):
        covered += max(0, min(span.end, gold.end) - max(span.start, reached))
        reached = max(reached, span.end)
    return covered
