"""How uncertain a draft is, from 0 to 1, and why: what is least certain is looked at first.

It is the mean of up to four doubts, each from 0 to 1; what a draft does not have is left out of the mean:

- answer: the share of the answer's words that its quotes do not have;
- question: the share of the question's words that neither its quotes nor the title of their document have;
- rank: 1 - 1/r, where BM25 finds the first passage with a quote at rank r for the question; 1 where it finds none;
- length: 1 for a question of fewer than 4 or more than 40 words, else 0.

Of a question that the documents are said not to answer there is one doubt beside its length: the share of its words
that the passage has which BM25 finds first, as that one may answer it after all. Words are compared as BM25 compares
them. Equal doubts are ordered by identifier.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ragsmith.text.bm25 import BM25
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import terms_among, words
from ragsmith.types import Chunk, Span

SHORTEST, LONGEST = 4, 40
"""Words of a question of ordinary length."""

SAID = 0.5
"""Doubts from here on are said."""


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """How uncertain a draft is, from 0 to 1, and what speaks against it, one phrase each."""

    value: float
    why: tuple[str, ...]


class UncertaintyModel:
    """Doubts drafts, by the passages of the documents they were made of."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self.chunks = chunks
        languages = [chunk.language for chunk in chunks]
        self._terms = terms_among(languages)
        self._index = BM25([chunk.text for chunk in chunks], languages=languages)
        self._places: dict[str, list[int]] = {}
        for place, chunk in enumerate(chunks):
            self._places.setdefault(chunk.doc, []).append(place)

    def of_answerable(self, question: str, answer: str, quotes: Sequence[str], spans: Sequence[Span]) -> Uncertainty:
        """The doubt about a question with evidence: ``quotes``, which stand at ``spans``."""
        there = [self.chunks[self._places[span.doc][0]] for span in spans if span.doc in self._places]
        first = next(iter(there), None)
        titles = [chunk.title for chunk in there]
        quoted = self._all(quotes)
        parts: list[tuple[float, str]] = []
        if given := self._terms(answer):
            lacking = _lacking(given, quoted)
            parts.append((lacking, f"{lacking:.0%} of the answer's words are not in the quote"))
        if asked := self._terms(question):
            lacking = _lacking(asked, quoted | self._all(titles))
            parts.append((lacking, f"{lacking:.0%} of the question's words are not in the quote"))
        if spans:
            rank = self._rank(question, spans)
            said = f"word search finds its passage at rank {rank}" if rank else "word search does not find its passage"
            parts.append((1 - 1 / rank if rank else 1.0, said))
        return _mean([*parts, _length(question, first.language if first else ENGLISH)])

    def of_unanswerable(self, question: str) -> Uncertainty:
        """The doubt about a question that the documents are said not to answer."""
        nearest = self.nearest(question)
        if nearest is None:
            return _mean([(0.0, ""), _length(question, self.chunks[0].language if self.chunks else ENGLISH)])
        had = 1 - _lacking(self._terms(question), frozenset(self._terms(nearest.text)))
        said = f"one passage has {had:.0%} of its words, and may answer it"
        return _mean([(had, said), _length(question, nearest.language)])

    def nearest(self, question: str) -> Chunk | None:
        """The passage that BM25 finds first."""
        best, _ = self._index.best(question, 1)
        return self.chunks[int(best[0])] if len(best) else None

    def _rank(self, question: str, spans: Sequence[Span]) -> int:
        """The rank, from 1, of the first passage that overlaps one of ``spans``; 0 where none is found."""
        scores = np.round(self._index.scores(question), 6)
        near = (place for doc in dict.fromkeys(span.doc for span in spans) for place in self._places.get(doc, ()))
        wanted = [place for place in near if any(_overlap(self.chunks[place], span) for span in spans)]
        best = max((scores[place] for place in wanted), default=0.0)
        return int((scores > best).sum()) + 1 if best > 0 else 0

    def _all(self, texts: Iterable[str]) -> frozenset[str]:
        return frozenset(term for text in dict.fromkeys(texts) for term in self._terms(text))


def _length(question: str, language: str) -> tuple[float, str]:
    count = len(words(question, language))
    return float(not SHORTEST <= count <= LONGEST), f"the question has {count} word{'' if count == 1 else 's'}"


def _lacking(wanted: Collection[str], there: frozenset[str]) -> float:
    distinct = set(wanted)
    return len(distinct - there) / len(distinct)


def _overlap(chunk: Chunk, span: Span) -> bool:
    return chunk.doc == span.doc and chunk.start < span.end and span.start < chunk.end


def _mean(parts: Sequence[tuple[float, str]]) -> Uncertainty:
    value = sum(part for part, _ in parts) / len(parts)
    return Uncertainty(value, tuple(why for part, why in sorted(parts, key=lambda part: -part[0]) if part >= SAID))
