"""What retrieval searches: the corpus as it was read, and an index over the entries of one pre-embedding.

Everything here is derived from values and built once: BM25 statistics on first use, vectors once per embedder. Search
is exact. Several keys of one chunk count once, by the best of them, so ``k`` always means k distinct chunks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ragsmith.bm25 import BM25
from ragsmith.canonical import digest
from ragsmith.models import Embedder, Vectors
from ragsmith.types import Chunk, Chunks, Document, Entries, Hit, Hits, Rankings, Scale, Span

T = TypeVar("T")


class Corpus:
    """Documents and their chunks, for reading around a hit."""

    def __init__(self, documents: Sequence[Document], chunks: Chunks) -> None:
        self.documents = {document.id: document for document in documents}
        self.chunks = chunks
        self.id = digest(
            "corpus", [(d.id, d.title, d.text) for d in documents], [(c.id, c.start, c.end) for c in chunks]
        )
        self._of_document: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            self._of_document.setdefault(chunk.doc, []).append(chunk)

    def around(self, chunk: Chunk, before: int, after: int) -> Chunks:
        """``chunk`` with up to ``before`` and ``after`` neighbours in reading order; a summary stands alone."""
        if chunk.level:
            return (chunk,)
        siblings = self._of_document[chunk.doc]
        return tuple(siblings[max(0, chunk.index - before) : chunk.index + after + 1])

    def document_chunks(self, doc: str) -> Chunks:
        """All chunks of a document, in reading order; ``chunk.index`` is the position."""
        return tuple(self._of_document[doc])

    def text(self, span: Span) -> str:
        """The text of a span."""
        return self.documents[span.doc].text[span.start : span.end]


def queries_of(embedder: Embedder, queries: Sequence[str]) -> Vectors:
    """Vectors of queries, which asymmetric models embed otherwise than documents."""
    embed = getattr(embedder, "embed_queries", embedder.embed)
    vectors: Vectors = embed(queries)
    return vectors


class Index:
    """Entries, searchable by words and by vectors."""

    def __init__(self, entries: Entries) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: entry.chunk.id))
        places = [(c.doc, c.index, c.section, c.modality, c.level) for c in (entry.chunk for entry in self.entries)]
        self.id = digest("index", [(entry.chunk.id, entry.chunk.text, entry.keys) for entry in self.entries], places)
        self.keys = tuple(key for entry in self.entries for key in entry.keys)
        sizes = [len(entry.keys) for entry in self.entries]
        if 0 in sizes:
            raise ValueError(f"chunk {self.entries[sizes.index(0)].chunk.id} has no key: it could never be found")
        self._starts = np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, dtype=np.int64)
        self._vectors: dict[str, NDArray[np.float64]] = {}
        self._derived: dict[str, Any] = {}
        self._lock = threading.RLock()

    @cached_property
    def _bm25(self) -> BM25:
        return BM25(self.keys)

    @cached_property
    def places(self) -> dict[str, int]:
        """Chunk id to position among the entries."""
        return {entry.chunk.id: place for place, entry in enumerate(self.entries)}

    def vectors(self, embedder: Embedder) -> NDArray[np.float64]:
        """Vectors of all keys, shape ``(len(keys), dimensions)``, embedded once."""
        with self._lock:
            if embedder.id not in self._vectors:
                self._vectors[embedder.id] = embedder.embed(self.keys).astype(np.float64)
            return self._vectors[embedder.id]

    def derived(self, name: str, build: Callable[[], T]) -> T:
        """What ``build`` makes of this index, made once and kept with it: scopes, graphs.

        ``name`` has to say everything it is made from besides the entries: the embedder's id, parameters.
        """
        with self._lock:
            if name not in self._derived:
                self._derived[name] = build()
            return cast(T, self._derived[name])

    @property
    def embedded_by(self) -> frozenset[str]:
        """Ids of the embedders whose vectors are there."""
        return frozenset(self._vectors)

    @property
    def holds(self) -> frozenset[str]:
        """What has been built so far: ids of embedders, and names of what was derived."""
        return frozenset([*self._vectors, *self._derived])

    def take_vectors(self, other: Index) -> None:
        """Take over the vectors, and what was derived, that ``other``, an index of the same entries, has."""
        with self._lock:
            for embedder, vectors in tuple(other._vectors.items()):
                self._vectors.setdefault(embedder, vectors)
            for name, value in tuple(other._derived.items()):
                self._derived.setdefault(name, value)

    def word_scores(self, query: str) -> NDArray[np.float64]:
        """BM25 of every entry, by its best key, to 6 decimals: shape ``(entries,)``."""
        return self._per_entry(self._bm25.scores(query))

    def cosines(self, wanted: NDArray[np.float64], embedder: Embedder) -> NDArray[np.float64]:
        """Cosine of every vector ``wanted``, shape ``(queries, dimensions)``, and every entry, by its best key.

        To 6 decimals, shape ``(queries, entries)``. In double precision the sixth decimal does not depend on how many
        queries are multiplied at once.
        """
        return self._per_entry(wanted @ self.vectors(embedder).T)

    def by_words(self, queries: Sequence[str], k: int) -> Rankings:
        """The ``k`` best chunks for each query by BM25; chunks that share no term with it are not hits."""
        return tuple(self._hits(self.word_scores(query), k, Scale.BM25, positive=True) for query in queries)

    def by_vector(self, queries: Sequence[str], k: int, embedder: Embedder) -> Rankings:
        """The ``k`` best chunks for each query by cosine similarity."""
        if not self.keys or not queries:
            return tuple(() for _ in queries)
        rows = self.cosines(queries_of(embedder, queries).astype(np.float64), embedder)
        return tuple(self._hits(row, k, Scale.COSINE) for row in rows)

    def _per_entry(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        best = scores
        if len(self.keys) > len(self.entries):
            best = np.maximum.reduceat(scores, self._starts, axis=-1)
        return np.round(best, 6)  # the last bits differ between machines; ties must not

    def _hits(self, scores: NDArray[np.float64], k: int, scale: Scale, *, positive: bool = False) -> Hits:
        places = best_places(scores, k, positive=positive)
        best = zip(places.tolist(), scores[places].tolist(), strict=True)
        return tuple(Hit(self.entries[i].chunk, score, scale) for i, score in best)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()


def best_places(scores: NDArray[np.float64], k: int, *, positive: bool = False) -> NDArray[np.int64]:
    """Positions of the ``k`` highest scores, best first, ties by position; with ``positive`` only of scores above 0.

    Entries stand in the order of their chunks' ids, so a tie goes to the smaller id.
    """
    among = np.flatnonzero(scores > 0) if positive else np.arange(len(scores))
    if 0 < k < len(among):
        # everything that ties with the k-th best stays in, so the stable sort below sees what a full sort would
        kth = np.partition(scores[among], len(among) - k)[len(among) - k]
        among = among[scores[among] >= kth]
    return among[np.argsort(-scores[among], kind="stable")][:k]
