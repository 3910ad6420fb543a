"""Choose among drafts that passed every filter: as hard as people's questions, and balanced over methods and documents.

How hard a question is for BM25, and whether its evidence stands in one passage or in several, decides which pipelines
it tells apart. `SHARES` has what was counted of people's questions; drafts tend to be easy, with one quotation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import DraftingCorpus

BANDS = (1, 5, 20)
"""Ranks of the first evidence by BM25 that part easy questions from hard ones."""

Kind = tuple[bool, int]
"""Whether the evidence stands in several passages, and the band of the rank: 0 is easy; beyond all bands is hardest."""

SHARES: Mapping[Kind, float] = {
    (False, 0): 0.26,
    (False, 1): 0.13,
    (False, 2): 0.05,
    (False, 3): 0.04,
    (True, 0): 0.33,
    (True, 1): 0.14,
    (True, 2): 0.03,
    (True, 3): 0.02,
}
"""Of the search questions of `law` and `workshop`, and of 100 questions on ten articles on finance, on average."""

UNANSWERABLE = 0.05
"""Most of the questions that the documents do not answer."""


def chosen(
    drafts: Sequence[Draft],
    wanted: int,
    material: DraftingCorpus,
    before: Sequence[tuple[str, str]] = (),
    shares: Mapping[Kind, float] = SHARES,
) -> list[Draft]:
    """Up to ``wanted`` of the drafts: the next is always of the kind that is furthest behind its share.

    Among those it is of the method that has fewest so far, then of the document that has fewest, then the first.
    ``before`` has the method and the document of questions that are there already. Where drafts of a kind run out,
    the others take their place.
    """
    left: dict[Kind, dict[str, list[Draft]]] = {}
    unanswerable = []
    for draft in drafts:
        if draft.answerable:
            left.setdefault(kind_of(draft, material), {}).setdefault(draft.method, []).append(draft)
        else:
            unanswerable.append(draft)
    methods: Counter[str] = Counter(method for method, _ in before)
    documents: Counter[str] = Counter(doc for _, doc in before)
    taken: list[Draft] = unanswerable[: int(UNANSWERABLE * wanted)]
    counts: Counter[Kind] = Counter()
    while len(taken) < wanted and left:
        total = sum(counts.values()) + 1
        kind = max(left, key=lambda kind: (shares.get(kind, 0.0) - counts[kind] / total, kind))
        method = min(left[kind], key=lambda name: methods[name])
        its = left[kind][method]
        draft = min(its, key=lambda one: documents[one.passage.doc])
        its.remove(draft)
        if not its:
            del left[kind][method]
        if not left[kind]:
            del left[kind]
        counts[kind] += 1
        methods[method] += 1
        documents[draft.passage.doc] += 1
        taken.append(draft)
    return taken


def kind_of(draft: Draft, material: DraftingCorpus) -> Kind:
    """In how many passages the evidence of a draft stands, and how far down BM25 finds the first of it."""
    ranks = [material.rank(draft.question, quote.span, BANDS[-1]) for quote in draft.quotes]
    first = min((rank for rank in ranks if rank is not None), default=BANDS[-1] + 1)
    passages = {passage.id if (passage := material.passage_at(quote.span)) else quote for quote in draft.quotes}
    return len(passages) > 1, sum(first > last for last in BANDS)
