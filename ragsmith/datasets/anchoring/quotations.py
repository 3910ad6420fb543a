"""Locate quotations in documents: exactly, else normalised, else with edited words."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragsmith.datasets.anchoring.folded import FoldedText, fold, is_unspaced
from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch, NoMatchReason, drop_overlaps
from ragsmith.datasets.evidence import find_occurrences
from ragsmith.types import Document, Span

Words = NDArray[np.int64]
"""A text as word ids, shape ``(words,)``."""

MIN_FUZZY_SCORE = 0.7
"""Least share of a quotation's words that must be unedited."""
MIN_SCORE_MARGIN = 0.15
"""Least difference of that share between the best match and the next one elsewhere."""
MIN_FUZZY_WORDS = 5
"""Least words of a quotation for a fuzzy search: shorter ones resemble too much."""
MAX_LISTED_MATCHES = 5
"""Candidates listed for an ambiguous quotation."""
MAX_ALIGNED_DOCUMENTS = 16
"""Documents a quotation is aligned with: those that share most of its rare words."""


@dataclass(frozen=True)
class FoldedDocument:
    """A document with its folded text, computed on first use."""

    document: Document

    @cached_property
    def folded(self) -> FoldedText:
        """The folded text."""
        return fold(self.document.text)

    @cached_property
    def words(self) -> tuple[tuple[str, int, int], ...]:
        """The folded words with their offsets."""
        return self.folded.words()

    @cached_property
    def vocabulary(self) -> frozenset[str]:
        """The distinct folded words."""
        return frozenset(word for word, _, _ in self.words)


class QuotationFinder:
    """Finds quotations in ``documents``."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.pages: Mapping[str, FoldedDocument] = {document.id: FoldedDocument(document) for document in documents}
        self._vocabulary: dict[str, int] = {}

    def find(self, text: str, docs: Collection[str] | None = None, *, edited: bool = True) -> EvidenceMatch | NoMatch:
        """Return the only match of ``text`` in ``docs`` (by default all), or why there is none.

        Tried in turn: exact, normalised and, if ``edited``, fuzzy. The first with a match decides; two matches are
        ambiguous.
        """
        text = text.strip()
        pages = [page for id_, page in self.pages.items() if docs is None or id_ in docs]
        if not any(character.isalnum() for character in text):
            return NoMatch(NoMatchReason.NOT_FOUND, "the quotation has no words")
        for how, found in (
            (MatchType.EXACT, self._exact(text, pages)),
            (MatchType.NORMALISED, self._folded(text, pages)),
        ):
            places = drop_overlaps([EvidenceMatch(span, how) for span in found])
            if len(places) == 1:
                return places[0]
            if places:
                reason = f"the quotation occurs {len(places)} times"
                return NoMatch(NoMatchReason.AMBIGUOUS, reason, places[:MAX_LISTED_MATCHES])
        if not edited:
            return NoMatch(NoMatchReason.NOT_FOUND, "the quotation was not found")
        return self._fuzzy(text, pages)

    def _exact(self, text: str, pages: Sequence[FoldedDocument]) -> list[Span]:
        return [
            Span(page.document.id, start, start + len(text))
            for page in pages
            for start in find_occurrences(text, page.document.text)
            if _whole_words(page.document.text, start, start + len(text))
        ]

    def _folded(self, text: str, pages: Sequence[FoldedDocument]) -> list[Span]:
        wanted = fold(text).text
        found = [(Span(page.document.id, *place), page) for page in pages for place in page.folded.find(wanted)]
        return [with_punctuation(span, text, page) for span, page in found]

    def _fuzzy(self, text: str, pages: Sequence[FoldedDocument]) -> EvidenceMatch | NoMatch:
        wanted = [word for word, _, _ in fold(text).words()]
        if len(wanted) < MIN_FUZZY_WORDS:
            return NoMatch(NoMatchReason.NOT_FOUND, "the quotation was not found")
        places = sorted(
            (place for page in self._likely(wanted, pages) for place in self.aligned(wanted, page)),
            key=lambda place: (-place.score, place.span.doc, place.span.start),
        )
        if not places or places[0].score < MIN_FUZZY_SCORE:
            return NoMatch(
                NoMatchReason.NOT_FOUND, "neither the quotation nor a similar text was found", tuple(places[:1])
            )
        close = [place for place in places if place.score > places[0].score - MIN_SCORE_MARGIN]
        if len(close) > 1:
            return NoMatch(
                NoMatchReason.AMBIGUOUS,
                f"{len(close)} places are similar to the quotation",
                tuple(close[:MAX_LISTED_MATCHES]),
            )
        page = self.pages[places[0].span.doc]
        return replace(places[0], span=with_punctuation(places[0].span, text, page))

    def _likely(self, wanted: Sequence[str], pages: Sequence[FoldedDocument]) -> list[FoldedDocument]:
        """Return the pages with most of the words that are rare among all pages."""
        if len(pages) <= MAX_ALIGNED_DOCUMENTS:
            return list(pages)
        held = [(page.vocabulary & set(wanted), page) for page in pages]
        common = Counter(word for words, _ in held for word in words)
        weights = [sum(1 / common[word] for word in sorted(words)) for words, _ in held]
        order = sorted(range(len(held)), key=lambda at: (-weights[at], held[at][1].document.id))
        return [held[at][1] for at in order[:MAX_ALIGNED_DOCUMENTS]]

    def aligned(self, wanted: Sequence[str], page: FoldedDocument) -> list[EvidenceMatch]:
        """Return the best match in a page and the best one that does not overlap it, if any."""
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
    """Whether the span begins and ends at word boundaries: ``1987`` is not in ``19875``."""
    return not any(
        at and text[at - 1 : at].isalnum() and text[at : at + 1].isalnum() and not is_unspaced(text[at])
        for at in (start, end)
        if at < len(text)
    )


def with_punctuation(span: Span, text: str, page: FoldedDocument) -> Span:
    """Extend ``span`` by the punctuation that ``text`` has around its words, where the page has it, too."""
    words = fold(text).words()
    now = page.document.text
    before, behind = text[: words[0][1]], text[words[-1][2] :]
    start, end = span.start, span.end
    if before and now[max(0, start - len(before)) : start] == before:
        start -= len(before)
    if behind and now[end : end + len(behind)] == behind:
        end += len(behind)
    return Span(span.doc, start, end)


# --- approximate search by word edits (Sellers 1980) -----------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Alignment:
    """The words ``[start, end)`` of a text, which are ``edits`` changed, added or deleted words from a quotation."""

    start: int
    end: int
    edits: int


def align(wanted: Words, text: Words) -> Alignment | None:
    """Return the part of ``text`` with the fewest edits to ``wanted``; None if no word matches.

    Ties go to the first that ends, and begins, with the same word. Takes ``len(wanted)`` operations on arrays of the
    length of ``text``.
    """
    if not len(wanted) or not len(text):
        return None
    costs = _edit_costs(wanted, text, np.zeros(len(text) + 1, dtype=np.int64))
    end = _first(costs, wanted, text)
    if end == 0:
        return None
    # searched backwards from the end, the start is where the number of edits is least
    before = text[max(0, end - 2 * len(wanted)) : end][::-1]
    back = _edit_costs(wanted[::-1], before, np.arange(len(before) + 1, dtype=np.int64))
    return Alignment(end - _first(back, wanted[::-1], before), end, int(costs[end]))


def _first(costs: NDArray[np.int64], wanted: Words, text: Words) -> int:
    """Return the first of the cheapest ends, preferably one with the last word of ``wanted``.

    Otherwise the last word was changed rather than deleted: the word in its place is included.
    """
    cheapest = np.flatnonzero(costs == costs.min())
    alike = cheapest[(cheapest > 0) & (text[cheapest - 1] == wanted[-1])]
    if len(alike):
        return int(alike[0])
    gaps = np.flatnonzero(np.diff(cheapest) > 1)
    return int(cheapest[gaps[0] if len(gaps) else -1])


def _edit_costs(wanted: Words, text: Words, row: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the edits of the best part that ends at each position, shape ``(len(text) + 1,)``.

    ``row`` are the costs of starting at each position: zeros to start anywhere, 0, 1, ... to start at the beginning.
    """
    steps = np.arange(len(text) + 1, dtype=np.int64)
    for word in wanted:
        changed = row + 1  # deleted
        np.minimum(changed[1:], row[:-1] + (text != word), out=changed[1:])  # equal or changed
        row = np.minimum.accumulate(changed - steps) + steps  # added
    return row


def word_numbers(words: Sequence[str], vocabulary: dict[str, int]) -> Words:
    """Return the ids of ``words``; new ones are added to ``vocabulary``."""
    return np.fromiter((vocabulary.setdefault(word, len(vocabulary)) for word in words), np.int64, len(words))
