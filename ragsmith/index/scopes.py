"""The scopes of an index: its chunks put together into sections and documents, each searchable as one text.

A unit is a document, a section of one, or a chunk. Nothing is embedded for the coarser scopes: a unit's vector is the
mean of its chunks' vectors. Built once for an index and kept with it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.index import Index
from ragsmith.index.screening import best_cosines
from ragsmith.index.vector_store import Keys
from ragsmith.models.protocols import Embedder
from ragsmith.text.bm25 import BM25
from ragsmith.types import Chunk

_UNITS = 4_096
"""Units whose vectors are added up at once."""


@dataclass(frozen=True, eq=False)
class Scope:
    """A partition of an index's entries: ``units[i]`` is the unit of entry ``i``, numbered by its first entry.

    ``words`` searches the units' texts, the keys of all their chunks; the scope of chunks has the index itself for it.
    """

    name: str
    units: NDArray[np.int64]
    words: BM25 | None

    def __len__(self) -> int:
        return int(self.units.max(initial=-1)) + 1


def scopes(index: Index) -> tuple[Scope, ...]:
    """The scopes that differ, coarsest first, "chunk" always the last.

    A scope whose units are those of another would vote twice and is left out: sections where every document is one
    section, or every section one chunk; documents where every document is one chunk. So one scope is "chunk", two are
    "document" and "chunk". A summary is a unit of its own at every scope: it is part of no section, and its words are
    those of chunks that are counted already.
    """
    return index.derived("scopes", partial(_scopes, index))


def word_scores(index: Index, scope: Scope, query: str) -> NDArray[np.float64]:
    """BM25 of every unit over the units' texts, to 6 decimals: shape ``(units,)``."""
    return index.word_scores(query) if scope.words is None else np.round(scope.words.scores(query), 6)


def cosines(index: Index, scope: Scope, wanted: NDArray[np.float64], embedder: Embedder, k: int) -> NDArray[np.float64]:
    """Cosine of every vector ``wanted``, shape ``(queries, dimensions)``, and unit: shape ``(queries, units)``.

    A chunk counts by its best key, a larger unit by the mean vector of its chunks; to 6 decimals. Of many units, those
    of the ``k`` best are worked out, see `best_cosines`.
    """
    if scope.words is None:
        return index.cosines(wanted, embedder, k)
    name = f"{scope.name} vectors {embedder.id}"
    vectors = index.derived(name, lambda: _means(chunk_vectors(index, embedder), scope.units))
    return best_cosines(Keys(name, np.arange(len(vectors)), len(vectors)), wanted, vectors, k)


def chunk_vectors(index: Index, embedder: Embedder) -> NDArray[np.floating]:
    """One vector for every entry, the normalised mean of its keys' vectors: shape ``(entries, dimensions)``."""
    vectors = index.vectors(embedder)
    if len(index.keys) == len(index.entries):
        return vectors
    owner = np.repeat(np.arange(len(index.entries)), [len(entry.keys) for entry in index.entries])
    return _means(vectors, owner)


def _scopes(index: Index) -> tuple[Scope, ...]:
    chunks = [entry.chunk for entry in index.entries]
    kept: list[Scope] = [Scope("chunk", np.arange(len(chunks)), None)]
    for name in ("document", "section"):
        units = _numbered([_unit(chunk, name) for chunk in chunks])
        if not any(np.array_equal(units, other.units) for other in kept):
            kept.append(Scope(name, units, index.joined_words(units)))
    return (*kept[1:], kept[0])


def _unit(chunk: Chunk, name: str) -> Hashable:
    if chunk.level:
        return chunk.id
    return (chunk.doc,) if name == "document" else (chunk.doc, chunk.section)


def _numbered(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _means(vectors: NDArray[np.floating], units: NDArray[np.int64]) -> NDArray[np.floating]:
    """The mean vector of every unit, scaled to length 1 (or 0): shape ``(units, dimensions)``.

    They are added up in double precision, and kept in that of ``vectors``.
    """
    order = np.argsort(units, kind="stable")
    starts = np.flatnonzero(np.diff(units[order], prepend=-1))
    means = np.empty((len(starts), vectors.shape[1]), dtype=vectors.dtype)
    for first in range(0, len(starts), _UNITS):
        own = starts[first : first + _UNITS]
        end = starts[first + len(own)] if first + len(own) < len(starts) else len(order)
        totals = np.add.reduceat(vectors[order[own[0] : end]].astype(np.float64, copy=False), own - own[0], axis=0)
        lengths = np.linalg.norm(totals, axis=1, keepdims=True)
        means[first : first + len(own)] = np.divide(totals, lengths, out=np.zeros_like(totals), where=lengths > 0)
    return means
