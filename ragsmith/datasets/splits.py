"""Divide a data set's questions: some for the search, some that are looked at once, for the verdict.

Questions that share gold stay on one side, else the test would ask again what the search was tuned on.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from ragsmith.datasets.chunking.chunking import section_starts
from ragsmith.digest import digest
from ragsmith.errors import UsageError
from ragsmith.types import Dataset, Example, Span

MIN_QUESTIONS = 20
MIN_TEST = 6
BLOCK = 2_000
DRAWS = 64

GIVEN = "given"
BY_DOCUMENT = "by document: questions that share a gold document stay together"
BY_SECTION = (
    "by section: the documents cannot be separated, so questions with gold in the same section or the same"
    f" {BLOCK:,} characters stay together"
)
TOO_SMALL = "too small to split, nothing is claimed"
TANGLED = "the questions share too much gold to split, nothing is claimed"


@dataclass(frozen=True, slots=True)
class Split:
    """The questions the search may see, those that test its winner, and how they were told apart."""

    search: tuple[Example, ...]
    test: tuple[Example, ...]
    rule: str


@dataclass(frozen=True, slots=True)
class Group:
    """Questions that stay together; ``key`` depends on what they ask, not on their order or names."""

    key: str
    examples: tuple[Example, ...]


def split(dataset: Dataset, *, test_share: float = 0.3, seed: int = 0) -> Split:
    """Divide the questions of ``dataset``; the same content, share and seed give the same split.

    The data set's own split is used if it has one. Else groups of questions are drawn for the test, so that its share
    is near ``test_share`` (at least half and at most one and a half of it) and question types are in proportion.
    """
    if not 0 < test_share < 1:
        raise UsageError(f"a test share of {test_share} is not possible; give a number between 0 and 1")
    examples = dataset.examples
    if any(example.split for example in examples):
        test = frozenset(example.id for example in examples if example.split == "test")
        return _divided(examples, test, GIVEN)
    if len(examples) < MIN_QUESTIONS:
        return Split(examples, (), TOO_SMALL)
    by_document = groups(examples, lambda span: [span.doc])
    if found := _draw(by_document, test_share, seed):
        return _divided(examples, found, BY_DOCUMENT)
    by_section = groups(examples, _Areas(dataset).of)
    if found := _draw(by_section, test_share, seed):
        return _divided(examples, found, BY_SECTION)
    return Split(examples, (), TOO_SMALL if len(examples) * test_share < MIN_TEST else TANGLED)


def folds(dataset: Dataset, examples: Sequence[Example], n: int) -> list[list[Example]]:
    """Deal ``examples`` out into at most ``n`` parts of about equal size; questions that share gold stay together.

    Fewer parts, or one, where too much hangs together, by document and by section.
    """
    by_document = groups(examples, lambda span: [span.doc])
    candidates = by_document if len(by_document) >= n else groups(examples, _Areas(dataset).of)
    parts: list[list[Example]] = [[] for _ in range(min(n, len(candidates)))]
    for group in sorted(candidates, key=lambda group: (-len(group.examples), group.key)):
        min(parts, key=len).extend(group.examples)
    return parts


def groups(examples: Sequence[Example], areas: Callable[[Span], Iterable[Hashable]]) -> list[Group]:
    """Return the connected components of questions that have an area of their gold in common, or their wording."""
    parent = list(range(len(examples)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[Hashable, int] = {}
    for i, example in enumerate(examples):
        wording = ("question", " ".join(example.question.casefold().split()))
        for thing in chain([wording], *map(areas, example.evidence)):
            parent[root(i)] = root(first.setdefault(thing, i))
    members: dict[int, list[Example]] = {}
    for i, example in enumerate(examples):
        members.setdefault(root(i), []).append(example)
    return [Group(digest(sorted((e.question, e.answer) for e in group)), tuple(group)) for group in members.values()]


class _Areas:
    """Sections of the documents, long ones in blocks of 2,000 characters."""

    def __init__(self, dataset: Dataset) -> None:
        self.starts = {document.id: section_starts(document) for document in dataset.documents}

    def of(self, span: Span) -> Iterator[Hashable]:
        """Yield every area that a span touches; overlapping spans always share one."""
        starts = self.starts[span.doc]
        at = span.start
        while at < span.end:
            number = bisect_right(starts, at)
            begin = starts[number - 1] if number else 0
            block = (at - begin) // BLOCK
            yield span.doc, begin, block
            following = starts[number] if number < len(starts) else span.end
            at = min(following, begin + (block + 1) * BLOCK)


def _draw(candidates: Sequence[Group], share: float, seed: int) -> frozenset[str] | None:
    """Return the ids of the best of several drawn tests, or ``None`` when no draw has an acceptable share."""
    types = Counter(example.type for group in candidates for example in group.examples)
    aims = {type_: share * count for type_, count in types.items()}
    total = types.total()
    ordered = sorted(candidates, key=lambda group: group.key)
    best: tuple[float, frozenset[str]] | None = None
    for draw in range(DRAWS):
        drawn = list(ordered)
        random.Random(f"{seed}:{draw}").shuffle(drawn)
        test, cost = _fill(drawn, aims)
        fits = share / 2 * total <= len(test) <= min(1.5 * share * total, total - 1) and len(test) >= MIN_TEST
        if fits and (best is None or cost < best[0]):
            best = cost, test
    return best[1] if best else None


def _fill(drawn: Iterable[Group], aims: Mapping[str, float]) -> tuple[frozenset[str], float]:
    """Take each group in turn if that brings the test nearer to its aims; return the ids taken and the distance left.

    The distance is Pearson's chi-square of the counts by question type and of their sum.
    """
    taken: list[str] = []
    counts: Counter[str] = Counter()

    def distance(of: Counter[str]) -> float:
        whole = sum(aims.values())
        return sum((of[type_] - aim) ** 2 / aim for type_, aim in aims.items()) + (of.total() - whole) ** 2 / whole

    left = distance(counts)
    for group in drawn:
        tried = counts + Counter(example.type for example in group.examples)
        if (then := distance(tried)) < left:
            counts, left = tried, then
            taken.extend(example.id for example in group.examples)
    return frozenset(taken), left


def _divided(examples: Sequence[Example], test: frozenset[str], rule: str) -> Split:
    return Split(
        tuple(example for example in examples if example.id not in test),
        tuple(example for example in examples if example.id in test),
        rule,
    )
