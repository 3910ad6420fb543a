"""Evidence finds its text again after documents were edited; what is not sure to be the same text is left and listed.

The documents as they were are not known, only the text of each piece of evidence. A text of `SURE` words or more that
stands once in its document is the same; a shorter one, or one that stands several times, has to have moved as far as
the evidence before or behind it, which tells by how much the text around was shifted. Where that evidence was written
anew and a piece was left, the shifts have to be told when the piece is looked for again: nothing there shows them then.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ragsmith.datasets.anchoring.folded import fold
from ragsmith.datasets.anchoring.places import MatchType, MissingPlace, Place, Unplaced, apart
from ragsmith.datasets.anchoring.quotations import FUZZY, MARGIN, SHOWN, FoldedDocument, QuotationFinder, bordered
from ragsmith.datasets.evidence import occurrences
from ragsmith.text.words import sentences
from ragsmith.types import Document, Span

SURE = 5
"""Words of a text that is not taken for another in its document; a number counts as two."""
SURE_ELSEWHERE = 8
"""Words of a text that is not taken for another in another document."""
SURE_FAR = 10
"""Words of a text that is taken, with some of them changed, where the evidence around it did not move to."""
FUZZY_FAR = 0.8
"""The least share of its words that need no edit then."""
MOST_LOST = 0.5
"""The share of a text's words that may be gone where its sentences are found one by one."""
GAP = 300
"""Characters between sentences of one span, such as a sentence that was inserted."""


FAR = 1 << 60

Shifts = Sequence[tuple[int, int]]
"""Where pieces of evidence stood in a document, in order, and by how much they moved."""

Around = frozenset[int]
"""By how much the text around a piece of evidence moved; more than one where it moved apart, none where none tells."""

ENDS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")
"""What sentences end with."""


@dataclass(frozen=True, slots=True)
class FormerPlace:
    """A piece of evidence as it was written: a span, and the text that stood there."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class RepairedEvidence:
    """What became of a piece of evidence: the places of its text, several where the text was torn apart."""

    stood: FormerPlace
    places: tuple[Place, ...]

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
        self, evidence: Iterable[FormerPlace], moved: Mapping[FormerPlace, Collection[int]] | None = None
    ) -> dict[FormerPlace, RepairedEvidence | Unplaced]:
        """Find each piece of ``evidence``, or say why it is not found.

        ``moved`` has, for pieces that were left before, by how much the text around them had moved by then.
        """
        around = self.around(evidence, moved or {})
        return {piece: self._find(piece, around[piece]) for piece in around}

    def around(
        self, pieces: Iterable[FormerPlace], moved: Mapping[FormerPlace, Collection[int]]
    ) -> dict[FormerPlace, Around]:
        """By how much the text around each piece moved since the piece was written, as far as can be told."""
        pieces = list(dict.fromkeys(pieces))
        shifts = self._shifts(piece for piece in pieces if piece not in moved)
        return {piece: _since(piece, shifts.get(piece.span.doc, []), moved.get(piece)) for piece in pieces}

    def _shifts(self, pieces: Iterable[FormerPlace]) -> dict[str, Shifts]:
        """By document, where pieces that are sure to be the same stood, and by how much they moved, in order."""
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for piece in pieces:
            page = self._pages.get(piece.span.doc)
            starts = occurrences(piece.text, page.document.text) if page else ()
            if len(starts) == 1 and _size(piece.text) >= SURE:
                found[piece.span.doc].append((piece.span.start, starts[0] - piece.span.start))
        return {doc: sorted(shifts) for doc, shifts in found.items()}

    def _find(self, piece: FormerPlace, around: Around) -> RepairedEvidence | Unplaced:
        page = self._pages.get(piece.span.doc)
        if page is not None:
            if page.document.text[piece.span.start : piece.span.end] == piece.text and _agrees(around):
                return RepairedEvidence(piece, (Place(piece.span, MatchType.GIVEN),))
            if found := self._moved(piece, page, around):
                return found
        edited = self._edited(piece, page, around) if page is not None else ()
        elsewhere = self._elsewhere(piece) if _size(piece.text) >= SURE_ELSEWHERE else ()
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
            return Unplaced(MissingPlace.NOT_FOUND, "the text stands nowhere, nor anything like it")
        return Unplaced(MissingPlace.AMBIGUOUS, reason, (*edited, *elsewhere)[:SHOWN])

    def _moved(self, piece: FormerPlace, page: FoldedDocument, around: Around) -> RepairedEvidence | Unplaced | None:
        """Where all of a text stands in its document."""
        for how, found in self._here(piece.text, page):
            places = apart([Place(place, how) for place in found])
            if len(places) == 1 and _size(piece.text) >= SURE:
                return RepairedEvidence(piece, (_whole(places[0], piece.text, page),))
            along = [place for place in places if place.span.start - piece.span.start in around]
            if len(along) == 1:
                return RepairedEvidence(piece, (_whole(along[0], piece.text, page),))
            if places:
                said = f"stands in {len(places)} places" if len(places) > 1 else "is too short to be sure of"
                return Unplaced(MissingPlace.AMBIGUOUS, f"the text {said}", places[:SHOWN])
        return None

    def _here(self, text: str, page: FoldedDocument) -> Iterable[tuple[MatchType, list[Span]]]:
        """Where a text stands in a page, to the letter, else without regard to typography."""
        id_ = page.document.id
        yield MatchType.EXACT, [Span(id_, at, at + len(text)) for at in occurrences(text, page.document.text)]
        wanted = fold(text).text
        found = [bordered(Span(id_, *place), text, page) for place in page.folded.find(wanted)]
        yield MatchType.NORMALISED, found

    def _elsewhere(self, piece: FormerPlace) -> tuple[Place, ...]:
        found = [
            Place(span, how)
            for id_, page in self._pages.items()
            if id_ != piece.span.doc
            for how, spans in self._here(piece.text, page)
            for span in spans
        ]
        return apart(found)

    def _edited(self, piece: FormerPlace, page: FoldedDocument, around: Around) -> tuple[Place, ...]:
        """The places of a text some words of which were changed: as a whole, else sentence by sentence."""
        whole = self._alike(piece, page, around)
        if whole is not None:
            return (whole,)
        start, text = piece.span.start, piece.text
        parts = [FormerPlace(Span(piece.span.doc, start + a, start + b), text[a:b]) for a, b in sentences(text)]
        found = [self._part(part, page, around) for part in parts] if len(parts) > 1 else []
        kept = sum(_words(part.text) for part, span in zip(parts, found, strict=False) if span)
        if not kept or kept < (1 - MOST_LOST) * _words(text):
            return ()
        score = round(kept / _words(text), 4)
        return tuple(Place(span, MatchType.PARTS, score) for span in _joined([span for span in found if span]))

    def _part(self, part: FormerPlace, page: FoldedDocument, around: Around) -> Span | None:
        """The one place of a sentence in a page."""
        if _words(part.text) < SURE:
            return None
        for _, spans in self._here(part.text, page):
            if spans:
                return spans[0] if len(spans) == 1 else None
        alike = self._alike(part, page, around)
        return alike.span if alike else None

    def _alike(self, piece: FormerPlace, page: FoldedDocument, around: Around) -> Place | None:
        """The one place of a text that is like it.

        What has the form of a text is not the text. One number may be changed, or a third of them; where the text is
        not seen to have moved along with what is around it, it has to be long and more alike, and one number is all.
        """
        wanted = [word for word, _, _ in fold(piece.text).words()]
        places = self._quotations.aligned(wanted, page) if len(wanted) >= SURE else []
        if not places or places[0].score < FUZZY:
            return None
        if len(places) > 1 and places[1].score > places[0].score - MARGIN:
            return None
        best = places[0]
        now = page.document.text[best.span.start : best.span.end]
        before = numbers(piece.text)
        changed = (before - numbers(now)).total()
        if 3 * changed > max(3, before.total()):
            return None
        away = min((abs(best.span.start - piece.span.start - shift) for shift in around), default=None)
        along = away is not None and 2 * away <= len(piece.text)
        if not along and (len(wanted) < SURE_FAR or best.score < FUZZY_FAR or changed > 1):
            return None
        return Place(_to_the_end(bordered(best.span, piece.text, page), piece.text, page), MatchType.FUZZY, best.score)

    def _resembling(self, piece: FormerPlace, page: FoldedDocument) -> tuple[Place, ...]:
        """The best place of a text in a page that is like it, whether or not it may be the same."""
        places = self._quotations.aligned([word for word, _, _ in fold(piece.text).words()], page)
        return tuple(place for place in places[:1] if place.score >= FUZZY)


def _words(text: str) -> int:
    return len(fold(text).words())


def numbers(text: str) -> Counter[str]:
    """Return the numbers in a text, as often as they are there."""
    return Counter(word for word, _, _ in fold(text).words() if any(map(str.isdecimal, word)))


def _size(text: str) -> int:
    """How much a text says, in words: a number counts as two."""
    return _words(text) + numbers(text).total()


def _agrees(around: Around) -> bool:
    """Whether the text around a piece may be where it was: of the evidence next to it, some has not moved."""
    return not around or 0 in around


def _since(piece: FormerPlace, shifts: Shifts, moved: Collection[int] | None) -> Around:
    """By how much the text around a piece has moved in all: as it had ``moved`` before, and since then."""
    if moved is None:
        return _beside(piece.span.start, shifts)
    if not moved:
        return _beside(piece.span.start, shifts) - {0}
    return frozenset(before + since for before in moved for since in _beside(piece.span.start + before, shifts) or (0,))


def _beside(start: int, shifts: Shifts) -> Around:
    """By how much the evidence nearest before and behind a place was shifted, what stood at the place left out."""
    before = bisect_left(shifts, (start, -FAR))
    behind = bisect_left(shifts, (start, FAR))
    return frozenset(shift for _, shift in (*shifts[max(0, before - 1) : before], *shifts[behind : behind + 1]))


def _whole(place: Place, text: str, page: FoldedDocument) -> Place:
    """A place of all of ``text``, with the words that its last sentence ends with now: then it was edited."""
    span = _to_the_end(place.span, text, page)
    grew = fold(page.document.text[place.span.end : span.end]).words()
    return Place(span, MatchType.FUZZY) if grew else place


def _to_the_end(span: Span, text: str, page: FoldedDocument) -> Span:
    """A span that ends where a sentence does, if ``text`` ended so: words that were added at its end belong to it."""
    if not text.rstrip().endswith(ENDS):
        return span
    end = next((end for _, end in sentences(page.document.text) if end >= span.end), span.end)
    return Span(span.doc, span.start, end) if end - span.end <= GAP else span


def _joined(spans: Sequence[Span]) -> list[Span]:
    """Sentences, in the order in which they stood, as one span where they still stand so with little between them."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].start < span.start <= joined[-1].end + GAP:
            joined[-1] = Span(span.doc, joined[-1].start, max(span.end, joined[-1].end))
        else:
            joined.append(span)
    return sorted(dict.fromkeys(joined), key=lambda span: (span.start, span.end))


def counted(found: Iterable[RepairedEvidence | Unplaced]) -> dict[str, int]:
    """How many pieces of evidence were found how, the surest way first; ``given`` are those that stand as before."""
    hows = Counter(each.how for each in found if isinstance(each, RepairedEvidence))
    return {str(how): hows[how] for how in MatchType if hows[how]}
