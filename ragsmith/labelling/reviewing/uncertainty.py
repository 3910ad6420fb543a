"""Uncertainty of a draft, from 0 to 1, with reasons; the least certain drafts are reviewed first.

The uncertainty is the mean of up to four components, each from 0 to 1; components that do not apply are left out:

- answer: the share of the answer's words that are not in its quotes;
- question: the share of the question's words that are neither in its quotes nor in the title of their document;
- rank: 1 - 1/r, where r is the BM25 rank of the first passage with a quote for the question; 1 if there is none;
- length: 1 for a question of fewer than 4 or more than 40 words, else 0.

An unanswerable question has two components, length and overlap: the share of its words that are in the first passage of
the BM25 ranking, which may answer it. Words are compared as in BM25. Drafts with equal uncertainty are sorted by
identifier.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ragsmith.datasets.relevance import count_overlap
from ragsmith.grouping import group_values
from ragsmith.text.bm25 import BM25
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import tokeniser_for, words
from ragsmith.types import Chunk, Span

MIN_WORDS, MAX_WORDS = 4, 40
"""Minimum and maximum number of words of a question of usual length."""

MIN_REPORTED = 0.5
"""Minimum value of a component that is reported as a reason."""


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """Uncertainty of a draft, from 0 to 1, with reasons as phrases."""

    value: float
    why: tuple[str, ...]


class UncertaintyModel:
    """Estimator of the uncertainty of drafts from the passages of their documents."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks
        languages = [chunk.language for chunk in chunks]
        self._terms = tokeniser_for(languages)
        self._index = BM25([chunk.text for chunk in chunks], languages=languages)
        self._places = group_values((chunk.doc, place) for place, chunk in enumerate(chunks))

    def of_answerable(self, question: str, answer: str, quotes: Sequence[str], spans: Sequence[Span]) -> Uncertainty:
        """Return the uncertainty of a question with evidence: ``quotes`` at ``spans``."""
        evidence_chunks = [self.chunks[self._places[span.doc][0]] for span in spans if span.doc in self._places]
        first = next(iter(evidence_chunks), None)
        titles = [chunk.title for chunk in evidence_chunks]
        quoted = self._all(quotes)
        parts: list[tuple[float, str]] = []
        if answer_terms := self._terms(answer):
            lacking = _share_missing(answer_terms, quoted)
            parts.append((lacking, f"{lacking:.0%} of the answer's words are not in the quote"))
        if question_terms := self._terms(question):
            lacking = _share_missing(question_terms, quoted | self._all(titles))
            parts.append((lacking, f"{lacking:.0%} of the question's words are not in the quote"))
        if spans:
            rank = self._rank(question, spans)
            why = f"word search finds its passage at rank {rank}" if rank else "word search does not find its passage"
            parts.append((1 - 1 / rank if rank else 1.0, why))
        return _combine([*parts, _length_component(question, first.language if first else ENGLISH)])

    def of_unanswerable(self, question: str) -> Uncertainty:
        """Return the uncertainty of a question that is labelled as unanswerable."""
        nearest = self.nearest(question)
        if nearest is None:
            return _combine(
                [(0.0, ""), _length_component(question, self.chunks[0].language if self.chunks else ENGLISH)]
            )
        overlap = 1 - _share_missing(self._terms(question), frozenset(self._terms(nearest.text)))
        why = f"one passage has {overlap:.0%} of its words, and may answer it"
        return _combine([(overlap, why), _length_component(question, nearest.language)])

    def nearest(self, question: str) -> Chunk | None:
        """Return the first passage of the BM25 ranking, or None."""
        best, _ = self._index.best(question, 1)
        return self.chunks[int(best[0])] if len(best) else None

    def _rank(self, question: str, spans: Sequence[Span]) -> int:
        """Return the rank, from 1, of the first passage that overlaps one of ``spans``; 0 if there is none."""
        scores = np.round(self._index.scores(question), 6)
        near = (place for doc in dict.fromkeys(span.doc for span in spans) for place in self._places.get(doc, ()))
        wanted = [place for place in near if any(count_overlap(self.chunks[place].span, span) for span in spans)]
        best = max((scores[place] for place in wanted), default=0.0)
        return int((scores > best).sum()) + 1 if best > 0 else 0

    def _all(self, texts: Iterable[str]) -> frozenset[str]:
        return frozenset(term for text in dict.fromkeys(texts) for term in self._terms(text))


def _length_component(question: str, language: str) -> tuple[float, str]:
    count = len(words(question, language))
    return float(not MIN_WORDS <= count <= MAX_WORDS), f"the question has {count} word{'' if count == 1 else 's'}"


def _share_missing(terms: Collection[str], others: frozenset[str]) -> float:
    distinct = set(terms)
    return len(distinct - others) / len(distinct)


def _combine(parts: Sequence[tuple[float, str]]) -> Uncertainty:
    value = sum(part for part, _ in parts) / len(parts)
    return Uncertainty(
        value, tuple(why for part, why in sorted(parts, key=lambda part: -part[0]) if part >= MIN_REPORTED)
    )
