"""How well texts fit a query, and a choice of them that repeats itself little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ragsmith.models import Embedder
from ragsmith.models.lexicon import Lexicon
from ragsmith.text import terms

_REMEMBERED_TEXTS = 1 << 14  # about 3 KB each
_REMEMBERED_GROUPS = 1 << 8  # 80 KB for 40 texts in 256 dimensions

Floats = NDArray[np.float64]
Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Read:
    """What is known of a text."""

    terms: frozenset[str]
    vector: Floats


@dataclass(frozen=True, slots=True)
class _Group:
    """Texts that are ranked together: float64 products differ far below the six decimals that are kept."""

    terms: tuple[frozenset[str], ...]
    vectors: Floats


class SentenceRanking:
    """Compares texts by the terms they share, weighted by ``lexicon``, and by their vectors from ``embedder``."""

    def __init__(self, lexicon: Lexicon, embedder: Embedder) -> None:
        self._lexicon = lexicon
        self._embedder = embedder
        self._read = lru_cache(maxsize=_REMEMBERED_TEXTS)(self._read_text)
        self._weights = lru_cache(maxsize=_REMEMBERED_TEXTS)(self._weigh_terms)
        self._group = lru_cache(maxsize=_REMEMBERED_GROUPS)(self._read_group)

    def relevance(self, query: str, texts: Sequence[str]) -> Floats:
        """Return for each text, in [0, 1], half the share of the query's idf that it covers plus half its cosine."""
        if not texts:
            return np.zeros(0)
        group = self._group(tuple(texts))
        weights = self._weights(query)
        covered = [sum([weight for term, weight in weights if term in held]) for held in group.terms]
        cosines = group.vectors @ self._read(query).vector
        return np.clip(np.round((np.array(covered) + np.clip(cosines, 0.0, 1.0)) / 2, 6), 0.0, 1.0)

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
        vectors = self._group(tuple(texts)).vectors
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

    def _read_text(self, text: str) -> _Read:
        return _Read(frozenset(terms(text)), self._embedder.embed([text])[0].astype(np.float64))

    def _weigh_terms(self, query: str) -> tuple[tuple[str, float], ...]:
        """The distinct terms of ``query`` and the share that each has in their total idf."""
        weights = {term: self._lexicon.idf(term) for term in terms(query)}
        total = sum(weights.values())
        return tuple((term, weight / total) for term, weight in weights.items())

    def _read_group(self, texts: Texts) -> _Group:
        read = [self._read(text) for text in texts]
        return _Group(tuple(one.terms for one in read), np.array([one.vector for one in read]))
