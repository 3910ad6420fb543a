"""What retrieval searches: the corpus as it was read, and an index over the entries of one pre-embedding.

Everything here is derived from values and built once: BM25 statistics on first use, vectors once per embedder. Search
is exact, wherever vectors are (`vector_store`). Several keys of one chunk count once, by the best of them, so ``k``
always means k distinct chunks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ragsmith.caches import register_cache
from ragsmith.digest import decides_no_value, digest
from ragsmith.index.screening import compute_best_cosines
from ragsmith.index.top import best_positions
from ragsmith.index.vector_store import Keys, MakeVectors, OpenStore, VectorStore, as_kept, keys_name
from ragsmith.index.vector_stores.exact import ExactVectors
from ragsmith.models.protocols import Embedder, Vectors
from ragsmith.text.bm25 import BM25, Occurrences
from ragsmith.text.languages import ENGLISH
from ragsmith.types import Chunk, Chunks, Document, Entries, Hit, Hits, LazyHits, Rankings, Scale, Span

T = TypeVar("T")

REMEMBERED = 4096
"""Rankings that an index remembers: a question has a few, by words, by vectors and by the entity graph."""

WORKED_OUT = 256
"""Queries of which an index remembers what was worked out: pipelines are asked a question one after the other."""


class Corpus:
    """Documents and their chunks, for reading around a hit."""

    def __init__(self, documents: Sequence[Document], chunks: Chunks) -> None:
        self.documents = {document.id: document for document in documents}
        self.chunks = chunks
        self.id = digest(
            "corpus",
            [(d.id, d.title, d.text) for d in documents],
            [(c.id, c.start, c.end) for c in chunks],
            *_languages(chunks),
        )
        self._of_document: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            self._of_document.setdefault(chunk.doc, []).append(chunk)

    def around(self, chunk: Chunk, before: int, after: int) -> Chunks:
        """``chunk`` with up to ``before`` and ``after`` neighbours in reading order; a summary has none."""
        if chunk.level:
            return (chunk,)
        siblings = self._of_document[chunk.doc]
        return tuple(siblings[max(0, chunk.index - before) : chunk.index + after + 1])

    def stretch(self, doc: str, first: int, last: int) -> Span:
        """Where the chunks ``first`` to ``last`` of a document, both included and counted from 0, are in its text."""
        chunks = self._of_document[doc][first : last + 1]
        return Span(doc, chunks[0].start, max(chunk.end for chunk in chunks))

    def text(self, span: Span) -> str:
        """The text of a span."""
        return self.documents[span.doc].text[span.start : span.end]


def _languages(chunks: Iterable[Chunk]) -> list[list[str]]:
    """What an identity says of the languages of ``chunks``, in their order: nothing where all are English."""
    languages = [chunk.language for chunk in chunks]
    return [languages] if set(languages) - {ENGLISH} else []


def queries_of(embedder: Embedder, queries: Sequence[str]) -> Vectors:
    """Vectors of queries, which asymmetric models embed otherwise than documents."""
    embed = getattr(embedder, "embed_queries", embedder.embed)
    vectors: Vectors = embed(queries)
    return vectors


class Index:
    """Entries, searchable by words and by vectors."""

    def __init__(self, entries: Entries, open_store: OpenStore = ExactVectors) -> None:
        """``open_store`` makes the store that `by_vector` searches; every store finds the same."""
        self.entries = tuple(sorted(entries, key=lambda entry: entry.chunk.id))
        positions = [(c.doc, c.index, c.section, c.modality, c.level) for c in (entry.chunk for entry in self.entries)]
        self.id = digest(
            "index",
            [(entry.chunk.id, entry.chunk.text, entry.keys) for entry in self.entries],
            positions,
            *_languages(entry.chunk for entry in self.entries),
        )
        self.keys = tuple(key for entry in self.entries for key in entry.keys)
        sizes = [len(entry.keys) for entry in self.entries]
        if 0 in sizes:
            raise ValueError(f"chunk {self.entries[sizes.index(0)].chunk.id} has no key: it could never be found")
        starts = np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, dtype=np.int64)
        self.chunks = tuple(entry.chunk for entry in self.entries)
        ids = [chunk.id for chunk in self.chunks]
        self._told_apart = all(one < other for one, other in pairwise(ids))
        self._keys = Keys(self.id, starts, len(self.keys))
        self._open_store = open_store
        self._vectors: dict[str, NDArray[np.floating]] = {}
        self._derived: dict[str, Any] = {}
        self._remembered: dict[tuple[str, str], tuple[int, Hits]] = {}
        self._worked_out: dict[tuple[str, str], tuple[int, Any]] = {}
        self._lock = threading.RLock()
        self._register()

    @cached_property
    def _bm25(self) -> BM25:
        return BM25(self.keys, languages=[entry.chunk.language for entry in self.entries for _ in entry.keys])

    @cached_property
    def positions(self) -> dict[str, int]:
        """Chunk id to position among the entries."""
        return {entry.chunk.id: position for position, entry in enumerate(self.entries)}

    def vectors(self, embedder: Embedder) -> NDArray[np.floating]:
        """Vectors of all keys, shape ``(len(keys), dimensions)``, embedded once; `as_kept` says in which precision."""
        with self._lock:
            if embedder.id not in self._vectors:
                self._vectors[embedder.id] = self._embedded(embedder)
            return self._vectors[embedder.id]

    def vector_store(self, embedder: Embedder) -> VectorStore:
        """Where `by_vector` searches, opened once, and filled with vectors of all keys.

        Raises:
            UsageError: it cannot be opened.
            ModelUnavailable: its server is down or refuses.
        """
        keys = replace(self._keys, name=keys_name(self.id, embedder.id))
        make = self._vector_maker(embedder)
        return self.derived(f"vector store {embedder.id}", lambda: self._open_store(keys, make))

    def _embedded(self, embedder: Embedder) -> NDArray[np.floating]:
        return as_kept(embedder.embed(self.keys))

    def _vector_maker(self, embedder: Embedder) -> MakeVectors:
        return partial(self._vectors_of, embedder)

    def derived(self, name: str, build: Callable[[], T]) -> T:
        """What ``build`` makes of this index, made once and kept with it: scopes, graphs.

        ``name`` has to say everything it is made from besides the entries: the embedder's id, parameters.
        """
        with self._lock:
            if name not in self._derived:
                self._derived[name] = build()
            return cast(T, self._derived[name])

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

    def occurrences(self, query: str, positions: NDArray[np.int64]) -> tuple[Occurrences, NDArray[np.int64]]:
        """Where the terms of ``query`` are in the keys of the entries at ``positions``, and whose each key is.

        The second value has for each key, the texts of the first, the place of its entry among ``positions``.
        """
        sizes = np.array([len(self.entries[position].keys) for position in positions.tolist()], dtype=np.int64)
        owner = np.repeat(np.arange(len(positions)), sizes)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self._bm25.occurrences(query, self._keys.starts[positions][owner] + within), owner

    def joined_words(self, units: NDArray[np.int64]) -> BM25:
        """BM25 over the keys of several entries as one text: those of entry ``i`` are part of text ``units[i]``."""
        return self._bm25.joined(np.repeat(units, [len(entry.keys) for entry in self.entries]))

    def word_scores(self, query: str) -> NDArray[np.float64]:
        """BM25 of every entry, by its best key, to 6 decimals: shape ``(entries,)``."""
        return self._keys.entry_scores(self._bm25.scores(query))

    def cosines(self, wanted: NDArray[np.float64], embedder: Embedder, k: int) -> NDArray[np.float64]:
        """Cosine of every vector ``wanted``, shape ``(queries, dimensions)``, and every entry, by its best key.

        To 6 decimals, shape ``(queries, entries)``; for a large index, only those of the ``k`` best entries
        (`compute_best_cosines`).
        In double precision the sixth decimal does not depend on how many queries are multiplied at once.
        """
        return compute_best_cosines(self._keys, wanted, self.vectors(embedder), k)

    def by_words(self, queries: Sequence[str], k: int) -> Rankings:
        """The ``k`` best chunks for each query by BM25; chunks that share no term with it are not hits."""

        def search(missing: Sequence[str]) -> Iterator[Hits]:
            for query in missing:
                scores = self.word_scores(query)
                best = best_positions(scores, k, positive=True)
                yield self.ranking(best, scores[best], Scale.BM25)

        return self.remembered("words", queries, k, search)

    def by_vector(self, queries: Sequence[str], k: int, embedder: Embedder) -> Rankings:
        """The ``k`` best chunks for each query by cosine similarity; without any, the vector store is opened."""
        if not self.keys:
            return tuple(() for _ in queries)
        store = self.vector_store(embedder)
        if not queries:
            return ()
        vectors = dict(zip(queries, queries_of(embedder, queries), strict=True))

        def search(missing: Sequence[str]) -> Iterator[Hits]:
            found = store.search(np.stack([vectors[query] for query in missing]), k)
            for positions, scores in zip(*found, strict=True):
                yield self.ranking(positions, scores, Scale.COSINE)

        return self.remembered(f"vectors {embedder.id}", queries, k, search)

    def remembered(
        self, by: str, queries: Sequence[str], k: int, search: Callable[[Sequence[str]], Iterable[Hits]]
    ) -> Rankings:
        """The ``k`` best of what ``search`` finds for each query: it is asked once for those not searched so deep yet.

        So pipelines that fuse the same rankings in different ways share them. ``by`` has to say everything besides the
        entries that they depend on.
        """
        found = self._computed(self._remembered, REMEMBERED, by, queries, k, search)
        return tuple([hits[:k] for hits in found])

    def worked_out(self, by: str, queries: Sequence[str], work_out: Callable[[Sequence[str]], Iterable[T]]) -> list[T]:
        """What ``work_out`` makes of each query, asked once for those that are not remembered (`WORKED_OUT`).

        ``by`` has to say everything besides the entries that it depends on.
        """
        return self._computed(self._worked_out, WORKED_OUT, by, queries, 0, work_out)

    def _computed(
        self,
        known: dict[tuple[str, str], tuple[int, Any]],
        entries: int,
        by: str,
        queries: Sequence[str],
        depth: int,
        compute: Callable[[Sequence[str]], Iterable[Any]],
    ) -> list[Any]:
        """The values of queries, of at least this depth: known ones, and those that ``compute`` makes of the others."""
        found = {query: known.get((by, query)) for query in queries}
        missing = [query for query, value in found.items() if value is None or value[0] < depth]
        if missing:
            if len(known) + len(missing) > entries:
                known.clear()
            for query, value in zip(missing, compute(missing), strict=True):
                found[query] = known[by, query] = depth, value
        return [value[1] for query in queries if (value := found[query]) is not None]

    @decides_no_value
    def built(self) -> tuple[dict[str, NDArray[np.floating]], dict[str, Any]]:
        """Copies of the vectors by embedder, and of what was derived by name."""
        return dict(self._vectors), dict(self._derived)  # without the lock, which is held while texts are embedded

    @decides_no_value
    def with_only(self, vectors: Mapping[str, Any], derived: Mapping[str, Any]) -> Index:
        """An index of the same entries with these vectors and derived values in place of its own."""
        other = copy(self)
        other._vectors, other._derived = dict(vectors), dict(derived)
        return other

    @decides_no_value
    def _register(self) -> None:
        register_cache(self.forget, key="a query, and how it is searched", entries=REMEMBERED + WORKED_OUT)

    @decides_no_value
    def forget(self) -> None:
        """Empty what is remembered by query; it is found again, and is the same."""
        self._remembered.clear()
        self._worked_out.clear()

    def own(self, hits: Iterable[Hit]) -> Hits:
        """Those of ``hits``, best first, whose chunks are entries."""
        own = tuple([hit for hit in hits if hit.chunk.id in self.positions])
        positions = [self.positions[hit.chunk.id] for hit in own]
        scores = [hit.score for hit in own]
        order = [(-score, position) for position, score in zip(positions, scores, strict=True)]
        is_ranking = all(one < other for one, other in pairwise(order)) and len(set(positions)) == len(order)
        same = all(hit.chunk == self.chunks[position] for hit, position in zip(own, positions, strict=True))
        plain = len({hit.scale for hit in own}) == 1 and not any(hit.survival for hit in own)
        if is_ranking and same and plain and self._told_apart:
            return LazyHits(self.chunks, tuple(positions), tuple(scores), own[0].scale)
        return own

    def _vectors_of(self, embedder: Embedder, start: int, end: int) -> NDArray[np.floating]:
        """Vectors of the keys ``[start, end)``; asked for all of them, those that `vectors` keeps."""
        if end - start == len(self.keys):
            return self.vectors(embedder)
        return embedder.embed(self.keys[start:end])

    def ranking(self, positions: NDArray[np.int64], scores: NDArray[np.float64], scale: Scale) -> Hits:
        """The entries at ``positions``, each once, by falling score and rising position."""
        ranking = LazyHits(self.chunks, tuple(positions.tolist()), tuple(scores.tolist()), scale)
        return ranking if self._told_apart else ranking.hits

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_lock": None, "_remembered": {}, "_worked_out": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()
        self._register()
