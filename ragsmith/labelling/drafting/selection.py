"""Choose among drafts that passed every filter: balanced over documents, kinds and types, and not all easy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ragsmith.labelling.drafting.draft import Draft
from ragsmith.labelling.drafting.material import Material

EASY = 0.6
"""Most of the questions whose first evidence stands first by BM25; of people's it is about six in ten."""

UNANSWERABLE = 0.1
"""Most of the questions that the documents do not answer."""


def chosen(
    drafts: Sequence[Draft], wanted: int, material: Material, before: Sequence[tuple[str, str]] = ()
) -> list[Draft]:
    """Up to ``wanted`` of the drafts, in their order: the next is always of the method that has fewest so far.

    ``before`` has the method and the document of questions that are there. Among the drafts of a method the next is of
    the document that has fewest. ``EASY`` and ``UNANSWERABLE`` are kept as far as there are others.
    """
    easy = {draft.id for draft in drafts if draft.answerable and is_easy(draft, material)}
    left: dict[str, list[Draft]] = {}
    for draft in drafts:
        left.setdefault(draft.method, []).append(draft)
    taken: list[Draft] = []
    methods: Counter[str] = Counter(method for method, _ in before)
    documents: Counter[str] = Counter(doc for _, doc in before)
    counts: Counter[str] = Counter()
    spare: list[Draft] = []
    while len(taken) < wanted and any(left.values()):
        method = min((name for name, its in left.items() if its), key=lambda name: methods[name])
        draft = min(left[method], key=lambda one: documents[one.passage.doc])
        left[method].remove(draft)
        kind = "easy" if draft.id in easy else "hard" if draft.answerable else "unanswerable"
        most = {"easy": EASY, "hard": 1.0, "unanswerable": UNANSWERABLE}[kind] * wanted
        if counts[kind] + 1 > most:
            spare.append(draft)
            continue
        counts[kind] += 1
        methods[method] += 1
        documents[draft.passage.doc] += 1
        taken.append(draft)
    return [*taken, *[draft for draft in spare if draft.answerable][: wanted - len(taken)]]


def is_easy(draft: Draft, material: Material) -> bool:
    """Whether the words of the question lead to its evidence first."""
    return material.rank(draft.question, draft.quotes[0].span, 1) is not None
