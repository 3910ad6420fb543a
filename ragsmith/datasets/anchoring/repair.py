"""Locate evidence again after its documents were edited; uncertain matches are returned as candidates.

The former documents are not available, only the text of each piece of evidence. A text of `MIN_WORDS` words or more
that occurs once in its document is the same text. A shorter or repeated text must have the same shift in characters as
the evidence before or after it. After a repair that rewrites this evidence and leaves a piece, the shifts must be
passed to the next repair, as they cannot be measured any more.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

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
    extend_to_punctuation,
)
from ragsmith.datasets.evidence import find_occurrences
from ragsmith.text.folded import fold
from ragsmith.text.words import sentences
from ragsmith.types import Document, Span

MIN_WORDS = 5
"""Minimum number of words, where a number counts as two, to identify a text within its document."""
MIN_WORDS_ELSEWHERE = 8
"""Minimum number of words to identify a text in another document."""
MIN_WORDS_FAR = 10
"""Minimum number of words of an edited text whose shift differs from that of its neighbours."""
MIN_FUZZY_SCORE_FAR = 0.8
"""Minimum share of unedited words of such a text."""
MAX_LOST_SHARE = 0.5
"""Maximum share of the words of a text in sentences that are not found."""
MAX_GAP_CHARACTERS = 300
"""Maximum distance of sentences that are merged into one span, in characters, as after an insertion."""

MAX_OFFSET = 1 << 60
"""Upper bound of shifts, in characters."""

Shifts = Sequence[tuple[int, int]]
"""Former offsets and shifts of the evidence in a document, in characters, sorted."""

LocalShifts = frozenset[int]
"""Shifts of the evidence before and after a piece, in characters; empty if unknown."""

SENTENCE_ENDS = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")
"""Characters that end sentences."""


@dataclass(frozen=True, slots=True)
class OldEvidence:
    """A piece of evidence before a repair: its span and the text that was there."""

    span: Span
    text: str


@dataclass(frozen=True, slots=True)
class RepairedEvidence:
    """A piece of evidence and its present matches; several if the text was split."""

    piece: OldEvidence
    matches: tuple[EvidenceMatch, ...]

    @property
    def match_type(self) -> MatchType:
        """The least certain match type."""
        return find_least_certain(self.matches)


class EvidenceRepair:
    """A repair that locates former evidence in the present ``documents``."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self._quotations = QuotationFinder(documents)
        self._documents = self._quotations.documents

    def repair(
        self, evidence: Iterable[OldEvidence], earlier: Mapping[OldEvidence, Collection[int]] | None = None
    ) -> dict[OldEvidence, RepairedEvidence | NoMatch]:
        """Return the present matches of each piece of ``evidence``, or why there is no match.

        ``earlier`` has the shifts around pieces that an earlier repair left.
        """
        shifts = self.local_shifts(evidence, earlier or {})
        return {piece: self._repair_piece(piece, shifts[piece]) for piece in shifts}

    def local_shifts(
        self, pieces: Iterable[OldEvidence], earlier: Mapping[OldEvidence, Collection[int]]
    ) -> dict[OldEvidence, LocalShifts]:
        """Return the known shifts of the text around each piece since the piece was written."""
        pieces = list(dict.fromkeys(pieces))
        shifts = self._certain_shifts(piece for piece in pieces if piece not in earlier)
        return {piece: _total_shifts(piece, shifts.get(piece.span.doc, []), earlier.get(piece)) for piece in pieces}

    def _certain_shifts(self, pieces: Iterable[OldEvidence]) -> dict[str, Shifts]:
        """Return the shifts of the pieces that are identified with certainty, by document."""
        shifts: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for piece in pieces:
            document = self._documents.get(piece.span.doc)
            starts = find_occurrences(piece.text, document.source.text) if document else ()
            if len(starts) == 1 and _weighted_length(piece.text) >= MIN_WORDS:
                shifts[piece.span.doc].append((piece.span.start, starts[0] - piece.span.start))
        return {doc: sorted(moves) for doc, moves in shifts.items()}

    def _repair_piece(self, piece: OldEvidence, shifts: LocalShifts) -> RepairedEvidence | NoMatch:
        document = self._documents.get(piece.span.doc)
        if document is not None:
            neighbours_agree = not shifts or 0 in shifts
            if document.source.text[piece.span.start : piece.span.end] == piece.text and neighbours_agree:
                return RepairedEvidence(piece, (EvidenceMatch(piece.span, MatchType.GIVEN),))
            if outcome := self._find_moved(piece, document, shifts):
                return outcome
        edited = self._find_edited(piece, document, shifts) if document is not None else ()
        elsewhere = self._find_in_other_documents(piece) if _weighted_length(piece.text) >= MIN_WORDS_ELSEWHERE else ()
        similar = edited or (self._find_most_similar(piece, document) if document is not None else ())
        doc = piece.span.doc
        if similar and elsewhere:
            reason = f"the text is no longer in {doc!r}, which has a similar text, and occurs in another document"
        elif len(elsewhere) > 1:
            reason = f"the text is no longer in {doc!r} and occurs {len(elsewhere)} times in others"
        elif edited or elsewhere:
            return RepairedEvidence(piece, edited or elsewhere)
        else:
            found = "a similar text was found, but it may say something else: compare it with the candidate"
            reason = found if similar else "neither the text nor a similar one was found"
            return NoMatch(NoMatchReason.NOT_FOUND, reason, similar)
        return NoMatch(NoMatchReason.AMBIGUOUS, reason, (*similar, *elsewhere)[:MAX_LISTED_MATCHES])

    def _find_moved(
        self, piece: OldEvidence, document: FoldedDocument, shifts: LocalShifts
    ) -> RepairedEvidence | NoMatch | None:
        """Locate the whole text in its document."""
        for match_type, spans in self._find_in_document(piece.text, document):
            matches = drop_overlaps([EvidenceMatch(span, match_type) for span in spans])
            candidates = [match for match in matches if match.span.start - piece.span.start in shifts]
            if len(matches) == 1 and _weighted_length(piece.text) >= MIN_WORDS:
                candidates = list(matches)
            if len(candidates) == 1:
                return RepairedEvidence(piece, (_extend_match(candidates[0], piece.text, document),))
            if matches:
                problem = f"occurs {len(matches)} times" if len(matches) > 1 else "is too short to be identified"
                return NoMatch(NoMatchReason.AMBIGUOUS, f"the text {problem}", matches[:MAX_LISTED_MATCHES])
        return None

    def _find_in_document(self, text: str, document: FoldedDocument) -> Iterable[tuple[MatchType, list[Span]]]:
        """Yield the spans of exact occurrences of a text in a document, then of normalised occurrences."""
        id_ = document.source.id
        yield MatchType.EXACT, [Span(id_, at, at + len(text)) for at in find_occurrences(text, document.source.text)]
        offsets = document.folded.find(fold(text).text)
        yield MatchType.NORMALISED, [extend_to_punctuation(Span(id_, *pair), text, document) for pair in offsets]

    def _find_in_other_documents(self, piece: OldEvidence) -> tuple[EvidenceMatch, ...]:
        matches = [
            EvidenceMatch(span, match_type)
            for id_, document in self._documents.items()
            if id_ != piece.span.doc
            for match_type, spans in self._find_in_document(piece.text, document)
            for span in spans
        ]
        return drop_overlaps(matches)

    def _find_edited(
        self, piece: OldEvidence, document: FoldedDocument, shifts: LocalShifts
    ) -> tuple[EvidenceMatch, ...]:
        """Locate a text with edited words: as a whole, else sentence by sentence."""
        whole = self._find_similar(piece, document, shifts)
        if whole is not None:
            return (whole,)
        start, text = piece.span.start, piece.text
        parts = [OldEvidence(Span(piece.span.doc, start + a, start + b), text[a:b]) for a, b in sentences(text)]
        spans = [self._find_sentence(part, document, shifts) for part in parts] if len(parts) > 1 else []
        found_words = sum(_count_words(part.text) for part, span in zip(parts, spans, strict=False) if span)
        if not found_words or found_words < (1 - MAX_LOST_SHARE) * _count_words(text):
            return ()
        score = round(found_words / _count_words(text), 4)
        return tuple(
            EvidenceMatch(span, MatchType.BY_SENTENCES, score)
            for span in _merge_close_spans([span for span in spans if span])
        )

    def _find_sentence(self, part: OldEvidence, document: FoldedDocument, shifts: LocalShifts) -> Span | None:
        """Return the only match of a sentence in a document."""
        if _count_words(part.text) < MIN_WORDS:
            return None
        for _, spans in self._find_in_document(part.text, document):
            if spans:
                return spans[0] if len(spans) == 1 else None
        similar = self._find_similar(part, document, shifts)
        return similar.span if similar else None

    def _find_similar(self, piece: OldEvidence, document: FoldedDocument, shifts: LocalShifts) -> EvidenceMatch | None:
        """Return the only fuzzy match in a document.

        Similar texts may differ in their numbers, such as table rows: at most one number, or a third of them, may be
        changed. A text whose shift differs from that of its neighbours must be longer and more similar, with at most
        one changed number.
        """
        words = [word for word, _, _ in fold(piece.text).words()]
        matches = self._quotations.find_similar(words, document) if len(words) >= MIN_WORDS else []
        if not matches or matches[0].score < MIN_FUZZY_SCORE:
            return None
        if len(matches) > 1 and matches[1].score > matches[0].score - MIN_SCORE_MARGIN:
            return None
        best = matches[0]
        after = document.source.text[best.span.start : best.span.end]
        before = count_numbers(piece.text)
        changed = (before - count_numbers(after)).total()
        if 3 * changed > max(3, before.total()):
            return None
        distance = min((abs(best.span.start - piece.span.start - shift) for shift in shifts), default=None)
        neighbours_agree = distance is not None and 2 * distance <= len(piece.text)
        if not neighbours_agree and (len(words) < MIN_WORDS_FAR or best.score < MIN_FUZZY_SCORE_FAR or changed > 1):
            return None
        return EvidenceMatch(
            _extend_to_sentence_end(extend_to_punctuation(best.span, piece.text, document), piece.text, document),
            MatchType.FUZZY,
            best.score,
        )

    def _find_most_similar(self, piece: OldEvidence, document: FoldedDocument) -> tuple[EvidenceMatch, ...]:
        """Return the most similar text in a document, even if the match is uncertain."""
        matches = self._quotations.find_similar([word for word, _, _ in fold(piece.text).words()], document)
        return tuple(match for match in matches[:1] if match.score >= MIN_FUZZY_SCORE)


def _count_words(text: str) -> int:
    return len(fold(text).words())


def count_numbers(text: str) -> Counter[str]:
    """Count the numbers in a text."""
    return Counter(word for word, _, _ in fold(text).words() if any(map(str.isdecimal, word)))


def _weighted_length(text: str) -> int:
    """Return the number of words of a text, where a number counts as two."""
    return _count_words(text) + count_numbers(text).total()


def _total_shifts(piece: OldEvidence, shifts: Shifts, earlier: Collection[int] | None) -> LocalShifts:
    """Return the shifts around a piece: the ``earlier`` shifts, plus the shifts since then."""
    if earlier is None:
        return _neighbour_shifts(piece.span.start, shifts)
    if not earlier:
        return _neighbour_shifts(piece.span.start, shifts) - {0}
    return frozenset(
        before + since for before in earlier for since in _neighbour_shifts(piece.span.start + before, shifts) or (0,)
    )


def _neighbour_shifts(start: int, shifts: Shifts) -> LocalShifts:
    """Return the shifts of the nearest evidence before and after ``start``, without evidence at ``start``."""
    before = bisect_left(shifts, (start, -MAX_OFFSET))
    after = bisect_left(shifts, (start, MAX_OFFSET))
    return frozenset(shift for _, shift in (*shifts[max(0, before - 1) : before], *shifts[after : after + 1]))


def _extend_match(match: EvidenceMatch, text: str, document: FoldedDocument) -> EvidenceMatch:
    """Extend a match to the end of its last sentence; the match becomes fuzzy if the extension has words."""
    span = _extend_to_sentence_end(match.span, text, document)
    added = fold(document.source.text[match.span.end : span.end]).words()
    return EvidenceMatch(span, MatchType.FUZZY) if added else match


def _extend_to_sentence_end(span: Span, text: str, document: FoldedDocument) -> Span:
    """Extend ``span`` to the end of its sentence, which includes words added there, if ``text`` ended a sentence."""
    if not text.rstrip().endswith(SENTENCE_ENDS):
        return span
    end = next((end for _, end in sentences(document.source.text) if end >= span.end), span.end)
    return Span(span.doc, span.start, end) if end - span.end <= MAX_GAP_CHARACTERS else span


def _merge_close_spans(spans: Sequence[Span]) -> list[Span]:
    """Merge consecutive spans that are in order and close together."""
    merged: list[Span] = []
    for span in spans:
        if merged and merged[-1].start < span.start <= merged[-1].end + MAX_GAP_CHARACTERS:
            merged[-1] = Span(span.doc, merged[-1].start, max(span.end, merged[-1].end))
        else:
            merged.append(span)
    return sorted(dict.fromkeys(merged), key=lambda span: (span.start, span.end))


def count_match_types(outcomes: Iterable[RepairedEvidence | NoMatch]) -> dict[str, int]:
    """Count repaired evidence by match type, the most certain first; ``given`` evidence has not moved."""
    counts = Counter(outcome.match_type for outcome in outcomes if isinstance(outcome, RepairedEvidence))
    return {str(type_): counts[type_] for type_ in MatchType if counts[type_]}
