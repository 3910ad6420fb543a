"""Split the questions of a data set into search questions and test questions.

Questions with shared evidence stay on one side, so that the test does not repeat what the search was tuned on. They are
grouped by document; where documents cannot be separated, by section, and then no evidence of the test is within 900
characters of evidence of the search (so no chunk of the default size has both), for which a few questions are left out
of both sides. For searches over larger chunks the gap is as large as these. `leaks` counts violations in any split.

If some questions were drafted by a model and some written by people, the latter are the test, so that the verdict is
about questions of people.
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
MIN_TEST = 6
MOST_UNUSED = 0.2
"""Largest share of questions that may be left out of both sides."""
DRAWS = 64

CROSSFIT = "crossfit"
"""The kind of verdict that tests all questions by cross-fitting, as written in the file of its winner."""

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
        """Return the split with the questions without evidence as unused."""
        search, test = (tuple(e for e in part if e.evidence) for part in (self.search, self.test))
        others = (e for e in (*self.search, *self.test) if not e.evidence)
        return Split(search, test, self.rule, (*self.unused, *others))


@dataclass(frozen=True, slots=True)
class Leaks:
    """Counts of test questions that are not independent of the search questions.

    ``near`` have evidence within ``gap`` characters of that of a search question, and ``shared`` of these also share a
    relevant chunk with one.
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


def split(dataset: Dataset, *, test_share: float = 0.3, seed: int = 0, draws: int = DRAWS, gap: int = MAX_GAP) -> Split:
    """Split the questions of ``dataset``; the same content, share, seed and gap give the same split.

    A split given in the data set is used. Else, if some questions were drafted by a model and enough were written by
    people, the latter are the test, drafted ones with evidence near theirs or the same wording are left out, and enough
    must remain to search on. Else groups of questions are drawn for the test: the best of ``draws`` draws, whose share
    is near ``test_share`` (between 0.5 and 1.5 times) and whose question types are in proportion.
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
    if found := _draw(group_by_document(examples), test_share, seed, draws):
        return _split_from_ids(examples, found, frozenset(), BY_DOCUMENT)
    if found := _draw(group_by_neighbourhood(dataset, examples, gap), test_share, seed, draws):
        return _split_from_ids(examples, found, frozenset(), _by_section(gap))
    apart = split_apart(dataset, test_share=test_share, seed=seed, draws=draws, gap=gap)
    return apart or Split(examples, (), TOO_SMALL if len(examples) * test_share < MIN_TEST else UNSPLITTABLE)


def _split_by_origin(examples: Sequence[Example], gap: int) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the ids of questions written by people, and of drafted ones near them or of the same wording.

    None if too few of either remain.
    """
    written = frozenset(place for place, example in enumerate(examples) if not example.drafted)
    near = frozenset(chain(*(found for place, found in enumerate(find_neighbours(examples, gap)) if place in written)))
    asked = {normalize_wording(examples[place]) for place in written}
    unused = frozenset(
        example.id
        for place, example in enumerate(examples)
        if example.drafted and (place in near or normalize_wording(example) in asked)
    )
    searched = len(examples) - len(written) - len(unused)
    if len(written) < MIN_TEST or searched < MIN_QUESTIONS - MIN_TEST:
        return None
    return frozenset(examples[place].id for place in written), unused


def split_apart(
    dataset: Dataset, *, test_share: float = 0.3, seed: int = 0, draws: int = DRAWS, gap: int = MAX_GAP
) -> Split | None:
    """Split questions that share evidence by leaving a few out; None if those are too many."""
    found = _SectionSplitter(dataset, test_share, gap).best(seed, draws)
    return _split_from_ids(dataset.examples, *found, _by_section(gap)) if found else None


def _by_section(gap: int) -> str:
    return BY_SECTION.replace(f"within {MAX_GAP} characters", f"within {gap} characters")


def leaks(
    dataset: Dataset, divided: Split, *, cuts: Sequence[tuple[int, int]] = ((DEFAULT_SIZE, 0),), gap: int = MAX_GAP
) -> Leaks:
    """Count the test questions of a split that depend on search questions; ``cuts`` are chunk sizes and overlaps."""
    together = (*divided.search, *divided.test)
    first = len(divided.search)
    near = {
        i: searched
        for i, found in enumerate(find_neighbours(together, gap))
        if i >= first and (searched := [j for j in found if j < first])
    }
    # only evidence that is near can share a chunk: other documents need no chunks
    concerned = {span.doc for i in chain(near, *near.values()) for span in together[i].evidence}
    documents = [document for document in dataset.documents if document.id in concerned]
    shared = set()
    for size, overlap in cuts:
        chunk_map = ChunkMap(cut_documents(documents, size, overlap))
        relevant = {i: chunk_map.relevance(together[i].evidence).relevant for i in {*near, *chain(*near.values())}}
        shared |= {i for i, searched in near.items() if any(relevant[i] & relevant[j] for j in searched)}
    return Leaks(len(divided.test), len(shared), len(near), gap)


def folds(dataset: Dataset, examples: Sequence[Example], n: int) -> list[list[Example]]:
    """Divide ``examples`` into at most ``n`` folds of similar size; questions that share evidence stay together.

    They are grouped by document, else by neighbourhood, else by section: the first whose ``n`` folds differ by a factor
    of two at most. By section, evidence of two folds may be within 900 characters.
    """
    parts: list[list[Example]] = []
    for groups in iter_groupings(dataset, examples):
        parts = _deal_groups(groups, n)
        if _is_even(parts, n):
            break
    return parts


def crossfit(dataset: Dataset, n: int, *, gap: int = MAX_GAP, draws: int = DRAWS) -> list[Split]:
    """Return splits that together test every question once: ``n`` at most, none if the questions do not allow it.

    Each search has the questions of the other folds, without those that have evidence within ``gap`` characters of its
    test or the same wording, which are unused. Candidates are the `folds`, and ``draws`` orders of the documents cut
    into consecutive parts; those with the fewest unused questions are returned. Of a split given in the data set only
    unused questions count. Drafted questions are not tested if people wrote enough to test.
    """
    examples = [example for example in dataset.examples if example.split != "unused"]
    written = [example for example in examples if not example.drafted]
    tested = written if len(written) >= MIN_QUESTIONS else examples
    if len(tested) < MIN_QUESTIONS:
        return []
    near = {example.id: found for example, found in zip(examples, _related(examples, gap), strict=True)}
    groups = group_by_section(dataset, tested)
    for count in range(n, 1, -1):
        candidates = [folds(dataset, tested, count), *(_consecutive_parts(groups, count, i) for i in range(draws))]
        made = [[_fold_split(part, examples, near) for part in parts] for parts in candidates if _is_even(parts, count)]
        fit = [splits for splits in made if all(len(one.search) >= MIN_QUESTIONS - MIN_TEST for one in splits)]
        if fit:
            return min(fit, key=lambda splits: sum(len(one.unused) for one in splits))
    return []


def undivided(dataset: Dataset) -> Split:
    """Return a split with all questions as search questions, except those that the data set leaves unused."""
    searched, unused = (tuple(e for e in dataset.examples if (e.split == "unused") is is_) for is_ in (False, True))
    return Split(searched, (), BY_FOLD, unused)


def _is_even(parts: Sequence[Sequence[Example]], n: int) -> bool:
    """Whether there are ``n`` parts that differ in size by a factor of two at most."""
    return len(parts) == n and len(max(parts, key=len)) <= 2 * len(min(parts, key=len))


def _related(examples: Sequence[Example], gap: int) -> list[set[str]]:
    """Return for each question the ids of those with evidence within ``gap`` characters or the same wording."""
    same: defaultdict[str, set[str]] = defaultdict(set)
    for example in examples:
        same[normalize_wording(example)].add(example.id)
    near = find_neighbours(examples, gap)
    return [
        {examples[place].id for place in found} | same[normalize_wording(one)]
        for one, found in zip(examples, near, strict=True)
    ]


def _consecutive_parts(groups: Sequence[Group], n: int, draw: int) -> list[list[Example]]:
    """Cut a random order of the documents into ``n`` consecutive parts with similar numbers of questions."""
    documents = sorted({span.doc for group in groups for example in group.examples for span in example.evidence})
    random.Random(f"stretches:{draw}").shuffle(documents)
    rank = {document: place for place, document in enumerate(documents)}

    def place(group: Group) -> tuple[int, int, str]:
        spans = ((rank[span.doc], span.start) for example in group.examples for span in example.evidence)
        return (*min(spans, default=(len(rank), 0)), group.key)

    total = sum(len(group.examples) for group in groups)
    parts: list[list[Example]] = [[] for _ in range(n)]
    done = 0
    for group in sorted(groups, key=place):
        middle = done + len(group.examples) / 2
        parts[min(n - 1, int(middle * n / total))].extend(group.examples)
        done += len(group.examples)
    return [part for part in parts if part]


def _fold_split(part: Sequence[Example], examples: Sequence[Example], near: Mapping[str, set[str]]) -> Split:
    """Return the split that tests the questions of a fold."""
    test = frozenset(example.id for example in part)
    return _split_from_ids(examples, test, frozenset(chain(*(near[id_] for id_ in test))) - test, BY_FOLD)


def stratified(examples: Iterable[Example]) -> tuple[Example, ...]:
    """Order questions so that every prefix is stratified by type and, within a type, by gold documents.

    In each prefix the count of a stratum differs from its share by less than one question. The order depends on the
    questions, not on their names or files.
    """
    by_type: defaultdict[str, defaultdict[frozenset[str], list[Example]]] = defaultdict(lambda: defaultdict(list))
    for example in sorted(examples, key=lambda example: (digest([example.question, example.answer]), example.id)):
        by_type[_stratum(example)][frozenset(span.doc for span in example.evidence)].append(example)
    return tuple(_spread([_spread(list(groups.values())) for _, groups in sorted(by_type.items())]))


def _spread(parts: Sequence[Sequence[Example]]) -> list[Example]:
    """Merge parts in their order so that in each prefix their counts differ from their shares by less than one.

    Element k (from 0) of m, among n in all, has the release kn/m and the deadline (k + 1)n/m: of the released ones, the
    one with the earliest deadline is next (Steiner and Yeomans 1993).
    """
    total = sum(len(part) for part in parts)
    coming = sorted(
        (k * total // len(part), -(-(k + 1) * total // len(part)), place, k)
        for place, part in enumerate(parts)
        for k in range(len(part))
    )
    waiting: list[tuple[int, int, int]] = []
    taken: list[Example] = []
    coming.reverse()
    while len(taken) < total:
        while coming and coming[-1][0] <= len(taken):
            heappush(waiting, coming.pop()[1:])
        _, place, k = heappop(waiting)
        taken.append(parts[place][k])
    return taken


def _deal_groups(groups: Sequence[Group], n: int) -> list[list[Example]]:
    """Assign groups to ``n`` parts, the largest first, each to the smallest part."""
    parts: list[list[Example]] = [[] for _ in range(min(n, len(groups)))]
    for group in sorted(groups, key=lambda group: (-len(group.examples), group.key)):
        min(parts, key=len).extend(group.examples)
    return parts


def _draw(candidates: Sequence[Group], share: float, seed: int, draws: int) -> frozenset[str] | None:
    """Return the ids of the best of several drawn tests; None if no draw has an acceptable share."""
    examples = [example for group in candidates for example in group.examples]
    aims = _aims(examples, share)
    ordered = sorted(candidates, key=lambda group: group.key)
    best: tuple[float, frozenset[str]] | None = None
    for draw in range(draws):
        drawn = list(ordered)
        random.Random(f"{seed}:{draw}").shuffle(drawn)
        test, cost = _fill(drawn, aims)
        if _fits(len(test), len(examples), share) and (best is None or cost < best[0]):
            best = cost, test
    return best[1] if best else None


def _fits(test: int, total: int, share: float) -> bool:
    return max(MIN_TEST, share / 2 * total) <= test <= min(1.5 * share * total, total - 1)


def _aims(examples: Iterable[Example], share: float) -> dict[str, float]:
    """Return the expected number of test questions by stratum."""
    return {stratum: share * count for stratum, count in Counter(map(_stratum, examples)).items()}


def _stratum(example: Example) -> str:
    """Return the type of a question, with whether it lacks evidence or an answer."""
    if example.evidence:
        return example.type
    return f"{example.type} without {'evidence' if example.answerable else 'answer'}"


def _distance(of: Mapping[str, int], aims: Mapping[str, float]) -> float:
    """Return Pearson's chi-square of the counts by stratum and of their sum."""
    whole = sum(aims.values())
    apart = sum((of.get(type_, 0) - aim) ** 2 / aim for type_, aim in aims.items())
    return apart + (sum(of.values()) - whole) ** 2 / whole


def _fill(drawn: Iterable[Group], aims: Mapping[str, float]) -> tuple[frozenset[str], float]:
    """Add each group in turn if that reduces the distance to the aims; return the ids and the distance."""
    taken: list[str] = []
    counts: Counter[str] = Counter()
    left = _distance(counts, aims)
    for group in drawn:
        tried = counts + Counter(map(_stratum, group.examples))
        if (then := _distance(tried, aims)) < left:
            counts, left = tried, then
            taken.extend(example.id for example in group.examples)
    return frozenset(taken), left


class _SectionSplitter:
    """Draws tests of connected questions, and finds few questions to leave out so that both sides are separate."""

    def __init__(self, dataset: Dataset, share: float, gap: int) -> None:
        self._examples = sorted(dataset.examples, key=lambda example: digest([example.question, example.answer]))
        self._near = find_neighbours(self._examples, gap)
        places = {example.id: i for i, example in enumerate(self._examples)}
        groups = sorted(group_by_section(dataset, dataset.examples), key=lambda group: group.key)
        self._units = [frozenset(places[example.id] for example in group.examples) for group in groups]
        self._around = [frozenset(chain(*(self._near[i] for i in unit))) - unit for unit in self._units]
        self._unit_of = {i: number for number, unit in enumerate(self._units) for i in unit}
        self._share = share
        self._aims = _aims(self._examples, share)

    def best(self, seed: int, draws: int) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the ids of a test and of the questions left out; None if every draw leaves out too many."""
        best: tuple[float, set[int], set[int]] | None = None
        total = len(self._examples)
        for draw in range(draws):
            drawn = list(range(len(self._units)))
            random.Random(f"{seed}:{draw}").shuffle(drawn)
            grown = self._grown(drawn)
            unused = self._between(grown)
            test = grown - unused
            if len(unused) > MOST_UNUSED * total or not _fits(len(test), total, self._share):
                continue
            cost = len(unused) + _distance(Counter(_stratum(self._examples[i]) for i in test), self._aims)
            if best is None or cost < best[0]:
                best = cost, test, unused
        return (self._ids(best[1]), self._ids(best[2])) if best else None

    def _grown(self, drawn: Sequence[int]) -> set[int]:
        """Grow a test from the first unit drawn, each time by the neighbour with the smallest new boundary."""
        rank = {unit: place for place, unit in enumerate(drawn)}
        left, test, around = set(drawn), set[int](), set[int]()
        aim = self._share * len(self._examples)
        while left and len(test) < aim:
            adjacent = {self._unit_of[i] for i in around} & left or {min(left, key=rank.__getitem__)}
            more = {
                unit: len(self._around[unit] - test - around) - len(self._units[unit] & around) for unit in adjacent
            }
            taken = min(adjacent, key=lambda unit: (more[unit], rank[unit]))
            left.discard(taken)
            test |= self._units[taken]
            around = (around | self._around[taken]) - test
        return test

    def _between(self, test: set[int]) -> set[int]:
        """Leave out questions until the sides are separate, each time the one with most neighbours across."""
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
    aside = test | unused
    return Split(
        tuple(example for example in examples if example.id not in aside),
        tuple(example for example in examples if example.id in test),
        rule,
        tuple(example for example in examples if example.id in unused),
    )
