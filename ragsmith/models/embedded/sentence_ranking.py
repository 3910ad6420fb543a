"""Relevance of texts to a query, and diverse selection of texts."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache, register_cache
from ragsmith.digest import decides_no_value
from ragsmith.models.embedded.lexicon import Lexicon
from ragsmith.models.protocols import Embedder

_REMEMBERED_TEXTS = 1 << 14  # about 3 KB each
_REMEMBERED_GROUPS = 1 << 8  # 80 KB for 40 texts in 256 dimensions
_REMEMBERED_QUERIES = 1 << 10  # some hundred numbers each

Floats = NDArray[np.float64]
Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Features:
    """The terms and the vector of a text."""

    terms: frozenset[str]
    vector: Floats


class SentenceRanking:
    """Compares texts by shared terms, weighted by ``lexicon``, and by vectors of ``embedder``."""

    def __init__(self, lexicon: Lexicon, embedder: Embedder) -> None:
        self._lexicon = lexicon
        self._embedder = embedder
        self._known: dict[str, _Features] = {}
        self._lock = threading.Lock()
        self._weights = bounded_cache(_REMEMBERED_TEXTS, key="a query")(self._weigh_terms)
        self._vectors = bounded_cache(_REMEMBERED_GROUPS, key="the texts of a group")(self._read_vectors)
        self._relevances = bounded_cache(_REMEMBERED_QUERIES, key="a query")(_nothing_known)
        register_cache(self.forget, key="a text", entries=_REMEMBERED_TEXTS)

    @decides_no_value
    def forget(self) -> None:
        """Empty the cache of texts."""
        with self._lock:
            self._known.clear()

    def relevance(self, query: str, texts: Sequence[str]) -> Floats:
        """Return for each text, in [0, 1], half the share of the query's idf that it covers plus half its cosine.

        A negative cosine counts as 0. Exact and soft matching complement each other (Mitra, Diaz and Craswell 2017).
        """
        known = self._relevances(query)  # the candidates of a question share most sentences
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known.update(zip(new, self._relevance(query, new), strict=True))
        return np.array([known[text] for text in texts], dtype=np.float64)

    def similarity(self, a: str, b: str) -> float:
        """Return the cosine of two texts, 0 where it is negative."""
        cosine = self._read(a).vector.dot(self._read(b).vector)
        return min(1.0, max(0.0, round(float(cosine), 6)))

    def select(self, query: str, texts: Sequence[str], n: int, diversity: float = 0.3) -> tuple[int, ...]:
        """Return the positions of ``n`` texts, as chosen, or of fewer when there are fewer; equals go to the first.

        Maximal marginal relevance (Carbonell and Goldstein 1998) with lambda = 1 - ``diversity``.
        """
        if not 0 <= diversity <= 1:
            raise ValueError(f"diversity is {diversity}: give a number from 0 (relevance alone) to 1")
        if not texts or n < 1:
            return ()
        vectors = self._vectors(tuple(texts))
        gains = (1 - diversity) * self.relevance(query, texts)
        nearest, worth = np.zeros(len(texts)), np.empty(len(texts))
        chosen: list[int] = []
        for _ in range(min(n, len(texts))):
            if chosen:
                np.maximum(nearest, vectors @ vectors[chosen[-1]], out=nearest)  # starts at 0, which clips the cosines
            # argmax over the rest of  lambda Sim1(d, q) - (1 - lambda) max over the chosen of Sim2(d, c)
            np.subtract(gains, np.multiply(nearest, diversity, out=worth), out=worth)
            pick = int(worth.round(6, out=worth).argmax())
            chosen.append(pick)
            gains[pick] = -np.inf
        return tuple(chosen)

    def _relevance(self, query: str, texts: Sequence[str]) -> list[float]:
        weights, query_vector = self._weights(query), self._read(query).vector
        found = []
        for text in self._read_all(texts):
            covered = sum([weight for term, weight in weights if term in text.terms])
            cosine = float(text.vector.dot(query_vector))
            found.append(min(1.0, max(0.0, round((covered + min(1.0, max(0.0, cosine))) / 2, 6))))
        return found

    def _weigh_terms(self, query: str) -> tuple[tuple[str, float], ...]:
        """Return the distinct terms of ``query`` and their shares of the total idf."""
        weights = {term: self._lexicon.idf(term) for term in self._lexicon.terms(query)}
        total = sum(weights.values())
        return tuple((term, weight / total) for term, weight in weights.items())

    def _read_vectors(self, texts: Texts) -> Floats:
        return np.array([features.vector for features in self._read_all(texts)])

    def _read(self, text: str) -> _Features:
        return self._read_all((text,))[0]

    def _read_all(self, texts: Sequence[str]) -> list[_Features]:
        """Return the features of ``texts``; new texts are embedded together."""
        known = self._known
        with suppress(KeyError):
            return [known[text] for text in texts]
        found = {text: known.get(text) for text in texts}
        new = [text for text, features in found.items() if features is None]
        vectors = self._embedder.embed(new).astype(np.float64)
        added = {
            text: _Features(frozenset(self._lexicon.terms(text)), vector)
            for text, vector in zip(new, vectors, strict=True)
        }
        with self._lock:
            known.update(added)
            while len(known) > _REMEMBERED_TEXTS:
                del known[next(iter(known))]
        return [found[text] or added[text] for text in texts]


def _nothing_known(query: str) -> dict[str, float]:
    return {}
