"""Measures of rankings: mAP, nDCG, precision, recall, MRR, span recall and success at a cut-off.

A ranking is a sequence of chunk ids, best first; repeated ids are ignored. ``relevant`` is the set of relevant ids
(``relevance.Relevance.relevant``). For a question without relevant chunks the measures are undefined, and the functions
raise ``ValueError``.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from ragsmith.datasets.relevance import count_overlap
from ragsmith.measures.case import Case
from ragsmith.measures.registry import measure
from ragsmith.types import Span, get_chunks, places_of

CLEVERDON = "https://doi.org/10.1108/eb050097"
JARVELIN = "https://doi.org/10.1145/582415.582418"
KARPUKHIN = "https://arxiv.org/abs/2004.04906"


def binary_gains(ranking: Iterable[str], relevant: Collection[str], k: int | None = None) -> list[bool]:
    """Return, for each of the first ``k`` distinct ids, whether it is relevant."""
    check_gold(relevant, k)
    return [key in relevant for key in dict.fromkeys(ranking)][:k]


def check_gold(gold: Collection[object], k: int | None) -> None:
    """Raise `ValueError` if there is no gold, or the cut-off ``k`` is below 1."""
    if not gold:
        raise ValueError("a question without gold evidence has no retrieval score: leave it out of the mean")
    if k is not None and k < 1:
        raise ValueError(f"the cut-off k is {k}: give 1 or more")


# --- average precision (Buckley and Voorhees 2000); its mean over the questions is mAP -----------------------------


def average_precision(ranking: Iterable[str], relevant: Collection[str]) -> float:
    """Return the mean, over the relevant chunks, of the precision at their ranks, without cut-off."""
    n_relevant, total = 0, 0.0
    for rank, gain in enumerate(binary_gains(ranking, relevant), 1):
        if gain:
            n_relevant += 1
            total += n_relevant / rank
    return total / len(relevant)


@measure(name="map", label="mAP", subject="ranking", paper="https://doi.org/10.1145/345508.345543")
def filtered_average_precision(case: Case) -> float:
    """The mean, over the relevant chunks, of the precision at their ranks among the filtered hits."""
    return average_precision(case.ranking, case.relevant)


# --- nDCG (Järvelin and Kekäläinen 2002), with binary and with graded gains -----------------------------------------


def ndcg_at(ranking: Iterable[str], relevant: Collection[str], k: int = 5) -> float:
    """Return the discounted cumulative gain of the first ``k``, divided by that of an ideal ranking."""
    ideal = _dcg([True] * min(len(relevant), k))
    return _dcg(binary_gains(ranking, relevant, k)) / ideal


def graded_ndcg_at(ranking: Iterable[str], grades: Mapping[str, float], k: int = 10) -> float:
    """Return nDCG with linear gains, which are the grades of relevant chunks (``relevance.Relevance.grades``).

    With equal grades this is `ndcg_at`.
    """
    check_gold(grades, k)
    ideal = sorted(grades.values(), reverse=True)[:k]
    return _dcg([grades.get(key, 0.0) for key in dict.fromkeys(ranking)][:k]) / _dcg(ideal)


def _dcg(gains: Sequence[float]) -> float:
    return sum([gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1) if gain])


@measure(label="nDCG@5", subject="ranking", paper=JARVELIN)
def ndcg(case: Case) -> float:
    """The discounted cumulative gain of the first 5 filtered chunks, divided by that of an ideal ranking."""
    return ndcg_at(case.ranking, case.relevant, 5)


@measure(label="nDCG@10, graded", subject="ranking", paper=JARVELIN)
def ndcg_10(case: Case) -> float:
    """The nDCG of the first 10 filtered chunks; the gain is the largest share of a gold span that a chunk covers."""
    return graded_ndcg_at(case.ranking, case.relevance.units, 10)


# --- precision and recall (Cleverdon 1967) ---------------------------------------------------------------------------


@measure(label="Precision, kept", subject="ranking", paper=CLEVERDON)
def kept_precision(case: Case) -> float:
    """The share of relevant chunks among the filtered chunks; 0 without any."""
    ranking = case.ranking
    return sum(key in case.relevant for key in ranking) / len(ranking) if ranking else 0.0


def recall_at(ranking: Iterable[str], relevant: Collection[str], k: int = 5) -> float:
    """Return the share of the relevant chunks that are among the first ``k``."""
    return sum(binary_gains(ranking, relevant, k)) / len(relevant)


@measure(label="Recall@5", subject="ranking", paper=CLEVERDON)
def recall(case: Case) -> float:
    """The share of the relevant chunks that are among the first 5 filtered chunks."""
    return recall_at(case.ranking, case.relevant, 5)


@measure(label="Pool recall@50", subject="ranking", paper=CLEVERDON)
def recall_50(case: Case) -> float:
    """The recall of the first 50 candidates before reranking and filter.

    It is an upper bound for rerankers, and depends on the number of candidates of query expansion and retrieval.
    """
    return recall_at(case.units(case.pool), case.relevant, 50)


# --- reciprocal rank (Voorhees 2001); its mean over the questions is MRR ---------------------------------------------


def reciprocal_rank(ranking: Iterable[str], relevant: Collection[str]) -> float:
    """Return ``1 / rank`` of the first relevant chunk, without cut-off; 0 if there is none."""
    return next((1 / rank for rank, gain in enumerate(binary_gains(ranking, relevant), 1) if gain), 0.0)


@measure(label="MRR", subject="ranking", paper="https://doi.org/10.1017/S1351324901002789")
def mrr(case: Case) -> float:
    """1 / rank of the first relevant chunk among the filtered chunks, 0 if there is none."""
    return reciprocal_rank(case.ranking, case.relevant)


# --- span recall: coverage of the gold evidence, independent of the chunk boundaries ---------------------------------


def span_recall_at(retrieved: Iterable[Span], evidence: Iterable[Span], k: int = 5) -> float:
    """Return the share of the gold spans that are at least half covered by the union of the first ``k`` spans.

    Unlike the other measures, it does not depend on the number of chunks of a gold span. Equal spans are ignored in
    both arguments; gold with alternatives is covered if one of its places is.
    """
    gold = tuple(dict.fromkeys(evidence))
    check_gold(gold, k)
    top = list(dict.fromkeys(retrieved))[:k]
    return sum(is_half_covered(span, top) for span in gold) / len(gold)


def is_half_covered(gold: Span, spans: Collection[Span]) -> bool:
    """Whether ``spans`` together cover half of one place of ``gold``."""
    return any(2 * count_covered(place, spans) >= max(1, place.end - place.start) for place in places_of(gold))


def count_covered(gold: Span, spans: Iterable[Span]) -> int:
    """Return the number of characters of ``gold`` that are covered by ``spans``."""
    count, reached = 0, gold.start
    for span in sorted((s for s in spans if count_overlap(s, gold)), key=lambda s: s.start):
        count += max(0, min(span.end, gold.end) - max(span.start, reached))
        reached = max(reached, span.end)
    return count


@measure(label="Span recall@5", subject="ranking")
def span_recall(case: Case) -> float:
    """The share of the gold spans that are at least half covered by the first 5 filtered chunks.

    A summary counts as one of the 5 but covers nothing.
    """
    first = list({chunk.id: chunk for chunk in get_chunks(case.hits)}.values())[:5]
    documents = {place.doc for span in case.evidence for place in places_of(span)}  # other documents cover nothing
    spans = [chunk.span for chunk in first if chunk.doc in documents and not chunk.level]
    return span_recall_at(spans, case.evidence, 5)


# --- success, or top-k accuracy (Karpukhin et al. 2020) --------------------------------------------------------------


def success_at(ranking: Iterable[str], relevant: Collection[str], k: int = 5) -> float:
    """Return 1 if a relevant chunk is among the first ``k``, else 0."""
    return float(any(binary_gains(ranking, relevant, k)))


@measure(label="Success@5", subject="ranking", paper=KARPUKHIN)
def success(case: Case) -> float:
    """1 if a relevant chunk is among the first 5 filtered chunks, else 0."""
    return success_at(case.ranking, case.relevant, 5)


@measure(label="Success@10", subject="ranking", paper=KARPUKHIN)
def success_10(case: Case) -> float:
    """1 if a relevant chunk is among the first 10 filtered chunks, else 0."""
    return success_at(case.ranking, case.relevant, 10)
