"""Matches of quotations and answers in documents, and the reasons for missing matches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ragsmith.datasets.evidence import gold_record
from ragsmith.datasets.relevance import count_overlap
from ragsmith.types import Document, Span, places_of


class MatchType(StrEnum):
    """Types of matches, from the most to the least certain."""

    GIVEN = "given"
    EXACT = "exact"
    NORMALISED = "normalised"
    FUZZY = "fuzzy"
    BY_SENTENCES = "by sentences"
    ROW = "row"
    SENTENCE = "sentence"
    WORDS = "words"


class NoMatchReason(StrEnum):
    """Reasons for a missing match."""

    AMBIGUOUS = "ambiguous"
    NOT_FOUND = "not found"
    REPEATED = "repeated"
    ALREADY_PRESENT = "there already"
    OTHER_ANSWER = "there already, with another answer"


@dataclass(frozen=True, slots=True)
class EvidenceMatch:
    """A span of a document, its match type and its score.

    The score of an exact match is 1, of a fuzzy match the share of unedited words of the quotation, and of a match by
    answer the estimated probability that the span is correct.
    """

    span: Span
    match_type: MatchType
    score: float = 1.0

    def to_dict(self, documents: Mapping[str, Document]) -> dict[str, object]:
        """Return the match as an evidence record, with its type and its score."""
        return {
            **gold_record(self.span, {place.doc: documents[place.doc].text for place in places_of(self.span)}),
            "how": str(self.match_type),
            "score": self.score,
        }


@dataclass(frozen=True, slots=True)
class NoMatch:
    """A missing match: the reason as a code and as a message, and candidates, the most likely first."""

    status: NoMatchReason
    reason: str
    candidates: tuple[EvidenceMatch, ...] = ()


def find_least_certain(matches: Sequence[EvidenceMatch]) -> MatchType:
    """Return the least certain match type of ``matches``, which must not be empty."""
    return max((match.match_type for match in matches), key=list(MatchType).index)


def drop_overlaps(matches: Sequence[EvidenceMatch]) -> tuple[EvidenceMatch, ...]:
    """Return ``matches`` in order, without those that overlap an earlier one."""
    distinct: list[EvidenceMatch] = []
    for match in matches:
        if not any(count_overlap(match.span, earlier.span) for earlier in distinct):
            distinct.append(match)
    return tuple(distinct)
