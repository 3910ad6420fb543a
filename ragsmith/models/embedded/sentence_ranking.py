"""How well texts fit a query, and a choice of them that repeats itself little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.models.protocols import Embedder
from ragsmith.text.words import terms

_REMEMBERED_TEXTS = 1 << 14  # about 3 KB each
_REMEMBERED_GROUPS = 1 << 8  # 80 KB for 40 texts in 256 dimensions
_REMEMBERED_QUERIES = 1 << 10  # some hundred numbers each

Floats = NDArray[np.float64]
Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    """What is known of a text."""

    terms: frozenset[str]
    vector: Floats


class SentenceRanking:
    """Compares texts by the terms they share, weighted by ``lexicon``, and by their vectors from ``embedder``."""

    def __init__(self, lexicon: Lexicon, embedder: Embedder) -> None:
        self._lexicon = lexicon
        self._embedder = embedder
        self._read = lru_cache(maxsize=_REMEMBERED_TEXTS)(self._read_text)
        self._weights = lru_cache(maxsize=_REMEMBERED_TEXTS)(self._weigh_terms)
        self._vectors = lru_cache(maxsize=_REMEMBERED_GROUPS)(self._read_vectors)
        self._relevances = lru_cache(maxsize=_REMEMBERED_QUERIES)(_nothing_known)

    def relevance(self, query: str, texts: Sequence[str]) -> Floats:
        """Return for each text, in [0, 1], half the share of the query's idf that it covers plus half its cosine."""
        known = self._relevances(query)  # candidates of one question put the same sentences together again and again
        for text in texts:
            if text not in known:
                known[text] = self._relevance(query, text)
        return np.array([known[text] for text in texts], dtype=np.float64)

    def similarity(self, a: str, b: str) -> float:
        """Return the cosine of two texts, 0 where it is negative."""
        cosine = self._read(a).vector.dot(self._read(b).vector)
        return min(1.0, max(0.0, round(float(cosine), 6)))

    def select(self, query: str, texts: Sequence[str], n: int, diversity: float) -> tuple[int, ...]:
        """Return the positions of ``n`` texts, as chosen, by the criterion of Carbonell and Goldstein 1998."""
        if not 0 <= diversity <= 1:
            raise ValueError(f"diversity is {diversity}: give a number from 0 (relevance alone) to 1")
        if not texts or n < 1:
            return ()
        vectors = self._vectors(tuple(texts))
        gains = (1 - diversity) * self.relevance(query, texts)
        nearest = np.zeros(len(texts))
        chosen: list[int] = []
        for _ in range(min(n, len(texts))):
            # argmax over the rest of  lambda Sim1(d, q) - (1 - lambda) max over the chosen of Sim2(d, c)
            pick = int(np.round(gains - diversity * nearest, 6).argmax())
            chosen.append(pick)
            gains[pick] = -np.inf
            np.maximum(nearest, vectors @ vectors[pick], out=nearest)  # starts at 0, which clips the cosines
        return tuple(chosen)

    def _relevance(self, query: str, text: str) -> float:
        read = self._read(text)
        covered = sum([weight for term, weight in self._weights(query) if term in read.terms])
        cosine = float(read.vector.dot(self._read(query).vector))
        return min(1.0, max(0.0, round((covered + min(1.0, max(0.0, cosine))) / 2, 6)))

    def _read_text(self, text: str) -> _Read:
        return _Read(frozenset(terms(text)), self._embedder.embed([text])[0].astype(np.float64))

    def _weigh_terms(self, query: str) -> tuple[tuple[str, float], ...]:
        """The distinct terms of ``query`` and the share that each has in their total idf."""
        weights = {term: self._lexicon.idf(term) for term in terms(query)}
        total = sum(weights.values())
        return tuple((term, weight / total) for term, weight in weights.items())

    def _read_vectors(self, texts: Texts) -> Floats:
        return np.array([self._read(text).vector for text in texts])


def _nothing_known(query: str) -> dict[str, float]:
    return {}
