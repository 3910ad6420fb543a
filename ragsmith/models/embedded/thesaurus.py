"""Neighbours of a word among the words of a corpus, by word vectors (as Kuzi et al. 2016 expand queries)."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache
from ragsmith.models.embedded.fixed_point import round_to_grid
from ragsmith.models.embedded.lexicon import Lexicon, is_wordlike
from ragsmith.models.protocols import Embedder, Vectors

RELATED = 0.35
"""Least cosine of related words. In static vectors, unrelated words of one corpus lie around 0 to 0.3."""

RELATED_TO_NEW = 0.6
"""Least cosine for a word that the corpus lacks: its vector may be put together from pieces that mean nothing."""

_REMEMBERED = 1 << 12


class Thesaurus:
    """One word for each term of ``lexicon``, and their vectors by ``embedder``, built on first use."""

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
        # einsum, not @: as fast here, and the threads of a BLAS cost milliseconds where others use the cores too
        cosines: NDArray[np.float32] = np.einsum("ij,j->i", vectors, vector)
        near = np.flatnonzero(cosines >= floor)
        order = near[np.argsort(-cosines[near], kind="stable")]
        stems = self._entries[0]
        return tuple(spellings[i] for i in order.tolist() if stems[i] not in own)

    def _as_spelled(self, word: str) -> str:
        """``word`` with the capitals that the corpus gives it: names have poor vectors without."""
        return self._spelling.get(word.lower(), word)

    @cached_property
    def _spelling(self) -> dict[str, str]:
        return {spelling.lower(): spelling for spelling in self._entries[1]}

    @cached_property
    def _entries(self) -> tuple[tuple[str, ...], tuple[str, ...], Vectors]:
        """Terms, their spellings and the vectors of those, in alphabetical order of the terms."""
        pairs = sorted((term, form) for term, form in self._lexicon.surfaces.items() if is_wordlike(form))
        spellings = tuple(form for _, form in pairs)
        return tuple(term for term, _ in pairs), spellings, round_to_grid(self._embedder.embed(spellings))
