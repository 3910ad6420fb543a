"""Okapi BM25 with Lucene's idf (Robertson and Zaragoza 2009; Kamphuis et al. 2020), scores computed ahead by bm25s."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import RLock

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

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
        self._vocabulary: dict[str, int] = {}
        ids = self._vocabulary
        corpus = [[ids.setdefault(token, len(ids)) for token in tokenise(text)] for text in texts]
        self._size = len(corpus)
        self._gains, self._rows, self._cuts = _columns(corpus, len(ids), k1, b)

    def __len__(self) -> int:
        return self._size

    def scores(self, query: str) -> NDArray[np.float64]:
        """Return the score of every text, shape ``(n,)``; zeros for an empty query or one of unknown terms."""
        scores = np.zeros(self._size)
        for token in self._tokenise(query):
            column = self._vocabulary.get(token)
            if column is not None:
                held = slice(self._cuts[column], self._cuts[column + 1])
                scores[self._rows[held]] += self._gains[held]  # the rows of a column are distinct
        return scores


_Columns = tuple[NDArray[np.float64], NDArray[np.int32], NDArray[np.int64]]


def _columns(corpus: list[list[int]], size: int, k1: float, b: float) -> _Columns:
    """Return the matrix texts × terms by columns: what each term adds, to which texts, and where its column starts."""
    if not size:  # no text, or none with a term: bm25s would divide by a mean length of zero
        return np.empty(0), np.empty(0, np.int32), np.zeros(1, np.int64)
    import bm25s  # noqa: PLC0415  # slow import, and nothing is indexed where every result is stored

    # bm25s counts with tqdm, whose own lock is a semaphore of the system: it outlives a process that is killed, and
    # Python then warns of a leaked one; no two processes draw a bar here
    tqdm.set_lock(RLock())
    # Built from ids: bm25s's own vocabulary follows the hash seed, and its ``index`` writes to the log.
    matrix = bm25s.BM25(k1=k1, b=b, method="lucene", dtype="float64", backend="numpy").build_index_from_ids(
        unique_token_ids=range(size), corpus_token_ids=corpus, show_progress=False
    )
    return matrix["data"], matrix["indices"], matrix["indptr"]
