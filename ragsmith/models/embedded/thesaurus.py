"""Related words of a corpus by word vectors (as Kuzi et al. 2016 expand queries)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache
from ragsmith.models.embedded.fixed_point import round_to_grid
from ragsmith.models.embedded.lexicon import Lexicon, is_wordlike
from ragsmith.models.protocols import Embedder, Vectors

RELATED = 0.35
"""Least cosine of related words; with static vectors, unrelated words of a corpus have about 0 to 0.3."""

RELATED_TO_NEW = 0.6
"""Least cosine for a word outside the corpus, whose vector may be composed of meaningless pieces."""

_REMEMBERED = 1 << 12


class Thesaurus:
    """The words of ``lexicon``, one for each term, and their vectors by ``embedder``, computed on first use."""

    def __init__(self, lexicon: Lexicon, embedder: Embedder) -> None:
        self._lexicon = lexicon
        self._embedder = embedder
        self._neighbours = bounded_cache(_REMEMBERED, key="a word")(self._nearest)

    def related(self, word: str, n: int) -> tuple[str, ...]:
        """Return up to ``n`` words related to ``word``, nearest first, none of the same stem; () for a stop word."""
        return self._neighbours(word)[: max(n, 0)]

    def _nearest(self, word: str) -> tuple[str, ...]:
        own = set(self._lexicon.terms(word))
        _, spellings, vectors = self._entries
        if not own or not spellings:
            return ()
        floor = RELATED if all(term in self._lexicon.counts for term in own) else RELATED_TO_NEW
        vector = round_to_grid(self._embedder.embed([self._as_spelled(word)]))[0]
        # einsum rather than @, because the threads of a BLAS cost milliseconds if other processes use the cores
        cosines: NDArray[np.float32] = np.einsum("ij,j->i", vectors, vector)
        near = np.flatnonzero(cosines >= floor)
        order = near[np.argsort(-cosines[near], kind="stable")]
        stems = self._entries[0]
        return tuple(spellings[i] for i in order.tolist() if stems[i] not in own)

    def _as_spelled(self, word: str) -> str:
        """Return ``word`` with its capitals in the corpus, without which names have poor vectors."""
        return self._spelling.get(word.lower(), word)

    @cached_property
    def _spelling(self) -> dict[str, str]:
        return {spelling.lower(): spelling for spelling in self._entries[1]}

    @cached_property
    def _entries(self) -> tuple[tuple[str, ...], tuple[str, ...], Vectors]:
        """Terms in alphabetical order, their spellings, and the vectors of the spellings."""
        pairs = sorted((term, form) for term, form in self._lexicon.surfaces.items() if is_wordlike(form))
        spellings = tuple(form for _, form in pairs)
        return tuple(term for term, _ in pairs), spellings, round_to_grid(self._embedder.embed(spellings))
