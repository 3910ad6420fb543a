"""Okapi BM25 with Lucene's idf (Robertson and Zaragoza 2009; Kamphuis et al. 2020), scores computed ahead (Lù 2024)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from ragsmith.text.words import terms


class BM25:
    """An index over ``texts``; immutable once built, so threads may share it.

    The score of a text ``d`` of length ``|d|`` for a query ``q`` is, with ``N`` texts of mean length ``avg``, ``n(t)``
    of them containing the term ``t``::

        sum over t in q of  ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5)) * f(t, d) / (f(t, d) + k1 * (1 - b + b * |d| / avg))

    The idf is positive for every term, and a term that the query repeats counts as often.
    """

    def __init__(
        self,
        texts: Sequence[str],
        *,
        k1: float = 1.2,
        b: float = 0.75,
        tokenise: Callable[[str], Sequence[str]] = terms,
    ) -> None:
        self._tokenise = tokenise
        self._constants = k1, b
        self._vocabulary: dict[str, int] = {}
        ids = self._vocabulary
        corpus = [[ids.setdefault(token, len(ids)) for token in tokenise(text)] for text in texts]
        texts_of = np.repeat(np.arange(len(corpus), dtype=np.int32), [len(tokens) for tokens in corpus])
        self._index(
            np.fromiter(chain.from_iterable(corpus), dtype=np.int32, count=len(texts_of)), texts_of, len(corpus)
        )

    def _index(self, tokens: NDArray[np.int32], texts: NDArray[np.int32], size: int) -> None:
        """Index ``size`` texts, of which ``texts[i]`` holds ``tokens[i]``."""
        self._tokens, self._texts, self._size = tokens, texts, size
        self._gains, self._rows, self._cuts = _columns(tokens, texts, (size, len(self._vocabulary)), *self._constants)

    def __len__(self) -> int:
        return self._size

    def joined(self, groups: NDArray[np.int64]) -> BM25:
        """Return an index over these texts put together: text ``i`` is part of the text ``groups[i]``.

        Every number from 0 to the largest is somebody's. No text is split into words again.
        """
        whole = copy(self)
        whole.__dict__.pop("_by_gain", None)
        whole._index(self._tokens, groups[self._texts].astype(np.int32), int(groups.max(initial=-1)) + 1)
        return whole

    def scores(self, query: str) -> NDArray[np.float64]:
        """Return the score of every text, shape ``(n,)``; zeros for an empty query or one of unknown terms."""
        scores = np.zeros(self._size)
        for token in self._tokenise(query):
            column = self._vocabulary.get(token)
            if column is not None:
                held = slice(self._cuts[column], self._cuts[column + 1])
                scores[self._rows[held]] += self._gains[held]  # the rows of a column are distinct
        return scores

    def best(self, query: str, n: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the positions and scores of the ``n`` best texts, to 6 decimals and above 0; ties by position.

        They are those of ``scores``. For a query of one or two terms, only as many texts are looked at as hold the
        rarer one: short phrases can be searched for in large numbers, however many the texts.
        """
        columns = [column for token in self._tokenise(query) if (column := self._vocabulary.get(token)) is not None]
        if len(set(columns)) > 2:
            scores = np.round(self.scores(query), 6)
            rows = np.flatnonzero(scores > 0)
            scores = scores[rows]
        else:
            rows = self._candidates(columns, n)
            scores = np.zeros(len(rows))
            for column in columns:
                scores += self._gains_of(column, rows)
            scores = np.round(scores, 6)
            rows, scores = rows[scores > 0], scores[scores > 0]
        if 0 < n < len(rows):
            reached = scores >= np.partition(scores, -n)[-n]
            rows, scores = rows[reached], scores[reached]
        order = np.argsort(-scores, kind="stable")[: max(0, n)]
        return rows[order], scores[order]

    def _candidates(self, columns: Sequence[int], n: int) -> NDArray[np.int64]:
        """Texts among which are the ``n`` best for one or two columns, ascending."""
        if not columns:
            return np.empty(0, dtype=np.int64)
        *rarer, last = sorted(set(columns), key=lambda column: (self._cuts[column + 1] - self._cuts[column], column))
        found = [self._rows[self._cuts[column] : self._cuts[column + 1]] for column in rarer]
        start, end = int(self._cuts[last]), int(self._cuts[last + 1])
        if Counter(columns)[last] == 1:  # then texts that hold nothing but it stand in the order of its gains
            end = min(end, start + max(0, n) + sum(map(len, found)))
            found.append(self._rows[self._by_gain[start:end]])
        else:
            found.append(self._rows[start:end])
        return np.unique(np.concatenate(found)).astype(np.int64)

    def _gains_of(self, column: int, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """What a column adds to the texts ``rows``."""
        start, end = self._cuts[column], self._cuts[column + 1]
        held = self._rows[start:end]
        place = np.minimum(np.searchsorted(held, rows), len(held) - 1)
        gains: NDArray[np.float64] = np.where(held[place] == rows, self._gains[start:end][place], 0.0)
        return gains

    @cached_property
    def _by_gain(self) -> NDArray[np.int64]:
        """Places of the gains, column by column, the highest first; ties, to 6 decimals, by position."""
        columns = np.repeat(np.arange(len(self._cuts) - 1), np.diff(self._cuts))
        return np.lexsort((self._rows, -np.round(self._gains, 6), columns))


_Columns = tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]


def _columns(
    tokens: NDArray[np.int32], texts: NDArray[np.int32], shape: tuple[int, int], k1: float, b: float
) -> _Columns:
    """Return the matrix texts × terms by columns: what each term adds, to which texts, and where its column starts."""
    size, words = shape
    if not len(tokens):  # there is no mean length to divide by
        return np.empty(0), np.empty(0, np.int32), np.zeros(words + 1, np.int64)
    places, counts = np.unique(tokens.astype(np.int64) * size + texts, return_counts=True)
    columns, rows = np.divmod(places, size)
    lengths = np.bincount(texts, minlength=size)
    held = np.bincount(columns, minlength=words)
    idf = np.array([math.log(1 + (size - n + 0.5) / (n + 0.5)) for n in held.tolist()])
    gains = idf[columns] * (counts / (k1 * ((1 - b) + b * lengths[rows] / lengths.mean()) + counts))
    return gains, rows.astype(np.int32), np.concatenate([[0], np.cumsum(held)])
