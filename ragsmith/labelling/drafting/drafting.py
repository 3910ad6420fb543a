"""Draft questions for a folder of documents: a model writes drafts, filters and checks refuse some, others are kept."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from ragsmith.datasets.dataset import load_documents
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.errors import UsageError, WrongOption
from ragsmith.gateway.budget import NOTHING_SPENT, Spent
from ragsmith.gateway.call_context import CallCounts
from ragsmith.labelling.drafting.asking import TOGETHER, DraftingFailure, ModelDrafting
from ragsmith.labelling.drafting.draft import (
    Draft,
    QuestionRows,
    RejectedDraft,
    add_rows,
    keys_of,
    located,
    read_rows,
    rejected_row,
    row_of,
)
from ragsmith.labelling.drafting.filters import FILTERS, QUOTE
from ragsmith.labelling.drafting.material import DraftingCorpus, in_turns
from ragsmith.labelling.reviewing.journal import REJECTED, drafted_rows

READ, FEWEST_READ = 8, 400
"""Passages that are read for each question that is wanted, and at least."""

SPARE = 1.5
"""Drafts that pass for each question that is missing: the best balanced of them are chosen, and every one is paid."""


@dataclass(frozen=True)
class Drafted:
    """What a call of `draft_dataset` came to.

    ``found`` questions were in the data set before, ``drafts`` of them drafted ones; ``added`` are new. ``made`` counts
    drafts by method, ``refused`` those refused by filter, ``known`` those that had been kept or refused before,
    ``left`` those that no filter refused and that were not needed, and ``types`` the added ones. ``failures`` are
    requests to a model to which no reply could be had, and ``paused`` says why it was not asked for all, if it was not.
    ``replies`` counts what it was asked in this command, and ``spent`` is what drafting in this folder has cost so far.
    """

    folder: Path
    found: int
    drafts: int
    added: tuple[Draft, ...]
    refusals: tuple[RejectedDraft, ...]
    made: Mapping[str, int]
    known: int
    left: int
    failures: tuple[DraftingFailure, ...] = ()
    paused: str = ""
    replies: CallCounts = field(default_factory=CallCounts)
    spent: Spent = NOTHING_SPENT

    @property
    def refused(self) -> Mapping[str, int]:
        """How many each filter refused, in the order of the filters."""
        counts = Counter(refused.filter for refused in self.refusals)
        names = [QUOTE, *(filter_.__name__ for filter_ in FILTERS)]
        return {name: counts[name] for name in dict.fromkeys([*names, *counts]) if counts[name]}

    @property
    def types(self) -> Mapping[str, int]:
        """How many were added of each type."""
        return dict(Counter(draft.type for draft in self.added).most_common())


def draft_dataset(
    folder: Path,
    asking: ModelDrafting,
    *,
    questions: int = 100,
    seed: int = 0,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> Drafted:
    """Draft questions until the data set in ``folder`` has ``questions`` that were drafted, and write them.

    What is there stays as it is, and what was refused is not drafted again. ``seed`` draws the order of passages.
    ``asking`` drafts, and checks what passed the filters; ``on_progress`` is told how many drafts there were, how many
    passed, and how many have to. Where the budget is spent, what passed until then is written.

    Raises:
        UsageError: there is no such folder, or fewer than one question is wanted.
        DatasetError: documents or rows cannot be read; nothing is written then.
    """
    if questions < 1:
        raise WrongOption("questions", f"is {questions}: give at least 1")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name one with documents/ in it, or make it with  dataset init")
    material = DraftingCorpus(load_documents(folder).documents)
    before, rejected = read_rows(folder / QUESTIONS), read_rows(folder / REJECTED)
    origins = before.origins
    missing = max(questions - len(origins), 0)
    known = before.keys | rejected.keys | keys_of(drafted_rows(folder))  # an edited question has other words by now
    goal = math.ceil(missing * SPARE)
    sifting = Sifting(material, asking, known, before.questions, goal, on_progress)
    if missing:
        read = max(FEWEST_READ, READ * questions)  # so that more questions go on from there
        sifting.sift(asking.drafting(goal)(islice(in_turns(material.passages, seed), read), material))
    passed, refusals = sifting.passed, sifting.refusals
    added = write(folder, before, chosen(passed, missing, material, origins), refusals, questions)
    return Drafted(
        folder=folder,
        found=len(before.records),
        drafts=len(origins),
        added=tuple(added),
        refusals=tuple(refusals),
        made=dict(sifting.made),
        known=sifting.again,
        left=len(passed) - len(added),
        failures=tuple(asking.failures),
        paused=asking.paused if len(passed) < goal else "",
    )


@dataclass
class Sifting:
    """Tells drafts that pass from those that are refused, until ``goal`` have passed.

    ``known`` are the keys of drafts that were kept or refused before, which count in ``again``, and ``asked`` the
    questions that are kept. ``asking`` checks what passed the filters, many drafts at once.
    """

    material: DraftingCorpus
    asking: ModelDrafting
    known: set[str]
    asked: list[str]
    goal: int
    on_progress: Callable[[int, int, int], None] | None = None
    passed: list[Draft] = field(default_factory=list)
    refusals: list[RejectedDraft] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    again: int = 0
    _waiting: list[Draft] = field(default_factory=list)

    def sift(self, drafts: Iterable[Draft]) -> None:
        """Take drafts in their order; no more are asked for than it takes."""
        # few enough that a small budget makes some questions
        together = min(TOGETHER, math.ceil(self.goal / 3))
        for draft in drafts:
            self.made[draft.method] += 1
            if not self.known.isdisjoint(draft.names):
                self.again += 1
                continue
            self.known.update(draft.keys)
            judged = judge(draft, self.material, self.asked)
            if isinstance(judged, RejectedDraft):
                self.refusals.append(judged)
                continue
            self._waiting.append(judged)
            self.asked.append(judged.question)
            if len(self._waiting) >= together or len(self.passed) + len(self._waiting) >= self.goal:
                self._settle()
            if len(self.passed) >= self.goal:
                break
        self._settle()

    def _settle(self) -> None:
        checked = self.asking.checked(self._waiting, self.material)
        self.refusals.extend(one for one in checked if isinstance(one, RejectedDraft))
        self.passed.extend(one for one in checked if isinstance(one, Draft))
        for draft, one in zip(self._waiting, checked, strict=True):
            if not isinstance(one, Draft):  # so another may ask it, and ask it better
                self.asked.remove(draft.question)
        self._waiting.clear()
        if self.on_progress:
            self.on_progress(self.made.total(), len(self.passed), self.goal)


def judge(draft: Draft, material: DraftingCorpus, kept: Sequence[str]) -> Draft | RejectedDraft:
    """The draft with the place of its quotations, or the first filter that refuses it; ``kept`` are other questions."""
    found = located(draft, material)
    if isinstance(found, str):
        return RejectedDraft(draft, QUOTE, found)
    for filter_ in FILTERS:
        if reason := filter_(found, material, kept):
            return RejectedDraft(found, filter_.__name__, reason)
    return found


def write(
    folder: Path, before: QuestionRows, wanted: Sequence[Draft], refusals: Sequence[RejectedDraft], questions: int
) -> list[Draft]:
    """Add rows to the files of a data set, the refused first: what is kept is never drafted, nor what was refused.

    Returns the drafts that were added: those that others drafted meanwhile are not, nor more than make ``questions``.
    """
    add_rows(folder / REJECTED, [rejected_row(refused) for refused in refusals])
    rows = add_rows(folder / QUESTIONS, [row_of(draft, before.records) for draft in wanted], questions)
    ids = {row["id"] for row in rows}
    return [draft for draft in wanted if draft.id in ids]


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
