"""Draft questions for a folder of documents: methods make drafts, filters refuse some, and the rest becomes rows."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path

from ragsmith.datasets.dataset import load_documents
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.errors import Notice, UsageError, WrongOption
from ragsmith.labelling.drafting.draft import Draft, Refused
from ragsmith.labelling.drafting.filters import FILTERS, QUOTE, Filter
from ragsmith.labelling.drafting.material import Material
from ragsmith.labelling.drafting.methods import METHODS, Method
from ragsmith.labelling.drafting.passages import in_turns
from ragsmith.labelling.drafting.quotes import located
from ragsmith.labelling.drafting.rewording import reworded
from ragsmith.labelling.drafting.rows import REJECTED, Rows, add_rows, keys_of, read_rows, rejected_row, row_of
from ragsmith.labelling.drafting.selection import chosen
from ragsmith.labelling.reviewing.journal import drafted_rows
from ragsmith.text.languages import ENGLISH
from ragsmith.types import Chunk

READ, FEWEST_READ = 8, 400
"""Passages that are read for each question that is missing, and at least."""

SPARE = 6
"""Drafts that are made for each question that is missing: the best balanced of them are chosen."""

Drafting = Callable[[Iterable[Chunk], Material], Iterator[Draft]]
"""Makes drafts of passages, in the order of the passages; it stops when nobody asks it for more."""


@dataclass(frozen=True)
class Drafted:
    """What a call of `draft_dataset` came to.

    ``found`` questions were in the data set before, ``drafts`` of them drafted ones; ``added`` are new. ``made`` counts
    drafts by method, ``refused`` those refused by filter, ``known`` those that had been kept or refused before,
    ``left`` those that no filter refused and that were not needed, and ``types`` the added ones.
    """

    folder: Path
    found: int
    drafts: int
    added: tuple[Draft, ...]
    refusals: tuple[Refused, ...]
    made: Mapping[str, int]
    known: int
    left: int

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
) -> Drafted:
    """Draft questions until the data set in ``folder`` has ``questions`` that were drafted, and write them.

    What is there stays as it is, and what was refused is not drafted again. ``seed`` draws the order of passages. What
    methods without a model drafted is then reworded.

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
    made: Counter[str] = Counter()
    passed: list[Draft] = []
    refusals: list[Refused] = []
    again = 0
    asked = before.questions
    passages = islice(in_turns(material.passages, seed), max(FEWEST_READ, READ * missing))
    for draft in (drafting or by_methods())(passages, material):
        if len(passed) >= missing * SPARE:
            break
        made[draft.method] += 1
        if not known.isdisjoint(draft.keys):
            again += 1
            continue
        known.update(draft.keys)
        judged = judge(draft, material, asked, filters)
        if isinstance(judged, Refused):
            refusals.append(judged)
            continue
        passed.append(judged)
        asked.append(judged.question)
    if drafting is None and (foreign := sorted({d.language for d in material.documents.values()} - {ENGLISH})):
        named = ", ".join(foreign)
        warnings.warn(
            f"{folder}: documents are in {named}; without a model, questions are drafted on English ones alone.",
            Notice,
            stacklevel=2,
        )
    worded = [draft if draft.model else reworded(draft, material) for draft in passed]
    added = chosen(worded, missing, material, origins)
    write(folder, before, added, refusals)
    left = len(passed) - len(added)
    return Drafted(folder, len(before.records), len(origins), tuple(added), tuple(refusals), dict(made), again, left)


def judge(draft: Draft, material: Material, kept: Sequence[str], filters: Sequence[Filter]) -> Draft | Refused:
    """The draft with the place of its quotations, or the first filter that refuses it; ``kept`` are other questions."""
    found = located(draft, material)
    if isinstance(found, str):
        return Refused(draft, QUOTE, found)
    for filter_ in filters:
        if reason := filter_(found, material, kept):
            return Refused(found, filter_.__name__, reason)
    return found


def write(folder: Path, before: Rows, added: Sequence[Draft], refusals: Sequence[Refused]) -> None:
    """Add rows to the files of a data set, the refused first: what is kept is never drafted, nor what was refused."""
    add_rows(folder / REJECTED, [rejected_row(refused) for refused in refusals])
    add_rows(folder / QUESTIONS, [row_of(draft, before.records) for draft in added])
