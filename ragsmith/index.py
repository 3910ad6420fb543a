"""What retrieval searches: the corpus as it was read, and an index over the entries of one pre-embedding.

Everything here is derived from values and built once: BM25 statistics on first use, vectors once per embedder. Search
is exact. Several keys of one chunk count once, by the best of them, so ``k`` always means k distinct chunks.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ragsmith.bm25 import BM25
from ragsmith.canonical import digest
from ragsmith.models import Embedder
from ragsmith.types import Chunk, Chunks, Document, Entries, Hit, Hits, Rankings, Scale, Span


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
        """``chunk`` with up to ``before`` and ``after`` neighbours of its document, in reading order."""
        siblings = self._of_document[chunk.doc]
        return tuple(siblings[max(0, chunk.index - before) : chunk.index + after + 1])

    def document_chunks(self, doc: str) -> Chunks:
        """All chunks of a document, in reading order; ``chunk.index`` is the position."""
        return tuple(self._of_document[doc])

    def text(self, span: Span) -> str:
        """The text of a span."""
        return self.documents[span.doc].text[span.start : span.end]


class Index:
    """Entries, searchable by words and by vectors."""

    def __init__(self, entries: Entries) -> None:
        self.entries = tuple(sorted(entries, key=lambda entry: entry.chunk.id))
        self.id = digest("index", [(entry.chunk.id, entry.chunk.text, entry.keys) for entry in self.entries])
        self.keys = tuple(key for entry in self.entries for key in entry.keys)
        sizes = [len(entry.keys) for entry in self.entries]
        if 0 in sizes:
            raise ValueError(f"chunk {self.entries[sizes.index(0)].chunk.id} has no key: it could never be found")
        self._starts = np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, dtype=np.int64)
        self._vectors: dict[str, NDArray[np.float64]] = {}
        self._lock = threading.Lock()

    @cached_property
    def _bm25(self) -> BM25:
        return BM25(self.keys)

    def vectors(self, embedder: Embedder) -> NDArray[np.float64]:
        """Vectors of all keys, shape ``(len(keys), dimensions)``, embedded once."""
        with self._lock:
            if embedder.id not in self._vectors:
                self._vectors[embedder.id] = embedder.embed(self.keys).astype(np.float64)
            return self._vectors[embedder.id]

    @property
    def embedded_by(self) -> frozenset[str]:
        """Ids of the embedders whose vectors are there."""
        return frozenset(self._vectors)

    def take_vectors(self, other: Index) -> None:
        """Take over vectors that ``other``, an index of the same entries, has."""
        with self._lock:
            for embedder, vectors in other._vectors.items():
                self._vectors.setdefault(embedder, vectors)

    def by_words(self, queries: Sequence[str], k: int) -> Rankings:
        """The ``k`` best chunks for each query by BM25; chunks that share no term with it are not hits."""
        return tuple(self._best(self._bm25.scores(query), k, Scale.BM25, positive=True) for query in queries)

    def by_vector(self, queries: Sequence[str], k: int, embedder: Embedder) -> Rankings:
        """The ``k`` best chunks for each query by cosine similarity."""
        if not self.keys or not queries:
            return tuple(() for _ in queries)
        # in double precision the sixth decimal does not depend on how many queries are multiplied at once
        scores = embedder.embed(queries).astype(np.float64) @ self.vectors(embedder).T
        return tuple(self._best(row, k, Scale.COSINE) for row in scores)

    def _best(self, scores: NDArray[np.floating], k: int, scale: Scale, *, positive: bool = False) -> Hits:
        if not self.entries:
            return ()
        per_chunk = np.maximum.reduceat(scores, self._starts) if len(self.keys) > len(self.entries) else scores
        rounded = np.round(per_chunk.astype(np.float64), 6)  # the last bits differ between machines; ties must not
        order = np.argsort(-rounded, kind="stable")[:k]  # entries are in chunk order, so ties go to the smaller id
        if positive:
            order = order[rounded[order] > 0]
        best = zip(order.tolist(), rounded[order].tolist(), strict=True)
        return tuple(Hit(self.entries[i].chunk, score, scale) for i, score in best)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()
