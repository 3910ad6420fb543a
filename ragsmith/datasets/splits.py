"""Divide a data set's questions: some for the search, some that are looked at once, for the verdict.

One rule for all: questions that hang together by their gold stay on one side, else the test would ask again what the
search was tuned on. They hang together by document; where documents cannot be separated, by section, and then no gold
of the test lies within 900 characters of gold of the search (so no chunk of the default size holds both), for which a
few questions between the sides are left out of both. Where larger chunks are searched over, the gap is as large as they
are. `leaks` counts what breaks the rule in any split, given or drawn.

Where some questions were drafted by a machine and some written by people, those that people wrote are the test, so that
what is claimed is about their questions.
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
    BLOCK,
    GAP,
    Group,
    by_document,
    by_neighbourhood,
    by_section,
    neighbours,
    units,
    wording,
)
from ragsmith.datasets.relevance import ChunkMap
from ragsmith.digest import digest
from ragsmith.errors import UsageError
from ragsmith.types import Dataset, Example

MIN_QUESTIONS = 20
MIN_TEST = 6
MOST_UNUSED = 0.2
"""The share of questions that may be left out of both sides."""
DRAWS = 64

CROSSFIT = "crossfit"
"""The verdict that is about all questions; the file of its winner has it, too."""

GIVEN = "given"
BY_DOCUMENT = "by document: questions that share a gold document stay together"
BY_SECTION = (
    "by section: the documents cannot be separated, so questions with gold in the same section or the same"
    f" {BLOCK:,} characters stay together, and those with gold within {GAP} characters of both sides are left out"
)
BY_ORIGIN = "by origin: the search sees questions that a machine drafted, and those that people wrote are the test"
BY_FOLD = "by crossfit: each question is tested once, by a search that saw neither it nor gold near it"
TOO_SMALL = "too small to split, nothing is claimed"
UNSPLITTABLE = "the questions share too much gold to split, nothing is claimed"


@dataclass(frozen=True, slots=True)
class Split:
    """The questions the search may see, those that test its winner, and how they were told apart.

    ``unused`` are in neither part, as their gold lies between the two.
    """

    search: tuple[Example, ...]
    test: tuple[Example, ...]
    rule: str
    unused: tuple[Example, ...] = ()

    def with_evidence(self) -> Split:
        """The same without the questions that have no evidence, which are unused."""
        parts = ([e for e in part if e.evidence] for part in (self.search, self.test))
        others = [e for e in (*self.search, *self.test) if not e.evidence]
        search, test = map(tuple, parts)
        return Split(search, test, self.rule, (*self.unused, *others))


@dataclass(frozen=True, slots=True)
class Leaks:
    """How many of the ``test`` questions are not as unseen as they should be.

    ``shared`` have a relevant chunk in common with a search question, be it of the default size or of one that is
    searched over; ``near`` have gold within ``gap`` characters of a search question's, and are all that may share one.
    """

    test: int
    shared: int
    near: int
    gap: int = GAP

    def __str__(self) -> str:
        if not self.near:
            return f"no test question has gold within {self.gap} characters of a search question's"
        return (
            f"{self.near} of {self.test} test questions have gold within {self.gap} characters of a search question's, "
            f"{self.shared} share a relevant chunk with one"
        )


def split(dataset: Dataset, *, test_share: float = 0.3, seed: int = 0, draws: int = DRAWS, gap: int = GAP) -> Split:
    """Divide the questions of ``dataset``; the same content, share, seed and gap give the same split.

    The data set's own split is used if it has one. Else, if some questions were drafted by a machine and there are
    enough that people wrote, these are the test; drafted ones with gold near theirs, or in their words, are left out,
    and enough for a search have to remain. Else groups of questions are drawn for the test, so that its share
    is near ``test_share`` (at least half and at most one and a half of it) and question types are in proportion: the
    best of ``draws`` draws, so that one draw with many seeds gives many splits.
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
    if found := _draw(by_document(examples), test_share, seed, draws):
        return _split_from_ids(examples, found, frozenset(), BY_DOCUMENT)
    if found := _draw(by_neighbourhood(dataset, examples, gap), test_share, seed, draws):
        return _split_from_ids(examples, found, frozenset(), _by_section(gap))
    apart = split_apart(dataset, test_share=test_share, seed=seed, draws=draws, gap=gap)
    return apart or Split(examples, (), TOO_SMALL if len(examples) * test_share < MIN_TEST else UNSPLITTABLE)


def _split_by_origin(examples: Sequence[Example], gap: int) -> tuple[frozenset[str], frozenset[str]] | None:
    """The ids of the questions that people wrote, and of drafted ones near them or in the same words.

    ``None`` where too few of either are left.
    """
    written = frozenset(place for place, example in enumerate(examples) if not example.drafted)
    near = frozenset(chain(*(found for place, found in enumerate(neighbours(examples, gap)) if place in written)))
    asked = {wording(examples[place]) for place in written}
    unused = frozenset(
        example.id
        for place, example in enumerate(examples)
        if example.drafted and (place in near or wording(example) in asked)
    )
    searched = len(examples) - len(written) - len(unused)
    if len(written) < MIN_TEST or searched < MIN_QUESTIONS - MIN_TEST:
        return None
    return frozenset(examples[place].id for place in written), unused


def split_apart(
    dataset: Dataset, *, test_share: float = 0.3, seed: int = 0, draws: int = DRAWS, gap: int = GAP
) -> Split | None:
    """Divide questions that hang together, leaving a few out; ``None`` where those would be too many."""
    found = _Cut(dataset, test_share, gap).best(seed, draws)
    return _split_from_ids(dataset.examples, *found, _by_section(gap)) if found else None


def _by_section(gap: int) -> str:
    return BY_SECTION.replace(f"within {GAP} characters", f"within {gap} characters")


def leaks(
    dataset: Dataset, divided: Split, *, cuts: Sequence[tuple[int, int]] = ((DEFAULT_SIZE, 0),), gap: int = GAP
) -> Leaks:
    """Count the test questions of a split that break the rule, whoever made it; ``cuts`` are sizes and overlaps."""
    together = (*divided.search, *divided.test)
    first = len(divided.search)
    near = {
        i: beside
        for i, found in enumerate(neighbours(together, gap))
        if i >= first and (beside := [j for j in found if j < first])
    }
    # only gold that lies near can share a chunk: other documents need no cutting
    concerned = {span.doc for i in chain(near, *near.values()) for span in together[i].evidence}
    documents = [document for document in dataset.documents if document.id in concerned]
    shared = set()
    for size, overlap in cuts:
        chunk_map = ChunkMap(cut_documents(documents, size, overlap))
        relevant = {i: chunk_map.relevance(together[i].evidence).relevant for i in {*near, *chain(*near.values())}}
        shared |= {i for i, beside in near.items() if any(relevant[i] & relevant[j] for j in beside)}
    return Leaks(len(divided.test), len(shared), len(near), gap)


def folds(dataset: Dataset, examples: Sequence[Example], n: int) -> list[list[Example]]:
    """Deal ``examples`` out into at most ``n`` parts of about equal size; questions that share gold stay together.

    The unit is the widest, of those by document, by neighbourhood and by section, whose ``n`` parts do not differ by
    more than a factor of two; the last, where none does. By section, gold of two parts may lie within 900 characters.
    """
    parts: list[list[Example]] = []
    for groups in units(dataset, examples):
        parts = _deal_groups(groups, n)
        if len(parts) == n and len(max(parts, key=len)) <= 2 * len(min(parts, key=len)):
            break
    return parts


def crossfit(dataset: Dataset, n: int, *, gap: int = GAP, draws: int = DRAWS) -> list[Split]:
    """Splits that together test every question once: at most ``n``, and none where the questions do not allow it.

    Each search has the questions of the other folds without those that have gold within ``gap`` characters of its test,
    or its words, which are left out of both. So that these are few where documents cannot be separated, folds are
    stretches of documents: of the `folds`, and of ``draws`` orders of the documents cut into stretches, the one that
    leaves out fewest is taken. What the data set says of search and test does not count here, only what it leaves
    unused; questions that a machine drafted are searched on and not tested where people wrote enough to test.
    """
    examples = [example for example in dataset.examples if example.split != "unused"]
    written = [example for example in examples if not example.drafted]
    tested = written if len(written) >= MIN_QUESTIONS else examples
    if len(tested) < MIN_QUESTIONS:
        return []
    near = {example.id: found for example, found in zip(examples, _beside(examples, gap), strict=True)}
    groups = by_section(dataset, tested)
    for count in range(n, 1, -1):
        able = [folds(dataset, tested, count), *(_stretches(groups, count, draw) for draw in range(draws))]
        made = [[_against(part, examples, near) for part in parts] for parts in able if _even(parts, count)]
        fit = [splits for splits in made if all(len(one.search) >= MIN_QUESTIONS - MIN_TEST for one in splits)]
        if fit:
            return min(fit, key=lambda splits: sum(len(one.unused) for one in splits))
    return []


def undivided(dataset: Dataset) -> Split:
    """All questions to search on and none to test, but for those that the data set leaves unused."""
    searched, unused = (tuple(e for e in dataset.examples if (e.split == "unused") is is_) for is_ in (False, True))
    return Split(searched, (), BY_FOLD, unused)


def _even(parts: Sequence[Sequence[Example]], n: int) -> bool:
    """Whether there are ``n`` parts, none of them more than twice as large as another."""
    return len(parts) == n and len(max(parts, key=len)) <= 2 * len(min(parts, key=len))


def _beside(examples: Sequence[Example], gap: int) -> list[set[str]]:
    """For each question the ids of others that have gold within ``gap`` characters of its own, or its words."""
    same: defaultdict[str, set[str]] = defaultdict(set)
    for example in examples:
        same[wording(example)].add(example.id)
    near = neighbours(examples, gap)
    return [
        {examples[place].id for place in found} | same[wording(one)] for one, found in zip(examples, near, strict=True)
    ]


def _stretches(groups: Sequence[Group], n: int, draw: int) -> list[list[Example]]:
    """Cut documents, in an order that is drawn, into ``n`` stretches with about as many questions each."""
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


def _against(part: Sequence[Example], examples: Sequence[Example], near: Mapping[str, set[str]]) -> Split:
    """The questions of a fold as a test, and what may be searched on for it."""
    test = {example.id for example in part}
    close = set(chain(*(near[question] for question in test))) - test
    aside = test | close
    searched = tuple(example for example in examples if example.id not in aside)
    unused = tuple(example for example in examples if example.id in close)
    return Split(searched, tuple(sorted(part, key=lambda example: example.id)), BY_FOLD, unused)


def stratified(examples: Iterable[Example]) -> tuple[Example, ...]:
    """Order questions so that those before any point are like all of them, by type and, within a type, by document.

    At every point the count of each type is less than one question from its share, and so is, of the questions of a
    type, the count of those with the same gold documents. The order depends on what is asked, not on names or files.
    """
    by_type: defaultdict[str, defaultdict[frozenset[str], list[Example]]] = defaultdict(lambda: defaultdict(list))
    for example in sorted(examples, key=lambda example: (digest([example.question, example.answer]), example.id)):
        by_type[_stratum(example)][frozenset(span.doc for span in example.evidence)].append(example)
    return tuple(_spread([_spread(list(groups.values())) for _, groups in sorted(by_type.items())]))


def _spread(parts: Sequence[Sequence[Example]]) -> list[Example]:
    """Merge parts, each in its own order, so that no count is ever a whole question from its share of those taken.

    Number k (from 0) of m, among n in all, may be taken when kn/m are taken, and must be before (k + 1)n/m are: of
    those that may be, the one that must be first is taken (Steiner and Yeomans 1993).
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
    """Deal groups out, the largest first, each to the part that has least."""
    parts: list[list[Example]] = [[] for _ in range(min(n, len(groups)))]
    for group in sorted(groups, key=lambda group: (-len(group.examples), group.key)):
        min(parts, key=len).extend(group.examples)
    return parts


def _draw(candidates: Sequence[Group], share: float, seed: int, draws: int) -> frozenset[str] | None:
    """Return the ids of the best of several drawn tests, or ``None`` when no draw has an acceptable share."""
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
    """How many questions of each type a test should have."""
    return {stratum: share * count for stratum, count in Counter(map(_stratum, examples)).items()}


def _stratum(example: Example) -> str:
    """The type of a question, apart where it has no evidence, or no answer."""
    if example.evidence:
        return example.type
    return f"{example.type} without {'evidence' if example.answerable else 'answer'}"


def _distance(of: Mapping[str, int], aims: Mapping[str, float]) -> float:
    """Pearson's chi-square of the counts by question type and of their sum."""
    whole = sum(aims.values())
    apart = sum((of.get(type_, 0) - aim) ** 2 / aim for type_, aim in aims.items())
    return apart + (sum(of.values()) - whole) ** 2 / whole


def _fill(drawn: Iterable[Group], aims: Mapping[str, float]) -> tuple[frozenset[str], float]:
    """Take each group in turn if that brings the test nearer to its aims; return the ids and the distance left."""
    taken: list[str] = []
    counts: Counter[str] = Counter()
    left = _distance(counts, aims)
    for group in drawn:
        tried = counts + Counter(map(_stratum, group.examples))
        if (then := _distance(tried, aims)) < left:
            counts, left = tried, then
            taken.extend(example.id for example in group.examples)
    return frozenset(taken), left


class _Cut:
    """Tests of questions that hang together too much to be parted, and the fewest questions to leave out for them."""

    def __init__(self, dataset: Dataset, share: float, gap: int) -> None:
        self._examples = sorted(dataset.examples, key=lambda example: digest([example.question, example.answer]))
        self._near = neighbours(self._examples, gap)
        places = {example.id: i for i, example in enumerate(self._examples)}
        groups = sorted(by_section(dataset, dataset.examples), key=lambda group: group.key)
        self._units = [frozenset(places[example.id] for example in group.examples) for group in groups]
        self._around = [frozenset(chain(*(self._near[i] for i in unit))) - unit for unit in self._units]
        self._unit_of = {i: number for number, unit in enumerate(self._units) for i in unit}
        self._share = share
        self._aims = _aims(self._examples, share)

    def best(self, seed: int, draws: int) -> tuple[frozenset[str], frozenset[str]] | None:
        """Return the ids of a test and of the questions left out; ``None`` when every draw leaves out too many."""
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
        """Grow a test from the first unit drawn, always by the neighbour that leaves the fewest questions around it."""
        rank = {unit: place for place, unit in enumerate(drawn)}
        left, test, around = set(drawn), set[int](), set[int]()
        aim = self._share * len(self._examples)
        while left and len(test) < aim:
            beside = {self._unit_of[i] for i in around} & left or {min(left, key=rank.__getitem__)}
            more = {unit: len(self._around[unit] - test - around) - len(self._units[unit] & around) for unit in beside}
            taken = min(beside, key=lambda unit: (more[unit], rank[unit]))
            left.discard(taken)
            test |= self._units[taken]
            around = (around | self._around[taken]) - test
        return test

    def _between(self, test: set[int]) -> set[int]:
        """Leave out questions until no gold of the two sides is near, always the one with most across."""
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
