"""Places of evidence in documents with how they were found, and the reasons why a text has none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ragsmith.datasets.evidence import evidence_record
from ragsmith.types import Document, Span


class MatchType(StrEnum):
    """How a place was found, from the most to the least certain."""

    GIVEN = "given"
    EXACT = "exact"
    NORMALISED = "normalised"
    FUZZY = "fuzzy"
    PARTS = "by sentences"
    ROW = "row"
    SENTENCE = "sentence"
    WORDS = "words"


class NoMatchReason(StrEnum):
    """Why a text or a question has no place."""

    AMBIGUOUS = "ambiguous"
    NOT_FOUND = "not found"
    REPEATED = "repeated"
    THERE = "there already"


@dataclass(frozen=True, slots=True)
class EvidenceMatch:
    """A span of a document and how it was found; ``score`` is 1 for an exact match.

    For `MatchType.FUZZY` it is the share of the quotation's words that need no edit, and for a match by answer the
    estimated probability that the span is right.
    """

    span: Span
    how: MatchType
    score: float = 1.0

    def to_dict(self, documents: Mapping[str, Document]) -> dict[str, object]:
        """Return the match as evidence, with how it was found and its score."""
        return {**evidence_record(self.span, documents[self.span.doc].text), "how": str(self.how), "score": self.score}


@dataclass(frozen=True, slots=True)
class NoMatch:
    """A text without a place: the reason, and candidate places, the most likely first."""

    status: NoMatchReason
    reason: str
    candidates: tuple[EvidenceMatch, ...] = ()


def least_certain(matches: Sequence[EvidenceMatch]) -> MatchType:
    """Return the least certain match type of ``matches``, of which there is one at least."""
    return max((match.how for match in matches), key=list(MatchType).index)


def without_overlaps(matches: Sequence[EvidenceMatch]) -> tuple[EvidenceMatch, ...]:
    """Return ``matches`` in order, without those that overlap an earlier one."""
    kept: list[EvidenceMatch] = []
    for match in matches:
        span = match.span
        if all(span.doc != o.span.doc or span.end <= o.span.start or o.span.end <= span.start for o in kept):
            kept.append(match)
    return tuple(kept)
