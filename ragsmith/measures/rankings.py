"""Measures of rankings: mAP, nDCG, precision, recall, MRR, span recall and success at a cut-off.

A ranking is a sequence of chunk ids, best first; of an id that is repeated only the first occurrence counts.
``relevant`` is the set of chunk ids that are right (``relevance.Relevance.relevant``). A question with nothing to find
has no score of its ranking: the functions raise ``ValueError`` rather than call it 0.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

from ragsmith.datasets.relevance import count_overlap
from ragsmith.measures.case import Case
from ragsmith.measures.registry import measure
from ragsmith.types import Span, get_chunks

CLEVERDON = "https://doi.org/10.1108/eb050097"
JARVELIN = "https://doi.org/10.1145/582415.582418"
KARPUKHIN = "https://arxiv.org/abs/2004.04906"


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


# --- average precision (Buckley and Voorhees 2000); its mean over the questions is mAP -----------------------------


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


# --- nDCG (Järvelin and Kekäläinen 2002), with binary and with graded gains -----------------------------------------


def ndcg_at(ranking: Iterable[str], relevant: Collection[str], k: int = 5) -> float:
    """Return the discounted gain of the first ``k`` as a share of the best possible."""
    ideal = _dcg([True] * min(len(relevant), k))
    return _dcg(gains(ranking, relevant, k)) / ideal


def graded_ndcg_at(ranking: Iterable[str], grades: Mapping[str, float], k: int = 10) -> float:
    """Return nDCG with a gain for each relevant chunk (``relevance.Relevance.grades``), linear in it.

    The best possible ranking has the highest gains first. With equal gains it is ``ndcg_at``.
    """
    something_to_find(grades, k)
    ideal = sorted(grades.values(), reverse=True)[:k]
    return _dcg([grades.get(key, 0.0) for key in dict.fromkeys(ranking)][:k]) / _dcg(ideal)


def _dcg(gains: Sequence[float]) -> float:
    return sum([gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1) if gain])


@measure(label="nDCG@5", subject="ranking", paper=JARVELIN)
def ndcg(case: Case) -> float:
    """The discounted gain of the first 5 chunks that passed the filter, as a share of the best possible."""
    return ndcg_at(case.ranking, case.relevant, 5)


@measure(label="nDCG@10, graded", subject="ranking", paper=JARVELIN)
def ndcg_10(case: Case) -> float:
    """The discounted gain of the first 10, where a chunk gains the largest share of a gold span that it covers."""
    return graded_ndcg_at(case.ranking, case.relevance.units, 10)


# --- precision and recall (Cleverdon 1967) ---------------------------------------------------------------------------


@measure(label="Precision, kept", subject="ranking", paper=CLEVERDON)
def kept_precision(case: Case) -> float:
    """The share of what passed the filter that is relevant; 0 if nothing passed."""
    ranking = case.ranking
    return sum(key in case.relevant for key in ranking) / len(ranking) if ranking else 0.0


def recall_at(ranking: Iterable[str], relevant: Collection[str], k: int = 5) -> float:
    """Return the share of the relevant chunks among the first ``k``."""
    return sum(gains(ranking, relevant, k)) / len(relevant)


@measure(label="Recall@5", subject="ranking", paper=CLEVERDON)
def recall(case: Case) -> float:
    """The share of the relevant chunks among the first 5 that passed the filter."""
    return recall_at(case.ranking, case.relevant, 5)


@measure(label="Pool recall@50", subject="ranking", paper=CLEVERDON)
def recall_50(case: Case) -> float:
    """The recall of the first 50 candidates before reranking and filter, or of all where fewer are fetched.

    It bounds what reranking can bring up. How deep query expansion and retrieval fetch bounds it in turn.
    """
    return recall_at(case.units(case.pool), case.relevant, 50)


# --- reciprocal rank (Voorhees 2001); its mean over the questions is MRR ---------------------------------------------


def reciprocal_rank(ranking: Iterable[str], relevant: Collection[str]) -> float:
    """Return ``1 / rank`` of the first relevant chunk, 0 if there is none; the whole ranking counts."""
    return next((1 / rank for rank, gain in enumerate(gains(ranking, relevant), 1) if gain), 0.0)


@measure(label="MRR", subject="ranking", paper="https://doi.org/10.1017/S1351324901002789")
def mrr(case: Case) -> float:
    """1 / rank of the first relevant chunk among all that passed the filter, 0 if there is none."""
    return reciprocal_rank(case.ranking, case.relevant)


# --- span recall: how much of the gold evidence is covered, however the documents were cut ---------------------------


def span_recall_at(retrieved: Iterable[Span], evidence: Iterable[Span], k: int = 5) -> float:
    """Return the share of the gold spans of which the first ``k`` retrieved spans, together, cover at least half.

    Unlike the other measures it does not depend on how many chunks a gold span was cut into. A repeated span counts
    once, in either argument.
    """
    gold = tuple(dict.fromkeys(evidence))
    something_to_find(gold, k)
    top = list(dict.fromkeys(retrieved))[:k]
    return sum(2 * covered(span, top) >= max(1, span.end - span.start) for span in gold) / len(gold)


def covered(gold: Span, spans: Iterable[Span]) -> int:
    """Return how many characters of ``gold`` lie in at least one of ``spans``."""
    covered, reached = 0, gold.start
    for span in sorted((s for s in spans if count_overlap(s, gold)), key=lambda s: s.start):
        covered += max(0, min(span.end, gold.end) - max(span.start, reached))
        reached = max(reached, span.end)
    return covered


@measure(label="Span recall@5", subject="ranking")
def span_recall(case: Case) -> float:
    """The share of the gold spans of which the first 5 chunks, together, cover at least half.

    A summary takes a place among the first, but has no span and covers nothing.
    """
    first = list({chunk.id: chunk for chunk in get_chunks(case.hits)}.values())[:5]
    documents = {span.doc for span in case.evidence}  # other documents cover nothing
    spans = [chunk.span for chunk in first if chunk.doc in documents and not chunk.level]
    return span_recall_at(spans, case.evidence, 5)


# --- success, or top-k accuracy (Karpukhin et al. 2020) --------------------------------------------------------------


def success_at(ranking: Iterable[str], relevant: Collection[str], k: int = 5) -> float:
    """Return 1 if a relevant chunk is among the first ``k``, else 0."""
    return float(any(gains(ranking, relevant, k)))


@measure(label="Success@5", subject="ranking", paper=KARPUKHIN)
def success(case: Case) -> float:
    """1 if a relevant chunk is among the first 5 that passed the filter, else 0."""
    return success_at(case.ranking, case.relevant, 5)


@measure(label="Success@10", subject="ranking", paper=KARPUKHIN)
def success_10(case: Case) -> float:
    """1 if a relevant chunk is among the first 10 that passed the filter, else 0."""
    return success_at(case.ranking, case.relevant, 10)
