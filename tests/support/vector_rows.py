"""Vectors for tests of indexes: embedders of a few words, random rows, and the plainest search."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.vector_store import Keys
from ragsmith.models.protocols import Vectors

VOCABULARY = ("salt", "bell", "dues", "wall", "oath", "mud")


class Words:
    """A text's vector: which of a few words it has, length 1; ``embedded`` has the texts it was called for."""

    def __init__(self, name: str = "words") -> None:
        self.id = name
        self.embedded: list[str] = []

    def embed(self, texts: Sequence[str]) -> Vectors:
        self.embedded += texts
        rows = [[float(word in text.lower()) for word in VOCABULARY] for text in texts]
        return unit(np.array(rows).reshape(-1, len(VOCABULARY)))


class Made:
    """Rows of a matrix, and which of them were asked for."""

    def __init__(self, rows: Vectors) -> None:
        self.rows = rows
        self.asked: list[tuple[int, int]] = []

    def __call__(self, start: int, end: int) -> Vectors:
        self.asked.append((start, end))
        return self.rows[start:end]


def unit(rows: NDArray[np.floating]) -> Vectors:
    """The rows at length 1, or 0, in single precision."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    vectors: Vectors = np.divide(rows, lengths, out=np.zeros(rows.shape), where=lengths > 0).astype(np.float32)
    return vectors


def tied_rows(seed: int, rows: int, dimensions: int = 8) -> Vectors:
    """Random unit vectors of few distinct directions, so that many scores tie."""
    return unit(np.random.default_rng(seed).integers(-1, 2, (rows, dimensions)).astype(np.float64))


def directions(seed: int, rows: int, dimensions: int) -> Vectors:
    """Random unit vectors, no two alike."""
    return unit(np.random.default_rng(seed).standard_normal((rows, dimensions)))


def keys_of(sizes: list[int], name: str = "ragsmith-test") -> Keys:
    """Keys of entries that have so many each."""
    return Keys(name, np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, dtype=np.int64), sum(sizes))


def full_sort(keys: Keys, rows: Vectors, queries: Vectors, k: int) -> tuple[list[list[int]], NDArray[np.float64]]:
    """The plainest search: every entry's best cosine, all sorted."""
    ends = [*keys.starts[1:], keys.count]
    positions, scores = [], []
    for query in queries.astype(np.float64):
        cosines = [round(float(x), 6) for x in rows.astype(np.float64) @ query]
        best = [max(cosines[start:end]) for start, end in zip(keys.starts, ends, strict=True)]
        order = sorted(range(len(best)), key=lambda entry: (-best[entry], entry))[:k]
        positions.append(order)
        scores.append([best[entry] for entry in order])
    return positions, np.array(scores)
