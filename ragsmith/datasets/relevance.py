"""Which chunks answer a question: gold spans of documents, carried over to whatever chunks a corpus was cut into.

A chunk is relevant when it covers at least half of a gold span, so that chunk sizes can be compared. A span more than
twice as long as the chunks has no such chunk. It is judged from the other side: every chunk that lies in it by half of
its own length or more is relevant, as any of them is a piece of the gold; if there is none, what covers most of it. A
question must not drop out of an average because of how the corpus was cut. ``Relevance.partial`` names the spans
judged that way; with more than k such chunks, recall at k cannot reach 1, as with any gold of more than k chunks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ragsmith.types import Chunk, Span


@dataclass(frozen=True)
class Relevance:
    """The chunks that are relevant to one question.

    ``grades`` gives for each its largest covered share of a gold span, in (0, 1]. ``partial`` holds the gold spans that
    no chunk covers by half, whose chunks have smaller grades, ``missed`` those that no chunk touches at all.
    """

    grades: Mapping[str, float]
    partial: tuple[Span, ...] = ()
    missed: tuple[Span, ...] = ()

    @cached_property
    def relevant(self) -> frozenset[str]:
        """The identifiers of the relevant chunks."""
        return frozenset(self.grades)


def overlap(a: Span, b: Span) -> int:
    """Return how many characters two spans share."""
    return max(0, min(a.end, b.end) - max(a.start, b.start)) if a.doc == b.doc else 0


class ChunkMap:
    """Where the chunks of a corpus lie; built once, then asked about every question."""

    def __init__(self, chunks: Iterable[Chunk]) -> None:
        by_doc: defaultdict[str, list[tuple[int, int, str]]] = defaultdict(list)
        for chunk in chunks:
            by_doc[chunk.doc].append((chunk.start, chunk.end, chunk.id))
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
        for gold in dict.fromkeys(evidence):
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
            for key, n in kept.items():
                grades[key] = max(grades.get(key, 0.0), n / (gold.end - gold.start))
        return Relevance(grades, tuple(partial), tuple(missed))
