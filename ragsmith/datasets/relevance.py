"""Which chunks answer a question: gold spans of documents, carried over to whatever chunks a corpus was cut into.

A chunk is relevant when it covers at least half of a gold span, so that chunk sizes can be compared. A span more than
twice as long as the chunks has no such chunk. It is judged from the other side: every chunk that lies in it by half of
its own length or more is relevant, as any of them is a piece of the gold; if there is none, what covers most of it. A
question must not drop out of an average because of how the corpus was cut. ``Relevance.partial`` names the spans
judged that way.

Such gold is coarse, and so is all of a document that was cut into several chunks: it says which document or section
answers, not where. How many chunks it was cut into must not decide what a ranking is worth. So where a question has
coarse gold, units are ranked instead of chunks: all chunks of one coarse span count once, at the place of the first,
and so do all others of one document; or, where coarse gold is less than a document, of one section. That is document
retrieval scored by the best passage (MaxP; Dai and Callan 2019, arXiv 1905.09217). `Relevance.unit` says to what a
chunk belongs. Where all gold is fine, a unit is a chunk.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from ragsmith.types import Chunk, Span


@dataclass(frozen=True)
class Relevance:
    """The chunks that are relevant to one question.

    ``grades`` gives for each its largest covered share of a gold span, in (0, 1]. ``partial`` holds the gold spans that
    no chunk covers by half, whose chunks have smaller grades, ``missed`` those that no chunk touches at all. ``coarse``
    says to which coarse span, by its number among the gold, a chunk belongs; ``homes``, where there is any, to which
    document or section each chunk of the corpus does.
    """

    grades: Mapping[str, float]
    partial: tuple[Span, ...] = ()
    missed: tuple[Span, ...] = ()
    coarse: Mapping[str, int] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @cached_property
    def relevant(self) -> frozenset[str]:
        """The identifiers of the relevant chunks."""
        return frozenset(self.grades)

    def unit(self, chunk: str) -> str:
        """What a chunk counts as in a ranking: itself, unless there is coarse gold."""
        if not self.coarse:
            return chunk
        if chunk in self.coarse:
            return f"gold {self.coarse[chunk]}"
        return chunk if chunk in self.grades else self.homes.get(chunk, chunk)

    @cached_property
    def units(self) -> Mapping[str, float]:
        """The relevant units and their grades; that of a coarse span is 1."""
        if not self.coarse:
            return self.grades
        fine = {chunk: grade for chunk, grade in self.grades.items() if chunk not in self.coarse}
        return fine | {self.unit(chunk): 1.0 for chunk in self.coarse}


def overlap(a: Span, b: Span) -> int:
    """Return how many characters two spans share."""
    return max(0, min(a.end, b.end) - max(a.start, b.start)) if a.doc == b.doc else 0


class ChunkMap:
    """Where the chunks of a corpus lie; built once, then asked about every question."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        by_doc: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
        self._documents: dict[str, str] = {}
        self._sections: dict[str, str] = {}
        for chunk in chunks:
            by_doc[chunk.doc].append((chunk.start, chunk.end, chunk.id))
            self._documents[chunk.id] = f"document {chunk.doc}"
            self._sections[chunk.id] = f"section {chunk.section} of {chunk.doc}"
        self._extents = {doc: sorted(extents) for doc, extents in by_doc.items()}
        self._lengths = {key: end - start for extents in by_doc.values() for start, end, key in extents}
        self._starts = {doc: [start for start, _, _ in extents] for doc, extents in self._extents.items()}
        # Chunks may overlap or nest, so their ends are not sorted; the furthest end so far is.
        self._reach = {
            doc: list(accumulate((end for _, end, _ in extents), max)) for doc, extents in self._extents.items()
        }

    def overlaps(self, span: Span) -> dict[str, int]:
        """Return the chunks that share characters with ``span``, and how many."""
        if span.doc not in self._extents:
            return {}
        first = bisect_right(self._reach[span.doc], span.start)
        last = bisect_left(self._starts[span.doc], span.end)
        shared = (
            (key, min(end, span.end) - max(start, span.start))
            for start, end, key in self._extents[span.doc][first:last]
        )
        return {key: n for key, n in shared if n > 0}

    def relevance(self, evidence: Iterable[Span]) -> Relevance:
        """Return the chunks relevant to a question with this gold ``evidence``; repeated spans count once."""
        grades: dict[str, float] = {}
        partial, missed = [], []
        coarse: dict[str, int] = {}
        whole = False
        for number, gold in enumerate(dict.fromkeys(evidence)):
            shared = self.overlaps(gold)
            if not shared:
                missed.append(gold)
                continue
            kept = {key: n for key, n in shared.items() if 2 * n >= max(1, gold.end - gold.start)}
            if not kept:
                partial.append(gold)
                most = max(shared.values())
                inside = {key: n for key, n in shared.items() if 2 * n >= self._lengths[key]}
                kept = inside or {key: n for key, n in shared.items() if n == most}
            if partial[-1:] == [gold] or self._is_whole(gold, shared):
                kept = {key: n for key, n in shared.items() if 2 * n >= self._lengths[key]} or kept
                coarse = dict.fromkeys(kept, number) | coarse
                whole = whole or self._passes_sections(kept)
            for key, n in kept.items():
                grades[key] = max(grades.get(key, 0.0), n / (gold.end - gold.start))
        homes = (self._documents if whole else self._sections) if coarse else {}
        return Relevance(grades, tuple(partial), tuple(missed), coarse, homes)

    def _is_whole(self, gold: Span, shared: Mapping[str, int]) -> bool:
        """Whether ``gold`` is all of a document that was cut into several chunks, each of which lies in it by half."""
        extents = self._extents[gold.doc]
        return len(extents) > 1 and all(2 * shared.get(key, 0) >= end - start for start, end, key in extents)

    def _passes_sections(self, chunks: Iterable[str]) -> bool:
        """Whether ``chunks`` lie in several sections, or are all of a document."""
        held = list(chunks)
        document = self._documents[held[0]].removeprefix("document ")
        return len({self._sections[chunk] for chunk in held}) > 1 or len(held) == len(self._extents[document])
