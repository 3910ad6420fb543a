"""Where a quotation stands: to the letter, else without regard to typography, else with some of its words changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ragsmith.datasets.anchoring.alignment import Words, align, word_numbers
from ragsmith.datasets.anchoring.folded import FoldedText, fold, is_unspaced
from ragsmith.datasets.anchoring.places import EvidenceMatch, MatchType, NoMatch, NoMatchReason, without_overlaps
from ragsmith.datasets.evidence import occurrences
from ragsmith.types import Document, Span

MIN_FUZZY_SCORE = 0.7
"""The least share of a quotation's words that need no edit."""
MIN_SCORE_MARGIN = 0.15
"""By how much of that share the best place must be ahead of the next, in another part of the documents."""
MIN_FUZZY_WORDS = 5
"""A shorter quotation is not looked for with changes: too much would be like it."""
MAX_LISTED_MATCHES = 5
"""Candidates that are listed."""
MAX_ALIGNED_DOCUMENTS = 16
"""Documents that are aligned with a quotation: those that share the most of its rarer words."""


@dataclass(frozen=True)
class FoldedDocument:
    """A document, folded when that is first needed."""

    document: Document

    @cached_property
    def folded(self) -> FoldedText:
        """Its text without typography."""
        return fold(self.document.text)

    @cached_property
    def words(self) -> tuple[tuple[str, int, int], ...]:
        """Its words, and where they stand."""
        return self.folded.words()

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """Its distinct words."""
        return frozenset(word for word, _, _ in self.words)


class QuotationFinder:
    """Finds quotations in ``documents``."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.pages: Mapping[str, FoldedDocument] = {document.id: FoldedDocument(document) for document in documents}
        self._vocabulary: dict[str, int] = {}

    def find(self, text: str, docs: Collection[str] | None = None, *, edited: bool = True) -> EvidenceMatch | NoMatch:
        """Return the one place of ``text`` in ``docs`` (by default all), or why there is none.

        It is looked for to the letter, then folded, then with edits: the first that finds something decides, and what
        it finds twice is ambiguous. With edits only where ``edited``.
        """
        text = text.strip()
        pages = [page for id_, page in self.pages.items() if docs is None or id_ in docs]
        if not any(character.isalnum() for character in text):
            return NoMatch(NoMatchReason.NOT_FOUND, "the quotation has no words")
        for how, found in (
            (MatchType.EXACT, self._exact(text, pages)),
            (MatchType.NORMALISED, self._folded(text, pages)),
        ):
            places = without_overlaps([EvidenceMatch(span, how) for span in found])
            if len(places) == 1:
                return places[0]
            if places:
                reason = f"the quotation stands in {len(places)} places"
                return NoMatch(NoMatchReason.AMBIGUOUS, reason, places[:MAX_LISTED_MATCHES])
        if not edited:
            return NoMatch(NoMatchReason.NOT_FOUND, "the quotation stands nowhere")
        return self._fuzzy(text, pages)

    def _exact(self, text: str, pages: Sequence[FoldedDocument]) -> list[Span]:
        return [
            Span(page.document.id, start, start + len(text))
            for page in pages
            for start in occurrences(text, page.document.text)
            if _whole_words(page.document.text, start, start + len(text))
        ]

    def _folded(self, text: str, pages: Sequence[FoldedDocument]) -> list[Span]:
        wanted = fold(text).text
        found = [(Span(page.document.id, *place), page) for page in pages for place in page.folded.find(wanted)]
        return [with_punctuation(span, text, page) for span, page in found]

    def _fuzzy(self, text: str, pages: Sequence[FoldedDocument]) -> EvidenceMatch | NoMatch:
        wanted = [word for word, _, _ in fold(text).words()]
        if len(wanted) < MIN_FUZZY_WORDS:
            return NoMatch(NoMatchReason.NOT_FOUND, "the quotation stands nowhere")
        places = sorted(
            (place for page in self._likely(wanted, pages) for place in self.aligned(wanted, page)),
            key=lambda place: (-place.score, place.span.doc, place.span.start),
        )
        if not places or places[0].score < MIN_FUZZY_SCORE:
            return NoMatch(
                NoMatchReason.NOT_FOUND, "the quotation stands nowhere, nor anything like it", tuple(places[:1])
            )
        close = [place for place in places if place.score > places[0].score - MIN_SCORE_MARGIN]
        if len(close) > 1:
            return NoMatch(
                NoMatchReason.AMBIGUOUS,
                f"{len(close)} places are like the quotation",
                tuple(close[:MAX_LISTED_MATCHES]),
            )
        page = self.pages[places[0].span.doc]
        return replace(places[0], span=with_punctuation(places[0].span, text, page))

    def _likely(self, wanted: Sequence[str], pages: Sequence[FoldedDocument]) -> list[FoldedDocument]:
        """The pages that hold the most of the words that few pages hold."""
        if len(pages) <= MAX_ALIGNED_DOCUMENTS:
            return list(pages)
        held = [(page.vocabulary & set(wanted), page) for page in pages]
        common = Counter(word for words, _ in held for word in words)
        weights = [sum(1 / common[word] for word in sorted(words)) for words, _ in held]
        order = sorted(range(len(held)), key=lambda at: (-weights[at], held[at][1].document.id))
        return [held[at][1] for at in order[:MAX_ALIGNED_DOCUMENTS]]

    def aligned(self, wanted: Sequence[str], page: FoldedDocument) -> list[EvidenceMatch]:
        """The two best places in a page, apart from each other: the second tells whether the first is the only one."""
        numbers = word_numbers(wanted, self._vocabulary)
        text = word_numbers([word for word, _, _ in page.words], self._vocabulary)
        found = []
        best = self._align(numbers, text, page, 0)
        if best is not None:
            first, start, end = best
            found.append(first)
            parts = [self._align(numbers, text[:start], page, 0), self._align(numbers, text[end:], page, end)]
            found += [max((part[0] for part in parts if part), key=lambda place: place.score)] if any(parts) else []
        return found

    def _align(
        self, wanted: Words, text: Words, page: FoldedDocument, offset: int
    ) -> tuple[EvidenceMatch, int, int] | None:
        found = align(wanted, text)
        if found is None or found.start >= found.end:
            return None
        start, end = found.start + offset, found.end + offset
        span = Span(page.document.id, page.words[start][1], page.words[end - 1][2])
        return EvidenceMatch(span, MatchType.FUZZY, round(1 - found.edits / len(wanted), 4)), start, end


def _whole_words(text: str, start: int, end: int) -> bool:
    """Whether no word goes on over the borders: ``1987`` does not stand in ``19875``."""
    return not any(
        at and text[at - 1 : at].isalnum() and text[at : at + 1].isalnum() and not is_unspaced(text[at])
        for at in (start, end)
        if at < len(text)
    )


def with_punctuation(span: Span, text: str, page: FoldedDocument) -> Span:
    """``span`` with the signs that ``text`` has before its first and behind its last word, if they stand there."""
    words = fold(text).words()
    now = page.document.text
    before, behind = text[: words[0][1]], text[words[-1][2] :]
    start, end = span.start, span.end
    if before and now[max(0, start - len(before)) : start] == before:
        start -= len(before)
    if behind and now[end : end + len(behind)] == behind:
        end += len(behind)
    return Span(span.doc, start, end)
