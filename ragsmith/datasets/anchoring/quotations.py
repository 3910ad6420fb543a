"""Locate quotations in documents: verbatim, else normalised, else by word edits."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch, NoMatchReason, drop_overlaps
from ragsmith.datasets.evidence import find_occurrences
from ragsmith.datasets.statements import StatementIndex
from ragsmith.text.folded import FoldedText, fold, is_unspaced
from ragsmith.types import Document, Span

WordIds = NDArray[np.int64]
"""A text as word ids, shape ``(words,)``."""

MIN_FUZZY_SCORE = 0.7
"""Minimum score of a fuzzy match, the share of unedited words of the quotation."""
MIN_SCORE_MARGIN = 0.15
"""Minimum difference of the scores of the best and the second best fuzzy match."""
MIN_FUZZY_WORDS = 5
"""Minimum number of words of a quotation for a fuzzy search; shorter texts match by chance."""
MAX_LISTED_MATCHES = 5
"""Maximum number of candidates of an ambiguous quotation."""
MAX_ALIGNED_DOCUMENTS = 16
"""Maximum number of documents in a fuzzy search: those with most of the rare words of the quotation."""


@dataclass(frozen=True)
class FoldedDocument:
    """A document, ``source``, with its folded text, computed on first use."""

    source: Document

    @cached_property
    def folded(self) -> FoldedText:
        """The folded text."""
        return fold(self.source.text)

    @cached_property
    def words(self) -> tuple[tuple[str, int, int], ...]:
        """The folded words with their offsets."""
        return self.folded.words()

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The distinct folded words."""
        return frozenset(word for word, _, _ in self.words)


class QuotationFinder:
    """A finder of quotations in ``documents``."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.documents: Mapping[str, FoldedDocument] = {document.id: FoldedDocument(document) for document in documents}
        self._vocabulary: dict[str, int] = {}
        self.statements = StatementIndex(documents)

    def find(self, text: str, docs: Collection[str] | None = None, *, fuzzy: bool = True) -> EvidenceMatch | NoMatch:
        """Return the only match of ``text`` in ``docs`` (by default all), or why there is no such match.

        The search is exact, then normalised and, if ``fuzzy``, by word edits, until there are matches. Several matches
        are ambiguous, unless they are copies of one statement, of which the first is returned.
        """
        text = text.strip()
        documents = [document for id_, document in self.documents.items() if docs is None or id_ in docs]
        if not any(character.isalnum() for character in text):
            return NoMatch(NoMatchReason.NOT_FOUND, "the quotation has no words")
        for match_type, spans in (
            (MatchType.EXACT, self._find_exact(text, documents)),
            (MatchType.NORMALISED, self._find_normalised(text, documents)),
        ):
            matches = self._drop_copies(drop_overlaps([EvidenceMatch(span, match_type) for span in spans]))
            if len(matches) == 1:
                return matches[0]
            if matches:
                reason = f"the quotation occurs {len(matches)} times"
                return NoMatch(NoMatchReason.AMBIGUOUS, reason, matches[:MAX_LISTED_MATCHES])
        if not fuzzy:
            return NoMatch(NoMatchReason.NOT_FOUND, "the quotation was not found")
        return self._find_fuzzy(text, documents)

    def _drop_copies(self, matches: Sequence[EvidenceMatch]) -> tuple[EvidenceMatch, ...]:
        """Return ``matches`` in order, without those in a statement that an earlier one has."""
        distinct: dict[object, EvidenceMatch] = {}
        for match in matches:
            distinct.setdefault(self.statements.text_of(match.span) or match.span, match)
        return tuple(distinct.values())

    def _find_exact(self, text: str, documents: Sequence[FoldedDocument]) -> list[Span]:
        return [
            Span(document.source.id, start, start + len(text))
            for document in documents
            for start in find_occurrences(text, document.source.text)
            if _has_word_boundaries(document.source.text, start, start + len(text))
        ]

    def _find_normalised(self, text: str, documents: Sequence[FoldedDocument]) -> list[Span]:
        query = fold(text).text
        return [
            extend_to_punctuation(Span(document.source.id, *offsets), text, document)
            for document in documents
            for offsets in document.folded.find(query)
        ]

    def _find_fuzzy(self, text: str, documents: Sequence[FoldedDocument]) -> EvidenceMatch | NoMatch:
        query = [word for word, _, _ in fold(text).words()]
        if len(query) < MIN_FUZZY_WORDS:
            return NoMatch(NoMatchReason.NOT_FOUND, "the quotation was not found")
        selected = self._select_documents(query, documents)
        matches = sorted(
            (match for document in selected for match in self.find_similar(query, document)),
            key=lambda match: (-match.score, match.span.doc, match.span.start),
        )
        if not matches or matches[0].score < MIN_FUZZY_SCORE:
            return NoMatch(
                NoMatchReason.NOT_FOUND, "neither the quotation nor a similar text was found", tuple(matches[:1])
            )
        close = self._drop_copies([match for match in matches if match.score > matches[0].score - MIN_SCORE_MARGIN])
        if len(close) > 1:
            return NoMatch(
                NoMatchReason.AMBIGUOUS,
                f"{len(close)} positions are similar to the quotation",
                close[:MAX_LISTED_MATCHES],
            )
        document = self.documents[matches[0].span.doc]
        return replace(matches[0], span=extend_to_punctuation(matches[0].span, text, document))

    def _select_documents(self, query: Sequence[str], documents: Sequence[FoldedDocument]) -> list[FoldedDocument]:
        """Return the documents with most of the words of ``query``, weighted by their rarity."""
        if len(documents) <= MAX_ALIGNED_DOCUMENTS:
            return list(documents)
        shared = [(document.vocabulary & set(query), document) for document in documents]
        frequencies = Counter(word for words, _ in shared for word in words)
        weights = [sum(1 / frequencies[word] for word in sorted(words)) for words, _ in shared]
        order = sorted(range(len(shared)), key=lambda at: (-weights[at], shared[at][1].source.id))
        return [shared[at][1] for at in order[:MAX_ALIGNED_DOCUMENTS]]

    def find_similar(self, query: Sequence[str], document: FoldedDocument) -> list[EvidenceMatch]:
        """Return the best fuzzy match in a document, and the best that does not overlap it, if any."""
        query_ids = encode_words(query, self._vocabulary)
        text_ids = encode_words([word for word, _, _ in document.words], self._vocabulary)
        best = self._align(query_ids, text_ids, document, 0)
        if best is None:
            return []
        first, start, end = best
        parts = (
            self._align(query_ids, text_ids[:start], document, 0),
            self._align(query_ids, text_ids[end:], document, end),
        )
        others = [part[0] for part in parts if part]
        return [first, *([max(others, key=lambda match: match.score)] if others else [])]

    def _align(
        self, query: WordIds, text: WordIds, document: FoldedDocument, offset: int
    ) -> tuple[EvidenceMatch, int, int] | None:
        alignment = align(query, text)
        if alignment is None or alignment.start >= alignment.end:
            return None
        start, end = alignment.start + offset, alignment.end + offset
        span = Span(document.source.id, document.words[start][1], document.words[end - 1][2])
        return EvidenceMatch(span, MatchType.FUZZY, round(1 - alignment.edits / len(query), 4)), start, end


def _has_word_boundaries(text: str, start: int, end: int) -> bool:
    """Whether the span begins and ends at word boundaries: ``1987`` is not in ``19875``."""
    return not any(
        at and text[at - 1 : at].isalnum() and text[at : at + 1].isalnum() and not is_unspaced(text[at])
        for at in (start, end)
        if at < len(text)
    )


def extend_to_punctuation(span: Span, text: str, document: FoldedDocument) -> Span:
    """Extend ``span`` by the punctuation around the words of ``text`` that is also in the document."""
    words = fold(text).words()
    source = document.source.text
    before, behind = text[: words[0][1]], text[words[-1][2] :]
    start, end = span.start, span.end
    if before and source[max(0, start - len(before)) : start] == before:
        start -= len(before)
    if behind and source[end : end + len(behind)] == behind:
        end += len(behind)
    return Span(span.doc, start, end)


# --- approximate search by word edits (Sellers 1980) -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alignment:
    """The words ``[start, end)`` of a text, and the number of word edits to a quotation.

    An edit changes, adds or deletes a word.
    """

    start: int
    end: int
    edits: int


def align(query: WordIds, text: WordIds) -> Alignment | None:
    """Return the part of ``text`` with the fewest edits to ``query``; None if no word matches.

    Ties go to the first part that ends, and begins, with the same word. The algorithm takes ``len(query)`` operations
    on arrays of the length of ``text``.
    """
    if not len(query) or not len(text):
        return None
    costs = _edit_costs(query, text, np.zeros(len(text) + 1, dtype=np.int64))
    end = _choose_end(costs, query, text)
    if end == 0:
        return None
    # a backward search from the end gives the start with the fewest edits
    before = text[max(0, end - 2 * len(query)) : end][::-1]
    back = _edit_costs(query[::-1], before, np.arange(len(before) + 1, dtype=np.int64))
    return Alignment(end - _choose_end(back, query[::-1], before), end, int(costs[end]))


def _choose_end(costs: NDArray[np.int64], query: WordIds, text: WordIds) -> int:
    """Return the first of the ends with the fewest edits, preferably one with the last word of ``query``.

    Otherwise the last word is assumed to be changed rather than deleted, and the changed word is included.
    """
    cheapest = np.flatnonzero(costs == costs.min())
    equal = cheapest[(cheapest > 0) & (text[cheapest - 1] == query[-1])]
    if len(equal):
        return int(equal[0])
    gaps = np.flatnonzero(np.diff(cheapest) > 1)
    return int(cheapest[gaps[0] if len(gaps) else -1])


def _edit_costs(query: WordIds, text: WordIds, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the fewest edits of a part that ends at each position, shape ``(len(text) + 1,)``.

    ``row`` has the cost of starting at each position: zeros to start anywhere, 0, 1, ... to start at the beginning.
    """
    steps = np.arange(len(text) + 1, dtype=np.int64)
    for word in query:
        changed = row + 1  # deleted
        np.minimum(changed[1:], row[:-1] + (text != word), out=changed[1:])  # equal or changed
        row = np.minimum.accumulate(changed - steps) + steps  # added
    return row


def encode_words(words: Sequence[str], vocabulary: dict[str, int]) -> WordIds:
    """Return the ids of ``words``; new ones are added to ``vocabulary``."""
    return np.fromiter((vocabulary.setdefault(word, len(vocabulary)) for word in words), np.int64, len(words))
