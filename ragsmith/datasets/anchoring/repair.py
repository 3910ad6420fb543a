"""Locate evidence again after its documents were edited; what is not certainly the same text is left and listed.

The former documents are not known, only the text of each piece of evidence. A text of `MIN_WORDS` words or more that
occurs once in its document is the same text. A shorter or repeated one must have moved as far as the evidence before or
after it, which shows by how much the surrounding text was shifted. Where that evidence was rewritten while a piece was
left, the shifts must be passed in when the piece is looked for again, as nothing in the document shows them any more.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragsmith.datasets.anchoring.folded import fold
from ragsmith.datasets.anchoring.places import EvidenceMatch, MatchType, NoMatch, NoMatchReason, without_overlaps
from ragsmith.datasets.anchoring.quotations import (
    MAX_LISTED_MATCHES,
    MIN_FUZZY_SCORE,
    MIN_SCORE_MARGIN,
    FoldedDocument,
    QuotationFinder,
    with_punctuation,
)
from ragsmith.datasets.evidence import occurrences
from ragsmith.text.words import sentences
from ragsmith.types import Document, Span

MIN_WORDS = 5
"""Words of a text that is not taken for another in its document; a number counts as two."""
MIN_WORDS_ELSEWHERE = 8
"""Words of a text that is not taken for another in another document."""
MIN_WORDS_FAR = 10
"""Words of a text that is taken, with some of them changed, where the evidence around it did not move to."""
MIN_FUZZY_SCORE_FAR = 0.8
"""The least share of its words that need no edit then."""
MAX_LOST_SHARE = 0.5
"""The share of a text's words that may be gone where its sentences are found one by one."""
MAX_GAP_CHARACTERS = 300
"""Characters between sentences of one span, such as a sentence that was inserted."""


FAR = 1 << 60

Shifts = Sequence[tuple[int, int]]
"""Where pieces of evidence stood in a document, in order, and by how much they moved."""

Around = frozenset[int]
"""By how much the text around a piece of evidence moved; more than one where it moved apart, none where none tells."""

SENTENCE_ENDS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")
"""What sentences end with."""


@dataclass(frozen=True, slots=True)
class OldEvidence:
    """A piece of evidence as it was written: a span, and the text that stood there."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class RepairedEvidence:
    """What became of a piece of evidence: the places of its text, several where the text was torn apart."""

    stood: OldEvidence
    places: tuple[EvidenceMatch, ...]

    @property
    def how(self) -> MatchType:
        """How the least sure of its places was found."""
        return max((place.how for place in self.places), key=list(MatchType).index)

    @property
    def unchanged(self) -> bool:
        """Whether it stands where it stood."""
        return len(self.places) == 1 and self.places[0].how is MatchType.GIVEN


class EvidenceRepair:
    """Finds pieces of evidence in ``documents`` as they are now."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._quotations = QuotationFinder(documents)

    @cached_property
    def _pages(self) -> Mapping[str, FoldedDocument]:
        return self._quotations.pages

    def repair(
        self, evidence: Iterable[OldEvidence], moved: Mapping[OldEvidence, Collection[int]] | None = None
    ) -> dict[OldEvidence, RepairedEvidence | NoMatch]:
        """Find each piece of ``evidence``, or say why it is not found.

        ``moved`` has, for pieces that were left before, by how much the text around them had moved by then.
        """
        around = self.around(evidence, moved or {})
        return {piece: self._find(piece, around[piece]) for piece in around}

    def around(
        self, pieces: Iterable[OldEvidence], moved: Mapping[OldEvidence, Collection[int]]
    ) -> dict[OldEvidence, Around]:
        """By how much the text around each piece moved since the piece was written, as far as can be told."""
        pieces = list(dict.fromkeys(pieces))
        shifts = self._shifts(piece for piece in pieces if piece not in moved)
        return {piece: _total_shifts(piece, shifts.get(piece.span.doc, []), moved.get(piece)) for piece in pieces}

    def _shifts(self, pieces: Iterable[OldEvidence]) -> dict[str, Shifts]:
        """By document, where pieces that are sure to be the same stood, and by how much they moved, in order."""
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for piece in pieces:
            page = self._pages.get(piece.span.doc)
            starts = occurrences(piece.text, page.document.text) if page else ()
            if len(starts) == 1 and _weighted_length(piece.text) >= MIN_WORDS:
                found[piece.span.doc].append((piece.span.start, starts[0] - piece.span.start))
        return {doc: sorted(shifts) for doc, shifts in found.items()}

    def _find(self, piece: OldEvidence, around: Around) -> RepairedEvidence | NoMatch:
        page = self._pages.get(piece.span.doc)
        if page is not None:
            if page.document.text[piece.span.start : piece.span.end] == piece.text and _agrees(around):
                return RepairedEvidence(piece, (EvidenceMatch(piece.span, MatchType.GIVEN),))
            if found := self._moved(piece, page, around):
                return found
        edited = self._edited(piece, page, around) if page is not None else ()
        elsewhere = self._elsewhere(piece) if _weighted_length(piece.text) >= MIN_WORDS_ELSEWHERE else ()
        doc = piece.span.doc
        if elsewhere and not edited and page is not None:
            edited = self._resembling(piece, page)  # which of the two is meant a person has to say
        if edited and elsewhere:
            reason = f"the text is gone from {doc!r}, which has one like it, and stands elsewhere"
        elif len(elsewhere) > 1:
            reason = f"the text is gone from {doc!r} and stands in {len(elsewhere)} places elsewhere"
        elif edited or elsewhere:
            return RepairedEvidence(piece, edited or elsewhere)
        else:
            return NoMatch(NoMatchReason.NOT_FOUND, "the text stands nowhere, nor anything like it")
        return NoMatch(NoMatchReason.AMBIGUOUS, reason, (*edited, *elsewhere)[:MAX_LISTED_MATCHES])

    def _moved(self, piece: OldEvidence, page: FoldedDocument, around: Around) -> RepairedEvidence | NoMatch | None:
        """Where all of a text stands in its document."""
        for how, found in self._here(piece.text, page):
            places = without_overlaps([EvidenceMatch(place, how) for place in found])
            if len(places) == 1 and _weighted_length(piece.text) >= MIN_WORDS:
                return RepairedEvidence(piece, (_extend_match(places[0], piece.text, page),))
            along = [place for place in places if place.span.start - piece.span.start in around]
            if len(along) == 1:
                return RepairedEvidence(piece, (_extend_match(along[0], piece.text, page),))
            if places:
                said = f"stands in {len(places)} places" if len(places) > 1 else "is too short to be sure of"
                return NoMatch(NoMatchReason.AMBIGUOUS, f"the text {said}", places[:MAX_LISTED_MATCHES])
        return None

    def _here(self, text: str, page: FoldedDocument) -> Iterable[tuple[MatchType, list[Span]]]:
        """Where a text stands in a page, to the letter, else without regard to typography."""
        id_ = page.document.id
        yield MatchType.EXACT, [Span(id_, at, at + len(text)) for at in occurrences(text, page.document.text)]
        wanted = fold(text).text
        found = [with_punctuation(Span(id_, *place), text, page) for place in page.folded.find(wanted)]
        yield MatchType.NORMALISED, found

    def _elsewhere(self, piece: OldEvidence) -> tuple[EvidenceMatch, ...]:
        found = [
            EvidenceMatch(span, how)
            for id_, page in self._pages.items()
            if id_ != piece.span.doc
            for how, spans in self._here(piece.text, page)
            for span in spans
        ]
        return without_overlaps(found)

    def _edited(self, piece: OldEvidence, page: FoldedDocument, around: Around) -> tuple[EvidenceMatch, ...]:
        """The places of a text some words of which were changed: as a whole, else sentence by sentence."""
        whole = self._alike(piece, page, around)
        if whole is not None:
            return (whole,)
        start, text = piece.span.start, piece.text
        parts = [OldEvidence(Span(piece.span.doc, start + a, start + b), text[a:b]) for a, b in sentences(text)]
        found = [self._part(part, page, around) for part in parts] if len(parts) > 1 else []
        kept = sum(_count_words(part.text) for part, span in zip(parts, found, strict=False) if span)
        if not kept or kept < (1 - MAX_LOST_SHARE) * _count_words(text):
            return ()
        score = round(kept / _count_words(text), 4)
        return tuple(
            EvidenceMatch(span, MatchType.PARTS, score) for span in _merge_close_spans([span for span in found if span])
        )

    def _part(self, part: OldEvidence, page: FoldedDocument, around: Around) -> Span | None:
        """The one place of a sentence in a page."""
        if _count_words(part.text) < MIN_WORDS:
            return None
        for _, spans in self._here(part.text, page):
            if spans:
                return spans[0] if len(spans) == 1 else None
        alike = self._alike(part, page, around)
        return alike.span if alike else None

    def _alike(self, piece: OldEvidence, page: FoldedDocument, around: Around) -> EvidenceMatch | None:
        """The one place of a text that is like it.

        What has the form of a text is not the text. One number may be changed, or a third of them; where the text is
        not seen to have moved along with what is around it, it has to be long and more alike, and one number is all.
        """
        wanted = [word for word, _, _ in fold(piece.text).words()]
        places = self._quotations.aligned(wanted, page) if len(wanted) >= MIN_WORDS else []
        if not places or places[0].score < MIN_FUZZY_SCORE:
            return None
        if len(places) > 1 and places[1].score > places[0].score - MIN_SCORE_MARGIN:
            return None
        best = places[0]
        now = page.document.text[best.span.start : best.span.end]
        before = count_numbers(piece.text)
        changed = (before - count_numbers(now)).total()
        if 3 * changed > max(3, before.total()):
            return None
        away = min((abs(best.span.start - piece.span.start - shift) for shift in around), default=None)
        along = away is not None and 2 * away <= len(piece.text)
        if not along and (len(wanted) < MIN_WORDS_FAR or best.score < MIN_FUZZY_SCORE_FAR or changed > 1):
            return None
        return EvidenceMatch(
            _extend_to_sentence_end(with_punctuation(best.span, piece.text, page), piece.text, page),
            MatchType.FUZZY,
            best.score,
        )

    def _resembling(self, piece: OldEvidence, page: FoldedDocument) -> tuple[EvidenceMatch, ...]:
        """The best place of a text in a page that is like it, whether or not it may be the same."""
        places = self._quotations.aligned([word for word, _, _ in fold(piece.text).words()], page)
        return tuple(place for place in places[:1] if place.score >= MIN_FUZZY_SCORE)


def _count_words(text: str) -> int:
    return len(fold(text).words())


def count_numbers(text: str) -> Counter[str]:
    """Return the numbers in a text, as often as they are there."""
    return Counter(word for word, _, _ in fold(text).words() if any(map(str.isdecimal, word)))


def _weighted_length(text: str) -> int:
    """How much a text says, in words: a number counts as two."""
    return _count_words(text) + count_numbers(text).total()


def _agrees(around: Around) -> bool:
    """Whether the text around a piece may be where it was: of the evidence next to it, some has not moved."""
    return not around or 0 in around


def _total_shifts(piece: OldEvidence, shifts: Shifts, moved: Collection[int] | None) -> Around:
    """By how much the text around a piece has moved in all: as it had ``moved`` before, and since then."""
    if moved is None:
        return _neighbour_shifts(piece.span.start, shifts)
    if not moved:
        return _neighbour_shifts(piece.span.start, shifts) - {0}
    return frozenset(
        before + since for before in moved for since in _neighbour_shifts(piece.span.start + before, shifts) or (0,)
    )


def _neighbour_shifts(start: int, shifts: Shifts) -> Around:
    """By how much the evidence nearest before and behind a place was shifted, what stood at the place left out."""
    before = bisect_left(shifts, (start, -FAR))
    behind = bisect_left(shifts, (start, FAR))
    return frozenset(shift for _, shift in (*shifts[max(0, before - 1) : before], *shifts[behind : behind + 1]))


def _extend_match(place: EvidenceMatch, text: str, page: FoldedDocument) -> EvidenceMatch:
    """A place of all of ``text``, with the words that its last sentence ends with now: then it was edited."""
    span = _extend_to_sentence_end(place.span, text, page)
    grew = fold(page.document.text[place.span.end : span.end]).words()
    return EvidenceMatch(span, MatchType.FUZZY) if grew else place


def _extend_to_sentence_end(span: Span, text: str, page: FoldedDocument) -> Span:
    """A span that ends where a sentence does, if ``text`` ended so: words that were added at its end belong to it."""
    if not text.rstrip().endswith(SENTENCE_ENDS):
        return span
    end = next((end for _, end in sentences(page.document.text) if end >= span.end), span.end)
    return Span(span.doc, span.start, end) if end - span.end <= MAX_GAP_CHARACTERS else span


def _merge_close_spans(spans: Sequence[Span]) -> list[Span]:
    """Sentences, in the order in which they stood, as one span where they still stand so with little between them."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].start < span.start <= joined[-1].end + MAX_GAP_CHARACTERS:
            joined[-1] = Span(span.doc, joined[-1].start, max(span.end, joined[-1].end))
        else:
            joined.append(span)
    return sorted(dict.fromkeys(joined), key=lambda span: (span.start, span.end))


def count_match_types(found: Iterable[RepairedEvidence | NoMatch]) -> dict[str, int]:
    """How many pieces of evidence were found how, the surest way first; ``given`` are those that stand as before."""
    hows = Counter(each.how for each in found if isinstance(each, RepairedEvidence))
    return {str(how): hows[how] for how in MatchType if hows[how]}
