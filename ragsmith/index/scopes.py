"""Structure of the entries of an index: neighbours, and scopes, which group chunks into sections and documents.

A unit of a scope is a document, a section or a chunk, and is searchable as one text. The vector of a unit of a coarser
scope is the mean of the vectors of its chunks. Both are computed once per index and cached.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ragsmith.index.index import Index
from ragsmith.index.screening import compute_best_cosines
from ragsmith.index.vector_store import Admitted, Keys
from ragsmith.models.protocols import Embedder
from ragsmith.text.bm25 import BM25
from ragsmith.types import Chunk

Numbers = NDArray[np.int32]

_BLOCK_UNITS = 4_096
"""Number of units per block of sums of vectors."""


@dataclass(frozen=True, eq=False)
class Scope:
    """A partition of an index's entries: ``units[i]`` is the unit of entry ``i``; units are numbered by their first
    entry.

    ``words`` is the lexical index of the units' texts, the keys of all their chunks; None for the scope of chunks,
    which uses the index itself.
    """

    name: str
    units: NDArray[np.int64]
    words: BM25 | None

    def __len__(self) -> int:
        return int(self.units.max(initial=-1)) + 1


def get_scopes(index: Index) -> tuple[Scope, ...]:
    """Return the distinct scopes, coarsest first; "chunk" is always the last.

    A scope with the same units as another is omitted, as it would count twice: "section" if every document has one
    section or every section one chunk, "document" if every document has one chunk. A summary is a separate unit in
    every scope, as it belongs to no section and repeats the words of other chunks.
    """
    return index.derived("scopes", partial(_build_scopes, index))


def score_words(index: Index, scope: Scope, query: str) -> NDArray[np.float64]:
    """Return the BM25 score of every unit over the units' texts, to 6 decimals: shape ``(units,)``."""
    scores = index.word_scores(query) if scope.words is None else np.round(scope.words.scores(query), 6)
    return scores if (admitted := _get_admitted_units(index, scope)) is None else scores * admitted


def compute_cosines(
    index: Index, scope: Scope, queries: NDArray[np.float64], embedder: Embedder, k: int
) -> NDArray[np.float64]:
    """Return the cosines of query vectors, ``(queries, dimensions)``, with the units: ``(queries, units)``.

    A chunk has the cosine of its best key, a larger unit that of the mean vector of its chunks; to 6 decimals. Of many
    units, only those of the ``k`` best are computed, see `compute_best_cosines`.
    """
    if scope.words is None:
        return index.cosines(queries, embedder, k)
    name = f"{scope.name} vectors {embedder.id}"
    vectors = index.derived(name, lambda: _compute_means(compute_chunk_vectors(index, embedder), scope.units))
    return compute_best_cosines(
        Keys(name, np.arange(len(vectors)), len(vectors)), queries, vectors, k, _get_admitted_units(index, scope)
    )


def _get_admitted_units(index: Index, scope: Scope) -> Admitted | None:
    """Return which units have an entry that can be found; None if all have."""
    return None if index.admitted is None else np.bincount(scope.units[index.admitted], minlength=len(scope)) > 0


def compute_chunk_vectors(index: Index, embedder: Embedder) -> NDArray[np.floating]:
    """Return one vector per entry, the normalised mean of its keys' vectors: shape ``(entries, dimensions)``."""
    vectors = index.vectors(embedder)
    if len(index.keys) == len(index.entries):
        return vectors
    owner = np.repeat(np.arange(len(index.entries)), [len(entry.keys) for entry in index.entries])
    return _compute_means(vectors, owner)


def _build_scopes(index: Index) -> tuple[Scope, ...]:
    chunks = [entry.chunk for entry in index.entries]
    distinct: list[Scope] = [Scope("chunk", np.arange(len(chunks)), None)]
    for name in ("document", "section"):
        units = _number_keys([_get_unit(chunk, name) for chunk in chunks])
        if not any(np.array_equal(units, other.units) for other in distinct):
            distinct.append(Scope(name, units, index.joined_words(units)))
    return (*distinct[1:], distinct[0])


def _get_unit(chunk: Chunk, name: str) -> Hashable:
    if chunk.level:
        return chunk.id
    return (chunk.doc,) if name == "document" else (chunk.doc, chunk.section)


def _number_keys(keys: Sequence[Hashable]) -> NDArray[np.int64]:
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def _compute_means(vectors: NDArray[np.floating], units: NDArray[np.int64]) -> NDArray[np.floating]:
    """Return the normalised mean vector of every unit (or 0): shape ``(units, dimensions)``.

    Sums are computed in double precision and returned in the precision of ``vectors``.
    """
    order = np.argsort(units, kind="stable")
    starts = np.flatnonzero(np.diff(units[order], prepend=-1))
    means = np.empty((len(starts), vectors.shape[1]), dtype=vectors.dtype)
    for first in range(0, len(starts), _BLOCK_UNITS):
        own = starts[first : first + _BLOCK_UNITS]
        end = starts[first + len(own)] if first + len(own) < len(starts) else len(order)
        totals = np.add.reduceat(vectors[order[own[0] : end]].astype(np.float64, copy=False), own - own[0], axis=0)
        lengths = np.linalg.norm(totals, axis=1, keepdims=True)
        means[first : first + len(own)] = np.divide(totals, lengths, out=np.zeros_like(totals), where=lengths > 0)
    return means


@dataclass(frozen=True, eq=False)
class Neighbours:
    """Adjacency of entries, at 28 bytes per entry.

    Entry ``i`` belongs to document ``document[i]``; a summary is a separate document.

    The entries of document ``d`` are ``members[starts[d]:starts[d + 1]]``, in reading order. ``previous`` and ``next``
    hold the position of the adjacent chunks, or -1. ``characters`` is the length of a chunk.
    Entries of the same ``section`` have title, headings and language in common.
    """

    document: Numbers
    members: Numbers
    starts: Numbers
    previous: Numbers
    next: Numbers
    characters: Numbers
    section: Numbers

    def of_documents(self, documents: NDArray[np.integer]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the positions of the entries of ``documents``, document by document, and the size of each."""
        sizes = (self.starts[documents + 1] - self.starts[documents]).astype(np.int64)
        within = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.members[np.repeat(self.starts[documents], sizes) + within].astype(np.int64), sizes


def get_neighbours(index: Index) -> Neighbours:
    """Return the neighbours of all entries of ``index``."""
    return index.derived("neighbours", partial(_find_neighbours, index))


def _find_neighbours(index: Index) -> Neighbours:
    chunks = index.chunks
    document = _number_keys([(chunk.id,) if chunk.level else chunk.doc for chunk in chunks])
    order = np.array([chunk.index for chunk in chunks], dtype=np.int64)
    members = np.lexsort((order, document))
    starts = np.searchsorted(document[members], np.arange(int(document.max(initial=-1)) + 2))
    before, behind = members[:-1], members[1:]
    adjacent = (document[before] == document[behind]) & (order[before] + 1 == order[behind])
    previous, following = np.full((2, len(chunks)), -1)
    previous[behind[adjacent]] = before[adjacent]
    following[before[adjacent]] = behind[adjacent]
    characters = np.array([len(chunk.text) for chunk in chunks])
    section = _number_keys([(chunk.title, chunk.headings, chunk.language) for chunk in chunks])
    columns = document, members, starts, previous, following, characters, section
    return Neighbours(*(column.astype(np.int32) for column in columns))
