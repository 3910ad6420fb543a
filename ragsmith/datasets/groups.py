"""Group questions by shared evidence, as questions of one group are not independent.

Groups are formed by gold document, by neighbouring evidence or by section, from coarse to fine. Questions with the same
wording are always in the same group.
"""

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ragsmith.caches import bounded_cache
from ragsmith.datasets.chunking.chunking import DEFAULT_SIZE, section_starts
from ragsmith.digest import digest
from ragsmith.types import Dataset, Document, Example, Span, places_of

MAX_GAP = DEFAULT_SIZE
"""Maximum distance of neighbouring evidence, in characters: the default chunk size."""

BLOCK_SIZE = 2_000
"""Size of a block, in characters; longer sections have several blocks."""


@dataclass(frozen=True, slots=True)
class Group:
    """Questions that belong to the same side of a split; ``key`` depends only on their texts."""

    key: str
    examples: tuple[Example, ...]


def iter_groupings(dataset: Dataset, examples: Sequence[Example]) -> Iterator[list[Group]]:
    """Yield the groups by document, by neighbourhood and by section."""
    yield group_by_document(examples)
    yield group_by_neighbourhood(dataset, examples)
    yield group_by_section(dataset, examples)


def gold_places(example: Example) -> tuple[Span, ...]:
    """Return all places of the evidence of a question: a document with one of them is not independent of it."""
    return tuple(place for span in example.evidence for place in places_of(span))


def group_by_document(examples: Sequence[Example]) -> list[Group]:
    """Group questions that share gold documents, directly or through other questions."""
    return group_by_links(examples, [[place.doc for place in gold_places(example)] for example in examples])


def group_by_neighbourhood(dataset: Dataset, examples: Sequence[Example], gap: int = MAX_GAP) -> list[Group]:
    """Group questions with gold in one section block or within ``gap`` characters, directly or through others."""
    pairs = [[(min(i, j), max(i, j)) for j in near] for i, near in enumerate(find_neighbours(examples, gap))]
    return group_by_links(
        examples, [[*blocks, *near] for blocks, near in zip(_section_blocks(dataset, examples), pairs, strict=True)]
    )


def group_by_section(dataset: Dataset, examples: Sequence[Example]) -> list[Group]:
    """Group questions with gold in one section block, directly or through other questions."""
    return group_by_links(examples, _section_blocks(dataset, examples))


def find_neighbours(examples: Sequence[Example], gap: int = MAX_GAP) -> list[set[int]]:
    """Return for each question the indices of others with evidence within ``gap`` characters in the same document."""
    by_doc: defaultdict[str, list[tuple[int, int, int]]] = defaultdict(list)
    for i, example in enumerate(examples):
        for span in gold_places(example):
            by_doc[span.doc].append((span.start, span.end, i))
    near: list[set[int]] = [set() for _ in examples]
    for spans in by_doc.values():
        active: list[tuple[int, int]] = []
        for start, end, i in sorted(spans):
            active = [(last, j) for last, j in active if last + gap >= start]
            for _, j in active:
                if i != j:
                    near[i].add(j)
                    near[j].add(i)
            active.append((end, i))
    return near


def normalize_wording(example: Example) -> str:
    """Return the case-folded words of a question."""
    return " ".join(example.question.casefold().split())


def group_by_links(examples: Sequence[Example], links: Sequence[Iterable[Hashable]]) -> list[Group]:
    """Group questions with common ``links`` or wording, directly or through other questions; links are by question."""
    parent = list(range(len(examples)))

    def root(i: int) -> int:
        while parent[i] != i:
            parent[i] = parent[parent[i]]
            i = parent[i]
        return i

    first: dict[Hashable, int] = {}
    for i, (example, linked) in enumerate(zip(examples, links, strict=True)):
        for link in (("question", normalize_wording(example)), *linked):
            parent[root(i)] = root(first.setdefault(link, i))
    members: dict[int, list[Example]] = {}
    for i, example in enumerate(examples):
        members.setdefault(root(i), []).append(example)
    return [Group(digest(sorted((e.question, e.answer) for e in group)), tuple(group)) for group in members.values()]


def _section_blocks(dataset: Dataset, examples: Sequence[Example]) -> list[list[Hashable]]:
    """Return the blocks of sections that the evidence of each question overlaps."""
    documents = {place.doc for example in examples for place in gold_places(example)}
    starts = {document.id: _section_starts(document) for document in dataset.documents if document.id in documents}
    return [
        [block for place in gold_places(example) for block in _overlapped_blocks(place, starts[place.doc])]
        for example in examples
    ]


@bounded_cache(1024, key="a document")
def _section_starts(document: Document) -> Sequence[int]:
    """Return the offsets of sections; cached, because questions are grouped several times and chunking is slow."""
    return tuple(section_starts(document))


def _overlapped_blocks(span: Span, starts: Sequence[int]) -> Iterator[Hashable]:
    """Yield every block that a span overlaps; overlapping spans always share one."""
    at = span.start
    while at < span.end:
        number = bisect_right(starts, at)
        begin = starts[number - 1] if number else 0
        block = (at - begin) // BLOCK_SIZE
        yield span.doc, begin, block
        next_start = starts[number] if number < len(starts) else span.end
        at = min(next_start, begin + (block + 1) * BLOCK_SIZE)
