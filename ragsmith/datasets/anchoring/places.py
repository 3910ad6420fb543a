"""The values of anchoring: a place in a document with how it was found, and what is said of a text that has none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from ragsmith.types import Span


class MatchType(StrEnum):
    """How a place was found, from the surest to the least sure."""

    GIVEN = "given"
    EXACT = "exact"
    NORMALISED = "normalised"
    FUZZY = "fuzzy"
    PARTS = "by sentences"
    ROW = "row"
    SENTENCE = "sentence"
    WORDS = "words"


class NoMatchReason(StrEnum):
    """Why something has no place."""

    AMBIGUOUS = "ambiguous"
    NOT_FOUND = "not found"
    REPEATED = "repeated"
    THERE = "there already"


@dataclass(frozen=True, slots=True)
class EvidenceMatch:
    """Where something stands; ``score`` is 1 for what stands there to the letter.

    For `MatchType.FUZZY` it is the share of the quotation's words that need no edit, and for what was found by an
    answer the estimated probability that the place is right.
    """

    span: Span
    how: MatchType
    score: float = 1.0


@dataclass(frozen=True, slots=True)
class NoMatch:
    """Something that has no place, why, and the places that come into question, the likeliest first."""

    status: NoMatchReason
    reason: str
    candidates: tuple[EvidenceMatch, ...] = ()


def without_overlaps(places: Sequence[EvidenceMatch]) -> tuple[EvidenceMatch, ...]:
    """Return ``places`` in order, without those that overlap an earlier one."""
    kept: list[EvidenceMatch] = []
    for place in places:
        span = place.span
        if all(span.doc != o.span.doc or span.end <= o.span.start or o.span.end <= span.start for o in kept):
            kept.append(place)
    return tuple(kept)
