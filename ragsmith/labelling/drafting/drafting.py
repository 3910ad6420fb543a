"""Draft questions for a folder of documents: methods make drafts, filters refuse some, and the rest becomes rows."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from pathlib import Path

from ragsmith.datasets.dataset import load_documents
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.errors import Notice, UsageError, WrongOption
from ragsmith.gateway.budget import NOTHING_SPENT, Spent
from ragsmith.gateway.desk import Counts
from ragsmith.labelling.drafting.draft import Draft, Refused
from ragsmith.labelling.drafting.filters import FILTERS, QUOTE, Filter
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods import METHODS, Method
from ragsmith.labelling.drafting.passages import in_turns
from ragsmith.labelling.drafting.quotes import located
from ragsmith.labelling.drafting.rewording import reworded
from ragsmith.labelling.drafting.rows import Rows, add_rows, keys_of, read_rows, rejected_row, row_of
from ragsmith.labelling.drafting.selection import chosen
from ragsmith.labelling.drafting.with_model import TOGETHER, Asking, Failure
from ragsmith.labelling.reviewing.journal import REJECTED, drafted_rows
from ragsmith.text.languages import ENGLISH
from ragsmith.types import Chunk

READ, FEWEST_READ = 8, 400
"""Passages that are read for each question that is missing, and at least."""

SPARE = 6
"""Drafts that are made for each question that is missing: the best balanced of them are chosen."""

SPARE_WITH_MODEL = 1.5
"""Drafts of a model that pass for each question that is missing: every one is paid for."""

Drafting = Callable[[Iterable[Chunk], Material], Iterator[Draft]]
"""Makes drafts of passages, in the order of the passages; it stops when nobody asks it for more."""


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
    refusals: tuple[Refused, ...]
    made: Mapping[str, int]
    known: int
    left: int
    failures: tuple[Failure, ...] = ()
    paused: str = ""
    replies: Counts = field(default_factory=Counts)
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


def by_methods(methods: Sequence[Method] = METHODS) -> Drafting:
    """Ask every method about every passage; first one draft of each passage is given, then a second, and so on.

    The first is of another method from passage to passage, so that whatever is taken from the front is balanced.
    """

    def drafting(passages: Iterable[Chunk], material: Material) -> Iterator[Draft]:
        queues = []
        for number, passage in enumerate(passages):
            first = number % len(methods)
            its = [list(method(passage, material)) for method in (*methods[first:], *methods[:first])]
            queues.append([draft for turn in zip_longest(*its) for draft in turn if draft is not None])
        for turn in zip_longest(*queues):
            yield from (draft for draft in turn if draft is not None)

    return drafting


def draft_dataset(
    folder: Path,
    *,
    questions: int = 100,
    seed: int = 0,
    drafting: Drafting | None = None,
    filters: Sequence[Filter] = FILTERS,
    asking: Asking | None = None,
    on_progress: Callable[[int, int, int], None] | None = None,
) -> Drafted:
    """Draft questions until the data set in ``folder`` has ``questions`` that were drafted, and write them.

    What is there stays as it is, and what was refused is not drafted again. ``seed`` draws the order of passages. What
    methods without a model drafted is then reworded. ``asking`` has a chat model draft instead, and check what passed
    the filters; ``on_progress`` is told how many drafts there were, how many passed, and how many have to. Where what
    may be spent is spent, what passed until then is written.

    Raises:
        UsageError: there is no such folder, or fewer than one question is wanted.
        DatasetError: documents or rows cannot be read; nothing is written then.
    """
    if questions < 1:
        raise WrongOption("questions", f"is {questions}: give at least 1")
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name one with documents/ in it, or make it with  dataset init")
    material = Material(load_documents(folder).documents)
    before, rejected = read_rows(folder / QUESTIONS), read_rows(folder / REJECTED)
    origins = before.origins
    missing = max(questions - len(origins), 0)
    known = before.keys | rejected.keys | keys_of(drafted_rows(folder))  # a mended question is worded otherwise now
    goal = math.ceil(missing * (SPARE if asking is None else SPARE_WITH_MODEL))
    sifting = Sifting(material, filters, known, before.questions, goal, asking, on_progress)
    if missing:
        draw = drafting or (by_methods() if asking is None else asking.drafting(goal))
        read = max(FEWEST_READ, READ * (questions if asking else missing))  # so that more questions go on from there
        sifting.sift(draw(islice(in_turns(material.passages, seed), read), material))
    passed, refusals = sifting.passed, sifting.refusals
    if drafting is None and asking is None:
        _say_what_is_not_read(folder, material)
    worded = [draft if draft.model else reworded(draft, material) for draft in passed]
    added = chosen(worded, missing, material, origins)
    added = write(folder, before, added, refusals, questions)
    left = len(passed) - len(added)
    failures = tuple(asking.failures) if asking else ()
    paused = asking.paused if asking and len(passed) < goal else ""
    counts = dict(sifting.made), sifting.again, left, failures, paused
    return Drafted(folder, len(before.records), len(origins), tuple(added), tuple(refusals), *counts)


def _say_what_is_not_read(folder: Path, material: Material) -> None:
    """Say with a `Notice` in which languages nothing is drafted without a model."""
    if foreign := sorted({document.language for document in material.documents.values()} - {ENGLISH}):
        named = ", ".join(foreign)
        warnings.warn(
            f"{folder}: documents are in {named}; without a model, questions are drafted on English ones alone.",
            Notice,
            stacklevel=3,
        )


@dataclass
class Sifting:
    """Tells drafts that pass from those that are refused, until ``goal`` have passed.

    ``known`` are the keys of drafts that were kept or refused before, which count in ``again``, and ``asked`` the
    questions that are kept. With ``asking`` a model checks what passed the filters, many drafts at once.
    """

    material: Material
    filters: Sequence[Filter]
    known: set[str]
    asked: list[str]
    goal: int
    asking: Asking | None = None
    on_progress: Callable[[int, int, int], None] | None = None
    passed: list[Draft] = field(default_factory=list)
    refusals: list[Refused] = field(default_factory=list)
    made: Counter[str] = field(default_factory=Counter)
    again: int = 0
    _waiting: list[Draft] = field(default_factory=list)

    def sift(self, drafts: Iterable[Draft]) -> None:
        """Take drafts in their order; no more are asked for than it takes."""
        # few enough that a small budget makes some questions
        together = 1 if self.asking is None else min(TOGETHER, math.ceil(self.goal / 3))
        for draft in drafts:
            self.made[draft.method] += 1
            if not self.known.isdisjoint(draft.names):
                self.again += 1
                continue
            self.known.update(draft.keys)
            judged = judge(draft, self.material, self.asked, self.filters)
            if isinstance(judged, Refused):
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
        checked = self.asking.checked(self._waiting, self.material) if self.asking else self._waiting
        self.refusals.extend(one for one in checked if isinstance(one, Refused))
        self.passed.extend(one for one in checked if isinstance(one, Draft))
        for draft, one in zip(self._waiting, checked, strict=True):
            if not isinstance(one, Draft):  # so another may ask it, and ask it better
                self.asked.remove(draft.question)
        self._waiting.clear()
        if self.on_progress:
            self.on_progress(self.made.total(), len(self.passed), self.goal)


def judge(draft: Draft, material: Material, kept: Sequence[str], filters: Sequence[Filter]) -> Draft | Refused:
    """The draft with the place of its quotations, or the first filter that refuses it; ``kept`` are other questions."""
    found = located(draft, material)
    if isinstance(found, str):
        return Refused(draft, QUOTE, found)
    for filter_ in filters:
        if reason := filter_(found, material, kept):
            return Refused(found, filter_.__name__, reason)
    return found


def write(
    folder: Path, before: Rows, wanted: Sequence[Draft], refusals: Sequence[Refused], questions: int
) -> list[Draft]:
    """Add rows to the files of a data set, the refused first: what is kept is never drafted, nor what was refused.

    Returns the drafts that were added: those that others drafted meanwhile are not, nor more than make ``questions``.
    """
    add_rows(folder / REJECTED, [rejected_row(refused) for refused in refusals])
    rows = add_rows(folder / QUESTIONS, [row_of(draft, before.records) for draft in wanted], questions)
    ids = {row["id"] for row in rows}
    return [draft for draft in wanted if draft.id in ids]
