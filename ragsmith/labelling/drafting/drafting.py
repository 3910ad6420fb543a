"""Draft questions for a folder of documents: a model writes drafts, which filters and checks accept or reject."""

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
from ragsmith.grouping import group_values
from ragsmith.labelling.drafting.asking import MAX_BATCH_DRAFTS, DraftingFailure, ModelDrafting
from ragsmith.labelling.drafting.draft import (
    Draft,
    QuestionRows,
    RejectedDraft,
    add_rows,
    collect_keys,
    locate_quotes,
    make_rejected_row,
    make_row,
    read_rows,
)
from ragsmith.labelling.drafting.filters import FILTERS, QUOTE
from ragsmith.labelling.drafting.material import DraftingCorpus, interleave
from ragsmith.labelling.reviewing.journal import REJECTED, drafted_rows

PASSAGES_PER_QUESTION, MIN_PASSAGES = 8, 400
"""Number of passages used for each requested question, and the minimum number of passages."""

OVERSAMPLING = 1.5
"""Accepted drafts per missing question, from which a balanced selection is made; all of them are paid for."""


@dataclass(frozen=True)
class DraftingResult:
    """Result of `draft_dataset`.

    ``found`` is the number of questions in the data set before, ``drafts`` the number of drafted ones among them;
    ``added`` are the new ones, counted by type in ``types``. ``made`` counts drafts by method, ``refused`` rejected
    ones by filter, ``known`` those that were accepted or rejected in an earlier call, and ``left`` accepted ones that
    were not needed. ``failures`` are requests to a model without a reply; ``paused`` is the reason why drafting
    stopped early, or "".
    ``replies`` are the call counts of this command, and ``spent`` the total cost of drafting in this folder.
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
        """Number of rejected drafts by filter, in the order of the filters."""
        counts = Counter(refused.filter for refused in self.refusals)
        names = [QUOTE, *(filter_.__name__ for filter_ in FILTERS)]
        return {name: counts[name] for name in dict.fromkeys([*names, *counts]) if counts[name]}

    @property
    def types(self) -> Mapping[str, int]:
        """Number of added questions by type."""
        return dict(Counter(draft.type for draft in self.added).most_common())


def draft_dataset(
    folder: Path,
    asking: ModelDrafting,
    *,
    questions: int = 100,
    seed: int = 0,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> DraftingResult:
    """Draft questions until the data set in ``folder`` has ``questions`` drafted ones, and write them.

    Existing rows are unchanged, and rejected drafts are not drafted again. ``seed`` determines the order of passages.
    ``on_progress`` is called with the numbers of drafts, of accepted drafts, and of accepted drafts that are required.
    If the budget is exhausted, the drafts accepted until then are written.

    Raises:
        UsageError: the folder does not exist, or ``questions`` is less than 1.
        DatasetError: documents or rows cannot be read; nothing is written.
    """
    if questions < 1:
        raise WrongOption("questions", f"is {questions}: give at least 1")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name one with documents/ in it, or make it with  dataset init")
    material = DraftingCorpus(load_documents(folder).documents)
    before, rejected = read_rows(folder / QUESTIONS), read_rows(folder / REJECTED)
    origins = before.origins
    missing = max(questions - len(origins), 0)
    # an edited question has another key than its draft
    known = collect_keys((*before.records, *rejected.records, *drafted_rows(folder)))
    goal = math.ceil(missing * OVERSAMPLING)
    sifting = DraftSelection(material, asking, known, before.questions, goal, on_progress)
    if missing:
        read = max(MIN_PASSAGES, PASSAGES_PER_QUESTION * questions)  # a call for more questions extends these passages
        sifting.sift(asking.make_drafter(goal)(islice(interleave(material.passages, seed), read), material))
    passed, refusals = sifting.passed, sifting.refusals
    added = write_drafts(folder, before, select_balanced(passed, missing, material, origins), refusals, questions)
    return DraftingResult(
        folder=folder,
        found=len(before.records),
        drafts=len(origins),
        added=tuple(added),
        refusals=tuple(refusals),
        made=dict(sifting.made),
        known=sifting.again,
        left=len(passed) - len(added),
        failures=tuple(asking.failures),
        paused=asking.pause_reason if len(passed) < goal else "",
    )


@dataclass
class DraftSelection:
    """A selection of drafts, which are filtered and checked until ``goal`` of them are accepted.

    ``known`` are the keys of drafts that were accepted or rejected earlier, whose repetitions are counted in ``again``;
    ``asked`` are the accepted questions. ``asking`` checks the drafts that pass the filters, in batches.
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
        """Process drafts in order, and stop when ``goal`` is reached."""
        # small enough that a small budget results in some questions
        batch_size = min(MAX_BATCH_DRAFTS, math.ceil(self.goal / 3))
        for draft in drafts:
            self.made[draft.method] += 1
            if not self.known.isdisjoint(draft.all_keys):
                self.again += 1
                continue
            self.known.update(draft.keys)
            outcome = filter_draft(draft, self.material, self.asked)
            if isinstance(outcome, RejectedDraft):
                self.refusals.append(outcome)
                continue
            self._waiting.append(outcome)
            self.asked.append(outcome.question)
            if len(self._waiting) >= batch_size or len(self.passed) + len(self._waiting) >= self.goal:
                self._check_waiting()
            if len(self.passed) >= self.goal:
                break
        self._check_waiting()

    def _check_waiting(self) -> None:
        checked = self.asking.check(self._waiting, self.material)
        self.refusals.extend(one for one in checked if isinstance(one, RejectedDraft))
        self.passed.extend(one for one in checked if isinstance(one, Draft))
        for draft, one in zip(self._waiting, checked, strict=True):
            if not isinstance(one, Draft):  # another draft may have the same question
                self.asked.remove(draft.question)
        self._waiting.clear()
        if self.on_progress:
            self.on_progress(self.made.total(), len(self.passed), self.goal)


def filter_draft(draft: Draft, material: DraftingCorpus, accepted: Sequence[str]) -> Draft | RejectedDraft:
    """Return the draft with located quotations, or its rejection; ``accepted`` are the questions accepted so far."""
    found = locate_quotes(draft, material)
    if isinstance(found, str):
        return RejectedDraft(draft, QUOTE, found)
    for filter_ in FILTERS:
        if reason := filter_(found, material, accepted):
            return RejectedDraft(found, filter_.__name__, reason)
    return found


def write_drafts(
    folder: Path, before: QuestionRows, wanted: Sequence[Draft], refusals: Sequence[RejectedDraft], questions: int
) -> list[Draft]:
    """Add rows to the files of a data set, rejected ones first; return the drafts that were added.

    Drafts that other processes have added are left out, as are those beyond ``questions`` drafted questions.
    """
    add_rows(folder / REJECTED, [make_rejected_row(refused) for refused in refusals])
    rows = add_rows(folder / QUESTIONS, [make_row(draft, before.records) for draft in wanted], questions)
    ids = {row["id"] for row in rows}
    return [draft for draft in wanted if draft.id in ids]


BANDS = (1, 5, 20)
"""Upper bounds of the bands of difficulty: the BM25 rank of the first evidence."""

Kind = tuple[bool, int]
"""Whether the evidence is in several passages, and the band of difficulty, from 0 for the easiest."""

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
"""Target shares: the mean over the search questions of `law` and `workshop`, and 100 questions on finance articles."""

MAX_UNANSWERABLE = 0.05
"""Maximum share of unanswerable questions."""


def select_balanced(
    drafts: Sequence[Draft],
    wanted: int,
    material: DraftingCorpus,
    before: Sequence[tuple[str, str]] = (),
) -> list[Draft]:
    """Select up to ``wanted`` drafts: the next is always of the kind with the largest deficit relative to its share.

    Within a kind, the method and then the document with the fewest questions are preferred, then the first draft.
    ``before`` are the methods and documents of existing questions. If a kind has no more drafts, other kinds are used.
    """
    left = group_values((classify_draft(draft, material), draft) for draft in drafts if draft.answerable)
    methods: Counter[str] = Counter(method for method, _ in before)
    documents: Counter[str] = Counter(doc for _, doc in before)
    taken = [draft for draft in drafts if not draft.answerable][: int(MAX_UNANSWERABLE * wanted)]
    counts: Counter[Kind] = Counter()
    while len(taken) < wanted and left:
        total = counts.total() + 1
        kind = max(left, key=lambda kind: (SHARES[kind] - counts[kind] / total, kind))
        draft = min(left[kind], key=lambda draft: (methods[draft.method], documents[draft.passage.doc]))
        left[kind].remove(draft)
        if not left[kind]:
            del left[kind]
        counts[kind] += 1
        methods[draft.method] += 1
        documents[draft.passage.doc] += 1
        taken.append(draft)
    return taken


def classify_draft(draft: Draft, material: DraftingCorpus) -> Kind:
    """Return the kind of a draft: the number of passages with evidence, and the BM25 rank of the first of it."""
    ranks = [material.rank(draft.question, quote.span, BANDS[-1]) for quote in draft.quotes]
    first = min((rank for rank in ranks if rank is not None), default=BANDS[-1] + 1)
    passages = {passage.id if (passage := material.passage_at(quote.span)) else quote for quote in draft.quotes}
    return len(passages) > 1, sum(first > last for last in BANDS)
