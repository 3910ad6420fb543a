"""Locate evidence again after its documents were edited; what is not certainly the same text is left and listed.

The former documents are not known, only the text of each piece of evidence. A text of `MIN_WORDS` words or more that
occurs once in its document is the same text. A shorter or repeated one must have moved as far as the evidence before or
after it, which shows by how much the surrounding text was shifted. Where that evidence was rewritten while a piece was
left, the shifts must be passed in when the piece is looked for again, as nothing in the document shows them any more.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ragsmith.datasets.anchoring.folded import fold
from ragsmith.datasets.anchoring.matches import (
    EvidenceMatch,
    MatchType,
    NoMatch,
    NoMatchReason,
    drop_overlaps,
    find_least_certain,
)
from ragsmith.datasets.anchoring.quotations import (
    MAX_LISTED_MATCHES,
    MIN_FUZZY_SCORE,
    MIN_SCORE_MARGIN,
    FoldedDocument,
    QuotationFinder,
    with_punctuation,
)
from ragsmith.datasets.evidence import find_occurrences
from ragsmith.text.words import sentences
from ragsmith.types import Document, Span

MIN_WORDS = 5
"""Least words, a number counting as two, for a text to be identified within its document."""
MIN_WORDS_ELSEWHERE = 8
"""Least words for a text to be identified in another document."""
MIN_WORDS_FAR = 10
"""Least words of an edited text that is accepted although its neighbours moved elsewhere."""
MIN_FUZZY_SCORE_FAR = 0.8
"""Least share of its words that must be unedited in that case."""
MAX_LOST_SHARE = 0.5
"""Largest share of a text's words that may be lost when its sentences are located one by one."""
MAX_GAP_CHARACTERS = 300
"""Largest distance between sentences that are merged into one span, such as for an inserted sentence."""


FAR = 1 << 60

Shifts = Sequence[tuple[int, int]]
"""Former starts of the evidence in a document, sorted, and by how many characters each moved."""

Around = frozenset[int]
"""Shifts of the evidence next to a piece, in characters: two if they differ, none if unknown."""

SENTENCE_ENDS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")
"""Characters that end sentences."""


@dataclass(frozen=True, slots=True)
class OldEvidence:
    """A piece of evidence as it was written: a span and its text then."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class RepairedEvidence:
    """A piece of evidence and the present places of its text: several if the text was split."""

    piece: OldEvidence
    places: tuple[EvidenceMatch, ...]

    @property
    def how(self) -> MatchType:
        """The least certain match type of its places."""
        return find_least_certain(self.places)


class EvidenceRepair:
    """Locates former evidence in the present ``documents``."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._quotations = QuotationFinder(documents)
        self._pages = self._quotations.pages

    def repair(
        self, evidence: Iterable[OldEvidence], moved: Mapping[OldEvidence, Collection[int]] | None = None
    ) -> dict[OldEvidence, RepairedEvidence | NoMatch]:
        """Return the present places of each piece of ``evidence``, or why it has none.

        ``moved`` are the shifts around pieces that an earlier repair left.
        """
        around = self.around(evidence, moved or {})
        return {piece: self._find(piece, around[piece]) for piece in around}

    def around(
        self, pieces: Iterable[OldEvidence], moved: Mapping[OldEvidence, Collection[int]]
    ) -> dict[OldEvidence, Around]:
        """Return the shifts of the text around each piece since the piece was written, as far as known."""
        pieces = list(dict.fromkeys(pieces))
        shifts = self._shifts(piece for piece in pieces if piece not in moved)
        return {piece: _total_shifts(piece, shifts.get(piece.span.doc, []), moved.get(piece)) for piece in pieces}

    def _shifts(self, pieces: Iterable[OldEvidence]) -> dict[str, Shifts]:
        """Return the shifts of the pieces that are identified with certainty, by document."""
        found: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for piece in pieces:
            page = self._pages.get(piece.span.doc)
            starts = find_occurrences(piece.text, page.document.text) if page else ()
            if len(starts) == 1 and _weighted_length(piece.text) >= MIN_WORDS:
                found[piece.span.doc].append((piece.span.start, starts[0] - piece.span.start))
        return {doc: sorted(shifts) for doc, shifts in found.items()}

    def _find(self, piece: OldEvidence, around: Around) -> RepairedEvidence | NoMatch:
        page = self._pages.get(piece.span.doc)
        if page is not None:
            neighbours_agree = not around or 0 in around
            if page.document.text[piece.span.start : piece.span.end] == piece.text and neighbours_agree:
                return RepairedEvidence(piece, (EvidenceMatch(piece.span, MatchType.GIVEN),))
            if found := self._moved(piece, page, around):
                return found
        edited = self._edited(piece, page, around) if page is not None else ()
        elsewhere = self._elsewhere(piece) if _weighted_length(piece.text) >= MIN_WORDS_ELSEWHERE else ()
        doc = piece.span.doc
        if elsewhere and not edited and page is not None:
            edited = self._resembling(piece, page)  # a person has to choose between the two
        if edited and elsewhere:
            reason = f"the text is gone from {doc!r}, which has a similar one, and occurs in another document"
        elif len(elsewhere) > 1:
            reason = f"the text is gone from {doc!r} and occurs {len(elsewhere)} times in others"
        elif edited or elsewhere:
            return RepairedEvidence(piece, edited or elsewhere)
        else:
            return NoMatch(NoMatchReason.NOT_FOUND, "neither the text nor a similar one was found")
        return NoMatch(NoMatchReason.AMBIGUOUS, reason, (*edited, *elsewhere)[:MAX_LISTED_MATCHES])

    def _moved(self, piece: OldEvidence, page: FoldedDocument, around: Around) -> RepairedEvidence | NoMatch | None:
        """Locate the whole text in its document."""
        for how, found in self._here(piece.text, page):
            places = drop_overlaps([EvidenceMatch(place, how) for place in found])
            along = [place for place in places if place.span.start - piece.span.start in around]
            if len(places) == 1 and _weighted_length(piece.text) >= MIN_WORDS:
                along = list(places)
            if len(along) == 1:
                return RepairedEvidence(piece, (_extend_match(along[0], piece.text, page),))
            if places:
                said = f"occurs {len(places)} times" if len(places) > 1 else "is too short to be identified"
                return NoMatch(NoMatchReason.AMBIGUOUS, f"the text {said}", places[:MAX_LISTED_MATCHES])
        return None

    def _here(self, text: str, page: FoldedDocument) -> Iterable[tuple[MatchType, list[Span]]]:
        """Yield the spans of exact, then of normalised occurrences of a text in a page."""
        id_ = page.document.id
        yield MatchType.EXACT, [Span(id_, at, at + len(text)) for at in find_occurrences(text, page.document.text)]
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
        return drop_overlaps(found)

    def _edited(self, piece: OldEvidence, page: FoldedDocument, around: Around) -> tuple[EvidenceMatch, ...]:
        """Locate a text with edited words: as a whole, else sentence by sentence."""
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
            EvidenceMatch(span, MatchType.BY_SENTENCES, score)
            for span in _merge_close_spans([span for span in found if span])
        )

    def _part(self, part: OldEvidence, page: FoldedDocument, around: Around) -> Span | None:
        """Return the only place of a sentence in a page."""
        if _count_words(part.text) < MIN_WORDS:
            return None
        for _, spans in self._here(part.text, page):
            if spans:
                return spans[0] if len(spans) == 1 else None
        alike = self._alike(part, page, around)
        return alike.span if alike else None

    def _alike(self, piece: OldEvidence, page: FoldedDocument, around: Around) -> EvidenceMatch | None:
        """Return the only place of a similar text.

        Texts of the same form are not the same text: one number may differ, or a third of them. A text that did not
        move along with its neighbours has to be longer and more similar, and one number may differ.
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
        """Return the most similar text in a page, even if it may be another."""
        places = self._quotations.aligned([word for word, _, _ in fold(piece.text).words()], page)
        return tuple(place for place in places[:1] if place.score >= MIN_FUZZY_SCORE)


def _count_words(text: str) -> int:
    return len(fold(text).words())


def count_numbers(text: str) -> Counter[str]:
    """Count the numbers in a text."""
    return Counter(word for word, _, _ in fold(text).words() if any(map(str.isdecimal, word)))


def _weighted_length(text: str) -> int:
    """Return the words of a text, a number counting as two."""
    return _count_words(text) + count_numbers(text).total()


def _total_shifts(piece: OldEvidence, shifts: Shifts, moved: Collection[int] | None) -> Around:
    """Return the shifts around a piece: those ``moved`` by earlier plus those since."""
    if moved is None:
        return _neighbour_shifts(piece.span.start, shifts)
    if not moved:
        return _neighbour_shifts(piece.span.start, shifts) - {0}
    return frozenset(
        before + since for before in moved for since in _neighbour_shifts(piece.span.start + before, shifts) or (0,)
    )


def _neighbour_shifts(start: int, shifts: Shifts) -> Around:
    """Return the shifts of the nearest evidence before and after ``start``, without that at ``start``."""
    before = bisect_left(shifts, (start, -FAR))
    behind = bisect_left(shifts, (start, FAR))
    return frozenset(shift for _, shift in (*shifts[max(0, before - 1) : before], *shifts[behind : behind + 1]))


def _extend_match(place: EvidenceMatch, text: str, page: FoldedDocument) -> EvidenceMatch:
    """Extend a match to the end of its last sentence; it is fuzzy if words were added there."""
    span = _extend_to_sentence_end(place.span, text, page)
    grew = fold(page.document.text[place.span.end : span.end]).words()
    return EvidenceMatch(span, MatchType.FUZZY) if grew else place


def _extend_to_sentence_end(span: Span, text: str, page: FoldedDocument) -> Span:
    """Extend ``span`` to the end of its sentence if ``text`` ended with one: it includes words added there."""
    if not text.rstrip().endswith(SENTENCE_ENDS):
        return span
    end = next((end for _, end in sentences(page.document.text) if end >= span.end), span.end)
    return Span(span.doc, span.start, end) if end - span.end <= MAX_GAP_CHARACTERS else span


def _merge_close_spans(spans: Sequence[Span]) -> list[Span]:
    """Merge sentences that are still in order and close together."""
    joined: list[Span] = []
    for span in spans:
        if joined and joined[-1].start < span.start <= joined[-1].end + MAX_GAP_CHARACTERS:
            joined[-1] = Span(span.doc, joined[-1].start, max(span.end, joined[-1].end))
        else:
            joined.append(span)
    return sorted(dict.fromkeys(joined), key=lambda span: (span.start, span.end))


def count_match_types(found: Iterable[RepairedEvidence | NoMatch]) -> dict[str, int]:
    """Count evidence by match type, the most certain first; ``given`` has not moved."""
    hows = Counter(each.how for each in found if isinstance(each, RepairedEvidence))
    return {str(how): hows[how] for how in MatchType if hows[how]}
