"""Relevant segment extraction: text segments with many hits close together (dsRAG, 2024)."""

import math
from collections import defaultdict
from dataclasses import dataclass

from ragsmith.index.index import Corpus
from ragsmith.plugins import Amount, Count
from ragsmith.techniques.families import passage_augment
from ragsmith.techniques.fusion import normalize
from ragsmith.types import Hit, Hits, Passage, Passages, Question

DECAY_RANKS = 30.0
"""Number of ranks over which the value of a hit decays to 1/e (the constant of dsRAG)."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The chunks ``first`` to ``last`` (inclusive) of a document, and their total ``value``.

    A summary is a separate segment with the summary as ``hit`` and its identifier as ``doc``.
    """

    value: float
    doc: str
    first: int
    last: int
    hit: Hit | None = None

    @property
    def length(self) -> int:
        """The number of chunks."""
        return self.last - self.first + 1

    def overlaps(self, other: "Segment") -> bool:
        """Whether the segments have a chunk in common."""
        return self.doc == other.doc and self.first <= other.last and other.first <= self.last


def compute_hit_values(hits: Hits) -> list[float]:
    """Return the value of each hit before the penalty: exp(-rank / 30) times its relevance, rank from 0.

    Relevance is (1 + min-max score) / 2, as all hits after the filter are relevant to some degree, and the min-max
    score of the last one is always 0.
    """
    scores = normalize(hits, "minmax")
    return [math.exp(-rank / DECAY_RANKS) * (1 + score) / 2 for rank, score in enumerate(scores)]


def find_segments(hits: Hits, penalty: float, max_length: int) -> list[Segment]:
    """Return all segments of at most ``max_length`` chunks that begin and end with a hit, best first.

    The value of a chunk is exp(-rank / 30) * relevance - penalty, or -penalty if it is not a hit; that of a segment is
    the sum. Segments that begin or end with a chunk that is not a hit are never optimal, as their value is higher
    without that chunk.
    """
    values_by_document: defaultdict[str, dict[int, float]] = defaultdict(dict)
    segments = []
    for hit, value in zip(hits, compute_hit_values(hits), strict=True):
        if hit.chunk.level:
            segments.append(Segment(value - penalty, hit.chunk.id, 0, 0, hit))
        else:
            values_by_document[hit.chunk.doc][hit.chunk.index] = value
    for doc, value_at in values_by_document.items():
        positions = sorted(value_at)
        for i, first in enumerate(positions):
            value = 0.0
            for last in positions[i:]:
                if last - first >= max_length:
                    break
                value += value_at[last]
                segments.append(Segment(value - penalty * (last - first + 1), doc, first, last))
    return sorted(segments, key=lambda s: (-s.value, s.doc, s.first, s.last))


@passage_augment(
    paper="https://github.com/D-Star-AI/dsRAG",
    choices={"max_length": (3, 5), "minimum_value": (0.0, 0.2, 0.4)},
)
def relevant_segments(
    corpus: Corpus,
    question: Question,
    hits: Hits,
    *,
    penalty: Amount = 0.18,
    minimum_value: Amount = 0.2,
    max_length: Count = 5,
    max_total: Count = 15,
) -> Passages:
    """Return the segments of consecutive chunks with the highest values, of at most ``max_length`` chunks each.

    Helps when an answer is spread over a section of which only parts were retrieved: a gap between two hits is included
    if the value of the second hit exceeds the cost of the gap (``penalty`` per chunk). Isolated hits at low ranks are
    below ``minimum_value`` and omitted. Costs no calls. Segments are selected greedily, best first, without overlap, up
    to ``max_total`` chunks. Unlike in the original system, segments below the minimum are rejected, and the last chunk
    of a document can be included.
    """
    selected: list[Segment] = []
    remaining = max_total
    for segment in find_segments(hits, penalty, max_length):
        if segment.value < minimum_value:
            break
        if segment.length <= remaining and not any(segment.overlaps(other) for other in selected):
            selected.append(segment)
            remaining -= segment.length
    return tuple(_make_passage(corpus, segment) for segment in selected)


def _make_passage(corpus: Corpus, segment: Segment) -> Passage:
    if segment.hit:
        return Passage(segment.hit.chunk.text, segment.hit.chunk.spans, segment.value)
    span = corpus.get_span(segment.doc, segment.first, segment.last)
    return Passage(corpus.text(span), (span,), segment.value)
