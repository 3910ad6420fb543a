"""Pseudo-relevance feedback: expansion terms from the best texts for a query (Lavrenko and Croft 2001)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property

from ragsmith.caches import bounded_cache
from ragsmith.models.embedded.lexicon import Lexicon, is_wordlike
from ragsmith.text.bm25 import BM25

_REMEMBERED = 1 << 12

Ranking = tuple[tuple[int, float], ...]
"""Positions of texts and their scores, best first."""


class RelevanceFeedback:
    """Searches ``texts`` with BM25 and selects expansion terms from the results."""

    def __init__(self, texts: Sequence[str], lexicon: Lexicon, languages: Sequence[str] = ()) -> None:
        self._texts = tuple(texts)
        self._languages = tuple(languages)
        self._lexicon = lexicon
        self._models = bounded_cache(_REMEMBERED, key="a chunk")(self._unigram_model)
        self.best = bounded_cache(_REMEMBERED, key="a query")(self._best)
        self.expansion_terms = bounded_cache(_REMEMBERED, key="a query")(self._expansion_terms)

    @cached_property
    def _bm25(self) -> BM25:
        return BM25(self._texts, languages=self._languages)

    def _best(self, query: str, n: int) -> Ranking:
        """Return the ``n`` best texts that share a term with ``query``; ties are broken by position."""
        if n < 1 or not self._texts:
            return ()
        positions, scores = self._bm25.best(query, n)
        return tuple(zip(positions.tolist(), scores.tolist(), strict=True))

    def _expansion_terms(self, query: str, n: int, documents: int = 3) -> tuple[str, ...]:
        """Return the words that distinguish the ``documents`` best texts from the corpus, best first.

        The relevance model of Lavrenko and Croft 2001, with texts weighted by their share of the score (as
        Abdul-Jaleel et al. 2004 weight by query likelihood), without the query's terms. Words are ranked by their part
        of the divergence from the corpus (Carpineto et al. 2001), since in a small corpus the likeliest words are its
        most common ones.
        """
        own = set(self._lexicon.terms(query))
        gains = {
            term: round(p * math.log(p * self._lexicon.total / self._lexicon.counts[term]), 9)  # p ln(p / p_C)
            for term, p in self._relevance_model(self.best(query, documents)).items()
            if term not in own and is_wordlike(self._lexicon.surfaces[term])
        }
        chosen = sorted((term for term, gain in gains.items() if gain > 0), key=lambda term: -gains[term])
        return tuple(self._lexicon.surfaces[term] for term in chosen[: max(n, 0)])

    def _relevance_model(self, found: Ranking) -> Mapping[str, float]:
        """P(w|R) = sum over the texts d found of P(w|d) P(d|q)."""
        whole = sum(score for _, score in found)
        model: dict[str, float] = {}
        for position, score in found:
            for term, p in self._models(position):
                model[term] = model.get(term, 0.0) + p * score / whole
        return model

    def _unigram_model(self, position: int) -> tuple[tuple[str, float], ...]:
        """P(w|d), by maximum likelihood."""
        counts = Counter(self._lexicon.terms_at(position))
        return tuple((term, count / counts.total()) for term, count in counts.items())
