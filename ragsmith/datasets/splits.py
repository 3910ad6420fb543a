"""Split the questions of a data set into search questions and test questions.

Questions with shared evidence are assigned to the same side, so that test questions are independent of the questions
used for tuning. Questions are grouped by document, or by section if the documents cannot be separated. Then the
evidence of the two sides is at least 900 characters apart, so that no chunk of the default size has both; a few
questions may be excluded from both sides for this. The gap is larger for searches over larger chunks. `count_leaks`
counts violations in any split.

If some questions were drafted by a model and some written by people, the test has the questions written by people.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import chain

from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE, cut_documents
from ragsmith.datasets.groups import (
    BLOCK_SIZE,
    MAX_GAP,
    Group,
    find_neighbours,
    gold_places,
    group_by_document,
    group_by_neighbourhood,
    group_by_section,
    iter_groupings,
    normalize_wording,
)
from ragsmith.datasets.relevance import ChunkMap
from ragsmith.digest import digest
from ragsmith.errors import UsageError
from ragsmith.types import Dataset, Example

MIN_QUESTIONS = 20
"""Minimum number of questions for a split."""

MIN_TEST = 6
"""Minimum number of test questions."""

MAX_UNUSED_SHARE = 0.2
"""Maximum share of questions that may be excluded from both sides."""

N_DRAWS = 64
"""Default number of random draws of a test, of which the best is chosen."""

CROSSFIT = "crossfit"
"""Name of the verdict with cross-fitting, in settings and files."""

GIVEN = "given"
BY_DOCUMENT = "by document: questions that share a gold document stay together"
BY_SECTION = (
    "by section: the documents cannot be separated, so questions with gold in the same section or the same"
    f" {BLOCK_SIZE:,} characters stay together, and those with gold within {MAX_GAP} characters of both sides are"
    " left out"
)
BY_ORIGIN = "by origin: the search sees questions that a machine drafted, and those that people wrote are the test"
BY_FOLD = "by crossfit: each question is tested once, by a search that saw neither it nor gold near it"
TOO_SMALL = "too small to split, nothing is claimed"
UNSPLITTABLE = "the questions share too much gold to split, nothing is claimed"


@dataclass(frozen=True, slots=True)
class Split:
    """Search questions, test questions and the rule of the split; ``unused`` questions are in neither part."""

    search: tuple[Example, ...]
    test: tuple[Example, ...]
    rule: str
    unused: tuple[Example, ...] = ()

    def with_evidence(self) -> Split:
        """Return the split with the questions without evidence moved to the unused ones."""
        search, test = (tuple(e for e in part if e.evidence) for part in (self.search, self.test))
        others = (e for e in (*self.search, *self.test) if not e.evidence)
        return Split(search, test, self.rule, (*self.unused, *others))


@dataclass(frozen=True, slots=True)
class Leaks:
    """Counts of test questions that are not independent of the search questions.

    ``near`` questions have evidence within ``gap`` characters of that of a search question; ``shared`` of these also
    share a relevant chunk with a search question.
    """

    test: int
    shared: int
    near: int
    gap: int = MAX_GAP

    def __str__(self) -> str:
        if not self.near:
            return f"no test question has gold within {self.gap} characters of a search question's"
        return (
            f"{self.near} of {self.test} test questions have gold within {self.gap} characters of a search question's, "
            f"{self.shared} share a relevant chunk with one"
        )


def split(
    dataset: Dataset, *, test_share: float = 0.3, seed: int = 0, draws: int = N_DRAWS, gap: int = MAX_GAP
) -> Split:
    """Split the questions of ``dataset``; the same content, share, seed and gap give the same split.

    A split given in the data set takes precedence. Else, if some questions were drafted by a model and enough were
    written by people, the latter are the test; drafted questions with the same wording or neighbouring evidence are
    excluded, and enough must remain for the search. Else the test is the best of ``draws`` random draws of groups,
    whose share is near ``test_share`` (between 0.5 and 1.5 times) and whose question types are in proportion.
    """
    if not 0 < test_share < 1:
        raise UsageError(f"a test share of {test_share} is not possible; give a number between 0 and 1")
    examples = dataset.examples
    if any(example.split for example in examples):
        marked = {part: frozenset(e.id for e in examples if e.split == part) for part in ("test", "unused")}
        return _split_from_ids(examples, marked["test"], marked["unused"], GIVEN)
    if len(examples) < MIN_QUESTIONS:
        return Split(examples, (), TOO_SMALL)
    if by_origin := _split_by_origin(examples, gap):
        return _split_from_ids(examples, *by_origin, BY_ORIGIN)
    if test := _draw_test(group_by_document(examples), test_share, seed, draws):
        return _split_from_ids(examples, test, frozenset(), BY_DOCUMENT)
    if test := _draw_test(group_by_neighbourhood(dataset, examples, gap), test_share, seed, draws):
        return _split_from_ids(examples, test, frozenset(), _section_rule(gap))
    separated = split_with_exclusions(dataset, test_share=test_share, seed=seed, draws=draws, gap=gap)
    return separated or Split(examples, (), TOO_SMALL if len(examples) * test_share < MIN_TEST else UNSPLITTABLE)


def _split_by_origin(examples: Sequence[Example], gap: int) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the ids of questions written by people, and of the drafted questions that depend on them.

    Drafted questions depend on those with neighbouring evidence or the same wording. Return None if too few questions
    of either origin remain.
    """
    written = frozenset(i for i, example in enumerate(examples) if not example.drafted)
    near = frozenset(chain(*(near for i, near in enumerate(find_neighbours(examples, gap)) if i in written)))
    wordings = {normalize_wording(examples[i]) for i in written}
    unused = frozenset(
        example.id
        for i, example in enumerate(examples)
        if example.drafted and (i in near or normalize_wording(example) in wordings)
    )
    remaining = len(examples) - len(written) - len(unused)
    if len(written) < MIN_TEST or remaining < MIN_QUESTIONS - MIN_TEST:
        return None
    return frozenset(examples[i].id for i in written), unused


def split_with_exclusions(
    dataset: Dataset, *, test_share: float = 0.3, seed: int = 0, draws: int = N_DRAWS, gap: int = MAX_GAP
) -> Split | None:
    """Split questions that share evidence by excluding a few; None if too many would be excluded."""
    ids = _SectionSplitter(dataset, test_share, gap).draw_best(seed, draws)
    return _split_from_ids(dataset.examples, *ids, _section_rule(gap)) if ids else None


def _section_rule(gap: int) -> str:
    return BY_SECTION.replace(f"within {MAX_GAP} characters", f"within {gap} characters")


def count_leaks(
    dataset: Dataset, parts: Split, *, cuts: Sequence[tuple[int, int]] = ((DEFAULT_SIZE, 0),), gap: int = MAX_GAP
) -> Leaks:
    """Count the test questions of a split that depend on search questions; ``cuts`` are chunk sizes and overlaps."""
    questions = (*parts.search, *parts.test)
    first = len(parts.search)
    near = {
        i: searched
        for i, neighbours in enumerate(find_neighbours(questions, gap))
        if i >= first and (searched := [j for j in neighbours if j < first])
    }
    # Only neighbouring evidence can share a chunk, so other documents are not chunked.
    affected = {place.doc for i in chain(near, *near.values()) for place in gold_places(questions[i])}
    documents = [document for document in dataset.documents if document.id in affected]
    shared = set()
    for size, overlap in cuts:
        chunk_map = ChunkMap(cut_documents(documents, size, overlap))
        relevant = {i: chunk_map.relevance(questions[i].evidence).relevant for i in {*near, *chain(*near.values())}}
        shared |= {i for i, searched in near.items() if any(relevant[i] & relevant[j] for j in searched)}
    return Leaks(len(parts.test), len(shared), len(near), gap)


def make_folds(dataset: Dataset, examples: Sequence[Example], n: int) -> list[list[Example]]:
    """Divide ``examples`` into at most ``n`` folds of similar size; questions that share evidence stay together.

    Questions are grouped by document, by neighbourhood or by section: the first of these whose ``n`` folds differ in
    size by a factor of at most two. With groups by section, evidence of two folds may be within 900 characters.
    """
    parts: list[list[Example]] = []
    for groups in iter_groupings(dataset, examples):
        parts = _balance_groups(groups, n)
        if _is_even(parts, n):
            break
    return parts


def crossfit(dataset: Dataset, n: int, *, gap: int = MAX_GAP, draws: int = N_DRAWS) -> list[Split]:
    """Return at most ``n`` splits that together test every question once; none if there are too few questions.

    Each search has the questions of the other folds; questions with evidence within ``gap`` characters of the test or
    the same wording are unused. The candidates are the folds of `make_folds` and consecutive parts of ``draws`` random
    orders of the documents; the candidate with the fewest unused questions is returned. A split given in the data set
    is ignored, except for its unused questions. Drafted questions are not tested if people wrote enough questions.
    """
    examples = [example for example in dataset.examples if example.split != "unused"]
    written = [example for example in examples if not example.drafted]
    tested = written if len(written) >= MIN_QUESTIONS else examples
    if len(tested) < MIN_QUESTIONS:
        return []
    near = {example.id: found for example, found in zip(examples, _find_related(examples, gap), strict=True)}
    groups = group_by_section(dataset, tested)
    for count in range(n, 1, -1):
        candidates = [make_folds(dataset, tested, count), *(_cut_consecutively(groups, count, i) for i in range(draws))]
        candidate_splits = [
            [_fold_split(part, examples, near) for part in parts] for parts in candidates if _is_even(parts, count)
        ]
        valid = [
            splits
            for splits in candidate_splits
            if all(len(fold.search) >= MIN_QUESTIONS - MIN_TEST for fold in splits)
        ]
        if valid:
            return min(valid, key=lambda splits: sum(len(fold.unused) for fold in splits))
    return []


def search_only_split(dataset: Dataset) -> Split:
    """Return a split with all questions as search questions, except those marked as unused in the data set."""
    searched, unused = (
        tuple(e for e in dataset.examples if (e.split == "unused") is is_unused) for is_unused in (False, True)
    )
    return Split(searched, (), BY_FOLD, unused)


def _is_even(parts: Sequence[Sequence[Example]], n: int) -> bool:
    """Whether there are ``n`` parts that differ in size by a factor of at most two."""
    return len(parts) == n and len(max(parts, key=len)) <= 2 * len(min(parts, key=len))


def _find_related(examples: Sequence[Example], gap: int) -> list[set[str]]:
    """Return for each question the ids of questions with evidence within ``gap`` characters or the same wording."""
    same: defaultdict[str, set[str]] = defaultdict(set)
    for example in examples:
        same[normalize_wording(example)].add(example.id)
    near = find_neighbours(examples, gap)
    return [
        {examples[i].id for i in neighbours} | same[normalize_wording(example)]
        for example, neighbours in zip(examples, near, strict=True)
    ]


def _cut_consecutively(groups: Sequence[Group], n: int, draw: int) -> list[list[Example]]:
    """Cut a random order of the documents into ``n`` consecutive parts with similar numbers of questions."""
    documents = sorted({span.doc for group in groups for example in group.examples for span in example.evidence})
    random.Random(f"stretches:{draw}").shuffle(documents)
    rank = {document: position for position, document in enumerate(documents)}

    def position(group: Group) -> tuple[int, int, str]:
        spans = ((rank[span.doc], span.start) for example in group.examples for span in example.evidence)
        return (*min(spans, default=(len(rank), 0)), group.key)

    total = sum(len(group.examples) for group in groups)
    parts: list[list[Example]] = [[] for _ in range(n)]
    done = 0
    for group in sorted(groups, key=position):
        middle = done + len(group.examples) / 2
        parts[min(n - 1, int(middle * n / total))].extend(group.examples)
        done += len(group.examples)
    return [part for part in parts if part]


def _fold_split(part: Sequence[Example], examples: Sequence[Example], near: Mapping[str, set[str]]) -> Split:
    """Return the split that tests the questions of a fold."""
    test = frozenset(example.id for example in part)
    return _split_from_ids(examples, test, frozenset(chain(*(near[id_] for id_ in test))) - test, BY_FOLD)


def stratify(examples: Iterable[Example]) -> tuple[Example, ...]:
    """Order questions so that every prefix is stratified by type and, within a type, by gold documents.

    In each prefix the count of a stratum differs from its share by less than one question. The order depends on the
    questions, not on their names or files.
    """
    by_type: defaultdict[str, defaultdict[frozenset[str], list[Example]]] = defaultdict(lambda: defaultdict(list))
    for example in sorted(examples, key=lambda example: (digest([example.question, example.answer]), example.id)):
        by_type[_stratum(example)][frozenset(span.doc for span in example.evidence)].append(example)
    return tuple(_interleave([_interleave(list(groups.values())) for _, groups in sorted(by_type.items())]))


def _interleave(parts: Sequence[Sequence[Example]]) -> list[Example]:
    """Merge parts in their order so that in each prefix their counts differ from their shares by less than one.

    Element k (from 0) of a part of m, among n in total, has the release kn/m and the deadline (k + 1)n/m: of the
    released elements, the one with the earliest deadline is next (Steiner and Yeomans 1993).
    """
    total = sum(len(part) for part in parts)
    pending = sorted(
        (k * total // len(part), -(-(k + 1) * total // len(part)), index, k)
        for index, part in enumerate(parts)
        for k in range(len(part))
    )
    waiting: list[tuple[int, int, int]] = []
    merged: list[Example] = []
    pending.reverse()
    while len(merged) < total:
        while pending and pending[-1][0] <= len(merged):
            heappush(waiting, pending.pop()[1:])
        _, index, k = heappop(waiting)
        merged.append(parts[index][k])
    return merged


def _balance_groups(groups: Sequence[Group], n: int) -> list[list[Example]]:
    """Assign groups to ``n`` parts, the largest first, each to the smallest part."""
    parts: list[list[Example]] = [[] for _ in range(min(n, len(groups)))]
    for group in sorted(groups, key=lambda group: (-len(group.examples), group.key)):
        min(parts, key=len).extend(group.examples)
    return parts


def _draw_test(candidates: Sequence[Group], share: float, seed: int, draws: int) -> frozenset[str] | None:
    """Return the ids of the best of several drawn tests; None if no draw has an acceptable share."""
    examples = [example for group in candidates for example in group.examples]
    targets = _expected_counts(examples, share)
    ordered = sorted(candidates, key=lambda group: group.key)
    best: tuple[float, frozenset[str]] | None = None
    for draw in range(draws):
        drawn = list(ordered)
        random.Random(f"{seed}:{draw}").shuffle(drawn)
        test, cost = _fill_test(drawn, targets)
        if _is_acceptable(len(test), len(examples), share) and (best is None or cost < best[0]):
            best = cost, test
    return best[1] if best else None


def _is_acceptable(test: int, total: int, share: float) -> bool:
    return max(MIN_TEST, share / 2 * total) <= test <= min(1.5 * share * total, total - 1)


def _expected_counts(examples: Iterable[Example], share: float) -> dict[str, float]:
    """Return the expected number of test questions by stratum."""
    return {stratum: share * count for stratum, count in Counter(map(_stratum, examples)).items()}


def _stratum(example: Example) -> str:
    """Return the stratum of a question: its type, and whether evidence or an answer is missing."""
    if example.evidence:
        return example.type
    return f"{example.type} without {'evidence' if example.answerable else 'answer'}"


def _chi_square(counts: Mapping[str, int], targets: Mapping[str, float]) -> float:
    """Return Pearson's chi-square statistic of the counts by stratum and of their sum."""
    total = sum(targets.values())
    by_stratum = sum((counts.get(stratum, 0) - target) ** 2 / target for stratum, target in targets.items())
    return by_stratum + (sum(counts.values()) - total) ** 2 / total


def _fill_test(drawn: Iterable[Group], targets: Mapping[str, float]) -> tuple[frozenset[str], float]:
    """Add each group in turn if that reduces the chi-square statistic; return the ids and the statistic."""
    taken: list[str] = []
    counts: Counter[str] = Counter()
    statistic = _chi_square(counts, targets)
    for group in drawn:
        tried = counts + Counter(map(_stratum, group.examples))
        if (changed := _chi_square(tried, targets)) < statistic:
            counts, statistic = tried, changed
            taken.extend(example.id for example in group.examples)
    return frozenset(taken), statistic


class _SectionSplitter:
    """A splitter that grows tests of neighbouring questions, and excludes few questions to separate the two sides."""

    def __init__(self, dataset: Dataset, share: float, gap: int) -> None:
        self._examples = sorted(dataset.examples, key=lambda example: digest([example.question, example.answer]))
        self._near = find_neighbours(self._examples, gap)
        places = {example.id: i for i, example in enumerate(self._examples)}
        groups = sorted(group_by_section(dataset, dataset.examples), key=lambda group: group.key)
        self._units = [frozenset(places[example.id] for example in group.examples) for group in groups]
        self._around = [frozenset(chain(*(self._near[i] for i in unit))) - unit for unit in self._units]
        self._unit_of = {i: number for number, unit in enumerate(self._units) for i in unit}
        self._share = share
        self._targets = _expected_counts(self._examples, share)

    def draw_best(self, seed: int, draws: int) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the ids of a test and of the excluded questions; None if every draw excludes too many."""
        best: tuple[float, set[int], set[int]] | None = None
        total = len(self._examples)
        for draw in range(draws):
            drawn = list(range(len(self._units)))
            random.Random(f"{seed}:{draw}").shuffle(drawn)
            candidate = self._grow_test(drawn)
            unused = self._find_unused(candidate)
            test = candidate - unused
            if len(unused) > MAX_UNUSED_SHARE * total or not _is_acceptable(len(test), total, self._share):
                continue
            cost = len(unused) + _chi_square(Counter(_stratum(self._examples[i]) for i in test), self._targets)
            if best is None or cost < best[0]:
                best = cost, test, unused
        return (self._ids(best[1]), self._ids(best[2])) if best else None

    def _grow_test(self, drawn: Sequence[int]) -> set[int]:
        """Grow a test from the first unit, adding each time the unit with the smallest increase of the boundary."""
        rank = {unit: place for place, unit in enumerate(drawn)}
        left, test, around = set(drawn), set[int](), set[int]()
        target = self._share * len(self._examples)
        while left and len(test) < target:
            adjacent = {self._unit_of[i] for i in around} & left or {min(left, key=rank.__getitem__)}
            more = {
                unit: len(self._around[unit] - test - around) - len(self._units[unit] & around) for unit in adjacent
            }
            taken = min(adjacent, key=lambda unit: (more[unit], rank[unit]))
            left.discard(taken)
            test |= self._units[taken]
            around = (around | self._around[taken]) - test
        return test

    def _find_unused(self, test: set[int]) -> set[int]:
        """Exclude questions until the sides are separate, each time the one with most neighbours on the other side."""
        across = {i: {j for j in near if (i in test) != (j in test)} for i, near in enumerate(self._near)}
        unused: set[int] = set()
        while across[worst := max(across, key=lambda i: (len(across[i]), -i))]:
            unused.add(worst)
            for other in across.pop(worst):
                across[other].discard(worst)
        return unused

    def _ids(self, places: Iterable[int]) -> frozenset[str]:
        return frozenset(self._examples[i].id for i in places)


def _split_from_ids(examples: Sequence[Example], test: frozenset[str], unused: frozenset[str], rule: str) -> Split:
    excluded = test | unused
    return Split(
        tuple(example for example in examples if example.id not in excluded),
        tuple(example for example in examples if example.id in test),
        rule,
        tuple(example for example in examples if example.id in unused),
    )
