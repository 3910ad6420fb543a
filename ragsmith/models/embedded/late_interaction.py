"""Late interaction with static token vectors: MaxSim (Khattab and Zaharia 2020), weighted by the query tokens' idf."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import bounded_cache
from ragsmith.digest import digest, fingerprint
from ragsmith.errors import ModelUnavailable
from ragsmith.models.protocols import Vectors
from ragsmith.models.registry import provider
from ragsmith.models.unit_vectors import round_to_grid
from ragsmith.text.words import STOP_WORDS

Ids = NDArray[np.intp]

_SPECIAL = frozenset({"<unk>", "<s>", "</s>"})
_SPACE = "▁"
_CACHED_TEXTS = 1 << 14  # below 1 KB each


class TokenEmbedder(Protocol):
    """An embedder with one static vector for each token of its vocabulary."""

    @property
    def id(self) -> str:
        """Model and revision."""

    def tokens(self, text: str) -> list[int]:
        """Return the token ids of ``text``, in order."""

    def vocabulary(self) -> tuple[str, ...]:
        """Return the form of every token by id; ``▁`` is the space in front of a word."""

    def vocabulary_vectors(self) -> Vectors:
        """Return the vectors of all tokens by id: rows of length 1."""


@provider("cross_encoder", "late_interaction")
class LateInteractionScorer:
    """Scores a text by the idf-weighted mean, over the query's tokens, of the best cosine with a token of the text.

    ``texts`` is the corpus of the document frequencies. Scores are in [-1, 1], in practice in [0, 1], to six decimals,
    and depend only on query, text and corpus. Punctuation is ignored, as are the query's stop words unless it has no
    other words. Weights are loaded on first use. Thread-safe.
    """

    def __init__(self, word_vectors: TokenEmbedder, texts: Sequence[str]) -> None:
        self._embedder = word_vectors
        self._texts = tuple(texts)
        self._distinct = bounded_cache(_CACHED_TEXTS, key="a text")(self._distinct_tokens)

    @cached_property
    def id(self) -> str:
        """Method, its code, the embedder and the corpus."""
        return (
            f"late-interaction:{fingerprint(__name__, type(self).__name__)}:{self._embedder.id}:{digest(*self._texts)}"
        )

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Score each of ``texts``; 0 if the query or the text has no words."""
        queried = self._query_tokens(query)
        scores = np.zeros(len(texts))
        filled = [(row, ids) for row, text in enumerate(texts) if len(ids := self._distinct(text))]
        if len(queried) and filled:
            rows = [row for row, _ in filled]
            starts = np.cumsum([0, *(len(ids) for _, ids in filled[:-1])])
            tokens = np.concatenate([ids for _, ids in filled])
            # Khattab & Zaharia 2020, eq. 3, for all texts at once: max over the text's tokens of cos(q_i, t_j) ...
            best = np.maximum.reduceat(self._cosines(queried, tokens), starts, axis=1)
            weights = self._idf[queried]
            scores[rows] = weights @ best / weights.sum()  # ... and the sum over q_i, here an idf-weighted mean
        return tuple(np.round(scores, 6).tolist())

    def _cosines(self, queried: Ids, tokens: Ids) -> NDArray[np.float32]:
        """Return the cosines of tokens, an exact product scaled by both lengths: shape ``(queried, tokens)``."""
        # einsum rather than @, because the threads of a BLAS cost milliseconds if other processes use the cores
        cosines: NDArray[np.float32] = np.einsum("ik,jk->ij", self._vectors[queried], self._vectors[tokens])
        cosines *= self._reciprocal_lengths[queried][:, np.newaxis]
        cosines *= self._reciprocal_lengths[tokens]
        return cosines

    def _query_tokens(self, query: str) -> Ids:
        words, function_words = self._kinds
        ids = np.array(self._embedder.tokens(query), dtype=np.intp)
        ids = ids[words[ids]]
        content = ids[~function_words[ids]]
        return content if len(content) else ids

    def _distinct_tokens(self, text: str) -> Ids:
        """Return the distinct word tokens of ``text`` in ascending order."""
        ids = np.array(sorted(set(self._embedder.tokens(text))), dtype=np.intp)
        return ids[self._kinds[0][ids]]

    @cached_property
    def _kinds(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Two masks over token ids: (parts of) words and numbers, and stop words."""
        forms = self._embedder.vocabulary()
        words = [form not in _SPECIAL and any(map(str.isalnum, form)) for form in forms]
        stops = [form.removeprefix(_SPACE).lower() in STOP_WORDS and form.startswith(_SPACE) for form in forms]
        return np.array(words), np.array(stops)

    @cached_property
    def _vectors(self) -> Vectors:
        return round_to_grid(self._embedder.vocabulary_vectors())

    @cached_property
    def _reciprocal_lengths(self) -> NDArray[np.float32]:
        lengths = np.sqrt(np.einsum("ij,ij->i", self._vectors, self._vectors))
        scales: NDArray[np.float32] = np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0)
        return scales

    @cached_property
    def _idf(self) -> NDArray[np.float64]:
        """Inverse document frequency by token id (Robertson and Zaragoza 2009), positive by Lucene's +1."""
        frequency = np.zeros(len(self._kinds[0]))
        for text in self._texts:
            frequency[self._distinct(text)] += 1
        return np.log1p((len(self._texts) - frequency + 0.5) / (frequency + 0.5))

    def __reduce__(self) -> tuple[type[LateInteractionScorer], tuple[TokenEmbedder, tuple[str, ...]]]:
        return LateInteractionScorer, (self._embedder, self._texts)


@provider("cross_encoder", "none")
class NoReranker:
    """A placeholder that is never called: see `ragsmith.exported.requirements`."""

    id = "none"

    def score(self, query: str, texts: Sequence[str]) -> tuple[float, ...]:
        """Raise `ModelUnavailable`."""
        raise ModelUnavailable("this run has no reranker: name one with --reranker")
