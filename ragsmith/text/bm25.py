"""Okapi BM25 with Lucene's idf (Robertson & Zaragoza 2009; Kamphuis et al. 2020) and precomputed scores (Lù 2024)."""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise

import numpy as np
from numpy.typing import NDArray

from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import terms, tokeniser_for

_BLOCK_ENTRIES = 1 << 20
"""Number of entries of the matrix computed at a time."""


@dataclass(frozen=True, eq=False)
class Occurrences:
    """The occurrences of a query's terms in some texts.

    ``terms`` are the distinct terms of the query, ``idf`` their inverse document frequencies, and ``pairs`` the
    distinct pairs of adjacent terms, as positions in ``terms``. Occurrence ``i`` is of term ``term[i]`` at position
    ``place[i]``, counted in terms, of the requested text ``text[i]``; occurrences ascend by text and place.
    """

    terms: tuple[str, ...]
    pairs: tuple[tuple[int, int], ...]
    idf: NDArray[np.float64]
    text: NDArray[np.int64]
    term: NDArray[np.int64]
    place: NDArray[np.int64]


class BM25:
    """An immutable index over ``texts``, which threads may share.

    The score of a text ``d`` of length ``|d|`` for a query ``q`` is, with ``N`` texts of mean length ``avg``, ``n(t)``
    of them containing the term ``t``::

        sum over t in q of  ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5)) * f(t, d) / (f(t, d) + k1 * (1 - b + b * |d| / avg))

    The idf is positive for every term, and a repeated term of the query counts as often as it occurs.
    """

    def __init__(
        self,
        texts: Sequence[str],
        *,
        k1: float = 1.2,
        b: float = 0.75,
        tokenise: Callable[[str], Sequence[str]] | None = None,
        languages: Sequence[str] = (),
    ) -> None:
        """Index ``texts``.

        ``languages`` are those of the texts if they are not all English; a query may be in any of them. ``tokenise``
        replaces the tokeniser of the language. Raises ``ValueError`` if both are given.
        """
        if languages and tokenise is not None:
            raise ValueError("both tokenise and languages determine the tokeniser; give one of them")
        self._tokenise = tokeniser_for(languages) if languages else tokenise or terms
        self._languages = tuple(sorted(set(languages)))
        self._constants = k1, b
        self._vocabulary: dict[str, int] = {}
        ids = self._vocabulary
        tokenised = map(terms, texts, languages) if set(languages) - {ENGLISH} else map(self._tokenise, texts)
        corpus = [[ids.setdefault(token, len(ids)) for token in tokens] for tokens in tokenised]
        texts_of = np.repeat(np.arange(len(corpus), dtype=np.int32), [len(tokens) for tokens in corpus])
        self._index(
            np.fromiter(chain.from_iterable(corpus), dtype=np.int32, count=len(texts_of)), texts_of, len(corpus)
        )

    def _index(self, tokens: NDArray[np.int32], texts: NDArray[np.int32], size: int) -> None:
        """Index ``size`` texts from parallel arrays of tokens and the texts that contain them; ``texts`` ascends."""
        self._tokens, self._texts, self._size = tokens, texts, size
        self._gains, self._rows, self._cuts = _compute_columns(
            tokens, texts, (size, len(self._vocabulary)), *self._constants
        )

    def __len__(self) -> int:
        return self._size

    def joined(self, groups: NDArray[np.int64]) -> "BM25":
        """Return an index over joined texts: text ``i`` is part of the text ``groups[i]``.

        Every number from 0 to the largest is used. Texts are not tokenised again.
        """
        index = copy(self)
        index.__dict__.pop("_by_gain", None)
        tokens, texts = self._tokens, groups[self._texts].astype(np.int32)
        if (texts[1:] < texts[:-1]).any():
            order = np.argsort(texts, kind="stable")
            tokens, texts = tokens[order], texts[order]
        index._index(tokens, texts, int(groups.max(initial=-1)) + 1)
        return index

    def scores(self, query: str) -> NDArray[np.float64]:
        """Return the score of every text, shape ``(n,)``; zeros for a query without known terms."""
        scores = np.zeros(self._size)
        for token in self._tokenise(query):
            column = self._vocabulary.get(token)
            if column is not None:
                postings = slice(self._cuts[column], self._cuts[column + 1])
                scores[self._rows[postings]] += self._gains[postings]  # the rows of a column are distinct
        return scores

    def occurrences(self, query: str, texts: NDArray[np.int64]) -> Occurrences:
        """Return the occurrences of the terms of ``query`` in the texts at the positions ``texts``."""
        query_tokens = self._tokenise(query)
        distinct = tuple(dict.fromkeys(query_tokens))
        columns = np.array([self._vocabulary.get(term, -1) for term in distinct], dtype=np.int64)
        frequencies = np.array([self._cuts[c + 1] - self._cuts[c] if c >= 0 else 0 for c in columns.tolist()])
        idf = np.log1p((self._size - frequencies + 0.5) / (frequencies + 0.5)) if distinct else np.zeros(0)
        texts = texts.astype(self._texts.dtype)  # otherwise searchsorted would copy the array in the wider type
        starts = np.searchsorted(self._texts, texts)
        sizes = np.searchsorted(self._texts, texts, side="right") - starts
        owner = np.repeat(np.arange(len(texts)), sizes)
        place = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        tokens = self._tokens[starts[owner] + place]
        known = np.flatnonzero(columns >= 0)
        known = known[np.argsort(columns[known])]
        if not len(known):
            tokens, known, columns = tokens[:0], np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        nearest = np.minimum(np.searchsorted(columns[known], tokens), len(known) - 1)
        found = np.flatnonzero(columns[known][nearest] == tokens)
        numbers = {term: number for number, term in enumerate(distinct)}
        adjacent = [pairwise(terms(query, language)) for language in self._languages] or [pairwise(query_tokens)]
        pairs = tuple(dict.fromkeys((numbers[one], numbers[other]) for one, other in chain.from_iterable(adjacent)))
        return Occurrences(distinct, pairs, idf, owner[found], known[nearest[found]], place[found])

    def best(self, query: str, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the positions and scores of the ``n`` best texts, to 6 decimals and above 0; ties by position.

        The results are those of ``scores``. For a query of one or two terms, only the texts with the rarer term are
        scored, so that short phrases can be searched in large numbers, however many the texts.
        """
        columns = [column for token in self._tokenise(query) if (column := self._vocabulary.get(token)) is not None]
        if len(set(columns)) > 2:
            return _select_best(np.arange(self._size), np.round(self.scores(query), 6), n)
        if not columns or n < 1:
            return np.empty(0, dtype=np.int64), np.empty(0)
        *rarer, last = sorted(set(columns), key=lambda column: (self._cuts[column + 1] - self._cuts[column], column))
        holding = np.concatenate([self._rows[:0], *(self._rows[self._slice_of(column)] for column in rarer)])
        rows, scores = _select_best(holding.astype(np.int64), self._sum_columns(columns, holding), n)
        places = self._by_gain[self._slice_of(last)]
        if columns.count(last) == 1:  # texts with this term alone are in the order of its gains
            places = places[: n + len(holding)]
            least = scores[-1] if len(scores) == n else 0.0
            if np.round(self._gains[places[0]], 6) < least:
                return rows, scores
            places = places[np.round(self._gains[places], 6) >= least]
        rows = np.union1d(rows, self._rows[places]).astype(np.int64)
        return _select_best(rows, self._sum_columns(columns, rows), n)

    def _slice_of(self, column: int) -> slice:
        """Return the slice of a column in the postings."""
        return slice(int(self._cuts[column]), int(self._cuts[column + 1]))

    def _sum_columns(self, columns: Sequence[int], rows: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the sums of columns for the texts ``rows``, in the order of ``scores``, to 6 decimals."""
        sums = np.zeros(len(rows))
        for column in columns:
            held, gains = self._rows[self._slice_of(column)], self._gains[self._slice_of(column)]
            place = np.minimum(np.searchsorted(held, rows), len(held) - 1)
            sums += np.where(held[place] == rows, gains[place], 0.0)
        return np.round(sums, 6)

    @cached_property
    def _by_gain(self) -> NDArray[np.int64]:
        """Positions of gains, column by column, in descending order; ties, to 6 decimals, by position."""
        columns = np.repeat(np.arange(len(self._cuts) - 1), np.diff(self._cuts))
        return np.lexsort((self._rows, -np.round(self._gains, 6), columns))


def _select_best(
    rows: NDArray[np.int64], scores: NDArray[np.float64], n: int
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the ``n`` best of ``rows``, which ascend, and their scores above 0; ties by position."""
    positive = scores > 0
    rows, scores = rows[positive], scores[positive]
    if 0 < n < len(rows):
        reached = scores >= np.partition(scores, -n)[-n]
        rows, scores = rows[reached], scores[reached]
    order = np.argsort(-scores, kind="stable")[: max(0, n)]
    return rows[order], scores[order]


_Columns = tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]


def _compute_columns(
    tokens: NDArray[np.int32], texts: NDArray[np.int32], shape: tuple[int, int], k1: float, b: float
) -> _Columns:
    """Return the matrix texts × terms by columns: gains, their rows, and the start of each column."""
    size, words = shape
    if not len(tokens):  # the mean length is undefined
        return np.empty(0), np.empty(0, np.int32), np.zeros(words + 1, np.int64)
    places = tokens.astype(np.int64)  # modified in place, as a copy for a million texts has hundreds of megabytes
    places *= size
    places += texts
    places.sort()
    starts = np.concatenate([[0], np.flatnonzero(places[1:] != places[:-1]) + 1])
    counts = np.diff(starts, append=len(places)).astype(np.int32)
    places = places[starts]
    del starts
    rows = (places % size).astype(np.int32)
    places //= size
    frequencies = np.bincount(places, minlength=words)
    del places
    lengths = np.bincount(texts, minlength=size)
    mean = lengths.mean()
    idf = np.array([math.log(1 + (size - n + 0.5) / (n + 0.5)) for n in frequencies.tolist()])
    gains = np.repeat(idf, frequencies)
    for first in range(0, len(gains), _BLOCK_ENTRIES):
        block = slice(first, first + _BLOCK_ENTRIES)
        gains[block] *= counts[block] / (k1 * ((1 - b) + b * lengths[rows[block]] / mean) + counts[block])
    return gains, rows, np.concatenate([[0], np.cumsum(frequencies)])
