"""Relevant segment extraction: read the stretches of text where hits stand close together (dsRAG, 2024)."""

import math
from collections import defaultdict
from dataclasses import dataclass

from ragsmith.index.index import Corpus
from ragsmith.plugins import Amount, Count
from ragsmith.techniques.families import passage_augment
from ragsmith.techniques.fusion import normalize
from ragsmith.types import Hit, Hits, Passage, Passages, Question

DECAY = 30.0
"""Ranks over which a hit loses all but 1/e of its worth (dsRAG's constant)."""


@dataclass(frozen=True, slots=True)
class Segment:
    """The chunks ``first`` to ``last`` (both included) of a document, and what reading them is worth.

    A summary stands alone: it is ``hit``, and ``doc`` is its own identifier.
    """

    value: float
    doc: str
    first: int
    last: int
    hit: Hit | None = None

    @property
    def length(self) -> int:
        """In chunks."""
        return self.last - self.first + 1

    def overlaps(self, other: "Segment") -> bool:
        """Whether the two share a chunk."""
        return self.doc == other.doc and self.first <= other.last and other.first <= self.last


def worths(hits: Hits) -> list[float]:
    """Return the value of each hit before the penalty: exp(-rank / 30) times its relevance, rank from 0.

    Relevance is (1 + min-max score) / 2. Whatever passed the filter is relevant to some degree; a bare min-max would
    declare the last of them worthless however good it is.
    """
    scores = normalize(hits, "minmax")
    return [math.exp(-rank / DECAY) * (1 + score) / 2 for rank, score in enumerate(scores)]


def segments(hits: Hits, penalty: float, max_length: int) -> list[Segment]:
    """Return every stretch of at most ``max_length`` chunks that begins and ends with a hit, best first.

    A chunk is worth v = exp(-rank / 30) * relevance - penalty, and -penalty when it is no hit; a segment is worth the
    sum. Stretches that begin or end with a chunk that is no hit need no look: without it they are worth more.
    """
    of_document: defaultdict[str, dict[int, float]] = defaultdict(dict)
    found = []
    for hit, worth in zip(hits, worths(hits), strict=True):
        if hit.chunk.level:
            found.append(Segment(worth - penalty, hit.chunk.id, 0, 0, hit))
        else:
            of_document[hit.chunk.doc][hit.chunk.index] = worth
    for doc, worth_at in of_document.items():
        positions = sorted(worth_at)
        for i, first in enumerate(positions):
            worth = 0.0
            for last in positions[i:]:
                if last - first >= max_length:
                    break
                worth += worth_at[last]
                found.append(Segment(worth - penalty * (last - first + 1), doc, first, last))
    return sorted(found, key=lambda s: (-s.value, s.doc, s.first, s.last))


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
    """Read the segments of neighbouring chunks that are worth most, at most ``max_length`` chunks each.

    Helps when an answer is spread over a section of which only parts were found: a gap between two hits is read when
    the hit behind it is worth more than the gap costs (``penalty`` a chunk). Hits that stand alone far down the ranking
    fall below ``minimum_value`` and are not read. Costs no calls. Segments are taken greedily, best first, without
    overlap, up to ``max_total`` chunks in all. Against the original system: worthless segments are rejected, and a
    document's last chunk can be read.
    """
    taken: list[Segment] = []
    left = max_total
    for segment in segments(hits, penalty, max_length):
        if segment.value < minimum_value:
            break
        if segment.length <= left and not any(segment.overlaps(other) for other in taken):
            taken.append(segment)
            left -= segment.length
    return tuple(_passage(corpus, segment) for segment in taken)


def _passage(corpus: Corpus, segment: Segment) -> Passage:
    if segment.hit:
        return Passage(segment.hit.chunk.text, segment.hit.chunk.spans, segment.value)
    span = corpus.stretch(segment.doc, segment.first, segment.last)
    return Passage(corpus.text(span), (span,), segment.value)
