"""Relevance of chunks to questions, derived from gold spans of documents, for any chunking of the corpus.

A chunk is relevant if it covers at least half of a gold span, so that chunk sizes are comparable. For a span more than
twice as long as the chunks there is no such chunk: then every chunk with at least half of its length in the span is
relevant, else the chunk that covers most of the span, so that no question is dropped because of the chunking.
``Relevance.partial`` lists such spans.

These spans are coarse, like a span of a whole document with several chunks: they identify the document or section with
the answer, but not the passage. The number of their chunks must not affect the score of a ranking. So for questions
with coarse spans, units are ranked instead of chunks: all chunks of a coarse span count once, at the rank of the first,
and so do all other chunks of a document, or, if the coarse span is less than a document, of a section. This is document
retrieval scored by the best passage (MaxP; Dai and Callan 2019, arXiv 1905.09217). `Relevance.unit` returns the unit of
a chunk. Without coarse spans, a unit is a chunk.

Gold that stands in several places (`ragsmith.types.RepeatedSpan`) is found in any of them. For questions with such
gold, a unit is a gold span: all relevant chunks of all its places count once, at the rank of the first, with grade 1,
so that scores are the same whichever place is retrieved, and another copy gains nothing. A chunk with several gold
spans has as many units.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate

from ragsmith.types import Chunk, RepeatedSpan, Span, places_of


@dataclass(frozen=True)
class Relevance:
    """The relevant chunks of one question.

    ``grades`` maps chunks to the largest share of a gold span that they cover, in (0, 1]. ``partial`` are the gold
    spans of which no chunk covers half, ``missed`` those that no chunk overlaps. ``coarse`` maps chunks to the index of
    their coarse span, ``homes``, if there is one, all chunks of the corpus to their document or section. ``pieces``, if
    gold is repeated, maps the relevant chunks to the indices of all their gold spans.
    """

    grades: Mapping[str, float]
    partial: tuple[Span, ...] = ()
    missed: tuple[Span, ...] = ()
    coarse: Mapping[str, int] = field(default_factory=dict)
    homes: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    pieces: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @cached_property
    def relevant(self) -> frozenset[str]:
        """The identifiers of the relevant chunks."""
        return frozenset(self.grades)

    def unit(self, chunk: str) -> str:
        """Return the unit of a chunk in a ranking: the chunk itself, unless there are coarse spans."""
        if not self.coarse:
            return chunk
        if chunk in self.coarse:
            return f"gold {self.coarse[chunk]}"
        return chunk if chunk in self.grades else self.homes.get(chunk, chunk)

    def rank_units(self, ranking: Iterable[str]) -> tuple[str, ...]:
        """Return the distinct units of the chunks of a ``ranking``, best first."""
        if not self.coarse and not self.pieces:
            return tuple(dict.fromkeys(ranking))
        if not self.pieces:
            return tuple(dict.fromkeys(map(self.unit, ranking)))
        return tuple(dict.fromkeys(unit for chunk in ranking for unit in self._units_of(chunk)))

    def _units_of(self, chunk: str) -> tuple[str, ...]:
        """Return the units of a chunk if gold is repeated."""
        return tuple(f"gold {number}" for number in self.pieces.get(chunk, ())) or (self.unit(chunk),)

    @cached_property
    def units(self) -> Mapping[str, float]:
        """The relevant units and their grades; the grade of a coarse span, and of any if one is repeated, is 1."""
        if self.pieces:
            return dict.fromkeys(self.rank_units(self.grades), 1.0)
        if not self.coarse:
            return self.grades
        fine = {chunk: grade for chunk, grade in self.grades.items() if chunk not in self.coarse}
        return fine | {self.unit(chunk): 1.0 for chunk in self.coarse}


def count_overlap(a: Span, b: Span) -> int:
    """Return the number of characters in both spans."""
    return max(0, min(a.end, b.end) - max(a.start, b.start)) if a.doc == b.doc else 0


class ChunkMap:
    """An index of the chunks of a corpus by their offsets in documents."""

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
        # Chunks may overlap or nest, so their ends are not sorted; the running maximum of the ends is.
        self._reach = {
            doc: list(accumulate((end for _, end, _ in extents), max)) for doc, extents in self._extents.items()
        }

    def overlaps(self, span: Span) -> dict[str, int]:
        """Return the chunks that overlap ``span``, with the number of common characters."""
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
        """Return the relevant chunks of a question with this ``evidence``; equal spans count once."""
        golds = tuple(dict.fromkeys(evidence))
        if any(isinstance(gold, RepeatedSpan) for gold in golds):
            return self._relevance_of_repeated(golds)
        grades: dict[str, float] = {}
        partial, missed = [], []
        coarse: dict[str, int] = {}
        whole = False
        for number, gold in enumerate(golds):
            shared = self.overlaps(gold)
            if not shared:
                missed.append(gold)
                continue
            relevant = {key: n for key, n in shared.items() if 2 * n >= max(1, gold.end - gold.start)}
            if not relevant:
                partial.append(gold)
                most = max(shared.values())
                inside = {key: n for key, n in shared.items() if 2 * n >= self._lengths[key]}
                relevant = inside or {key: n for key, n in shared.items() if n == most}
            if partial[-1:] == [gold] or self._is_whole(gold, shared):
                relevant = {key: n for key, n in shared.items() if 2 * n >= self._lengths[key]} or relevant
                coarse = dict.fromkeys(relevant, number) | coarse
                whole = whole or self._exceeds_section(relevant)
            for key, n in relevant.items():
                grades[key] = max(grades.get(key, 0.0), n / (gold.end - gold.start))
        homes = (self._documents if whole else self._sections) if coarse else {}
        return Relevance(grades, tuple(partial), tuple(missed), coarse, homes)

    def _relevance_of_repeated(self, golds: Sequence[Span]) -> Relevance:
        """Return the relevance of ``golds`` of which some are repeated: that of all places, joined by gold span."""
        grades: dict[str, float] = {}
        pieces: defaultdict[str, list[int]] = defaultdict(list)
        coarse: dict[str, int] = {}
        homes: Mapping[str, str] = {}
        partial, missed = [], []
        for number, gold in enumerate(golds):
            found = [self.relevance([place]) for place in places_of(gold)]
            if all(one.missed for one in found):
                missed.append(gold)
            elif all(one.missed or one.partial for one in found):
                partial.append(gold)
            for one in found:
                coarse = dict.fromkeys(one.coarse, number) | coarse
                homes = one.homes if not homes or one.homes is self._documents else homes
                for chunk, grade in one.grades.items():
                    grades[chunk] = max(grade, grades.get(chunk, 0.0))
                    if number not in pieces[chunk]:
                        pieces[chunk].append(number)
        return Relevance(
            grades,
            tuple(partial),
            tuple(missed),
            coarse,
            homes,
            {chunk: tuple(numbers) for chunk, numbers in pieces.items()},
        )

    def _is_whole(self, gold: Span, shared: Mapping[str, int]) -> bool:
        """Whether ``gold`` has at least half of every chunk of a document with several chunks."""
        extents = self._extents[gold.doc]
        return len(extents) > 1 and all(2 * shared.get(key, 0) >= end - start for start, end, key in extents)

    def _exceeds_section(self, chunks: Iterable[str]) -> bool:
        """Whether ``chunks`` are in several sections, or are all chunks of a document."""
        listed = list(chunks)
        document = self._documents[listed[0]].removeprefix("document ")
        return len({self._sections[chunk] for chunk in listed}) > 1 or len(listed) == len(self._extents[document])
