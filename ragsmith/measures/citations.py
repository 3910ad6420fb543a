"""Citations of an answer against the gold spans: precision and recall in the manner of ALCE (Gao et al. 2023).

ALCE asks an entailment model whether cited passages support a statement. Here they support the answer if they hold gold
evidence of the question, whatever the answer says: the measures tell whether a reader who follows the citations finds
the evidence; whether the passages support the claims is `ragsmith.measures.faithfulness`.

Passages hold a gold span if their sources cover at least half of it. A coarse span, which is longer than two chunks or
a whole document, is also held by a passage with at least half of its sources in it, as in
`ragsmith.datasets.relevance`. A summary holds what its sources hold. Repeated gold is held if one of its places is.
"""

from collections.abc import Sequence

from ragsmith.measures.case import Case
from ragsmith.measures.rankings import count_covered, is_half_covered
from ragsmith.measures.registry import measure
from ragsmith.text.declining import declines
from ragsmith.types import Passage, Span, places_of

ALCE = "https://arxiv.org/abs/2305.14627"


@measure(label="Citation precision", subject="answer", paper=ALCE, needs="evidence")
def citation_precision(case: Case) -> float | None:
    """The share of the cited passages that hold gold evidence; None for an answer that cites nothing or declines.

    As in ALCE, a passage that does not hold a gold span alone counts if the other cited passages do not hold it without
    this one.
    """
    cited, gold = _distinct_citations(case), _distinct_gold(case)
    if not cited or declines(case.answer):
        return None
    right = 0
    for passage in cited:
        others = [other for other in cited if other is not passage]
        right += any(
            _hold([passage], span, coarse) or (_hold(cited, span, coarse) and not _hold(others, span, coarse))
            for span, coarse in gold
        )
    return right / len(cited)


@measure(label="Citation recall", subject="answer", paper=ALCE, needs="evidence")
def citation_recall(case: Case) -> float | None:
    """The share of the gold spans that the cited passages hold; 0 for an answer without citations, None if it declines.

    Cited passages hold a gold span together, if it is split between them.
    """
    if declines(case.answer):
        return None
    cited, gold = _distinct_citations(case), _distinct_gold(case)
    return sum(_hold(cited, span, coarse) for span, coarse in gold) / len(gold)


def _distinct_citations(case: Case) -> list[Passage]:
    return list(dict.fromkeys(case.passages[position] for position in case.cited))


def _distinct_gold(case: Case) -> list[tuple[Span, bool]]:
    """Return the distinct gold spans, each with whether it is coarse."""
    gold, relevance = tuple(dict.fromkeys(case.evidence)), case.relevance
    coarse = {*relevance.partial, *(gold[number] for number in relevance.coarse.values())}
    return [(span, span in coarse) for span in gold]


def _hold(passages: Sequence[Passage], gold: Span, coarse: bool) -> bool:
    """Whether ``passages`` together cover half of ``gold``, or one of them lies in it by half, if it is ``coarse``."""
    if is_half_covered(gold, [span for each in passages for span in each.sources]):
        return True
    return coarse and any(
        2 * count_covered(place, passage.sources) >= max(1, sum(span.end - span.start for span in passage.sources))
        for passage in passages
        for place in places_of(gold)
    )
