"""Span recall: how much of the gold evidence the retrieved text covers, however the documents were cut."""

from collections.abc import Iterable

from ragsmith.datasets.relevance import overlap
from ragsmith.measures.case import Case
from ragsmith.measures.rankings import something_to_find
from ragsmith.measures.registry import measure
from ragsmith.types import Span, chunks_of


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
    for span in sorted((s for s in spans if overlap(s, gold)), key=lambda s: s.start):
        covered += max(0, min(span.end, gold.end) - max(span.start, reached))
        reached = max(reached, span.end)
    return covered


@measure(label="Span recall@5", subject="ranking")
def span_recall(case: Case) -> float:
    """The share of the gold spans of which the first 5 chunks, together, cover at least half.

    A summary takes a place among the first, but has no span and covers nothing.
    """
    first = list({chunk.id: chunk for chunk in chunks_of(case.hits)}.values())[:5]
    documents = {span.doc for span in case.evidence}  # other documents cover nothing
    spans = [chunk.span for chunk in first if chunk.doc in documents and not chunk.level]
    return span_recall_at(spans, case.evidence, 5)
