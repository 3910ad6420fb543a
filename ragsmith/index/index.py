"""The corpus, and the index over the entries of a pre-embedding.

BM25 statistics are computed on first use, vectors once per embedder. Search is exact in every exact vector store
(`vector_store`). The score of a chunk with several keys is that of its best key, so that ``k`` counts distinct chunks.
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
from ragsmith.digest import digest, not_fingerprinted
from ragsmith.index.screening import compute_best_cosines
from ragsmith.index.top import best_positions
from ragsmith.index.vector_store import Keys, MakeVectors, OpenStore, VectorStore, make_keys_name, to_memory_precision
from ragsmith.index.vector_stores.exact import ExactVectors
from ragsmith.models.protocols import Embedder, Vectors
from ragsmith.text.bm25 import BM25, Occurrences
from ragsmith.text.languages import ENGLISH
from ragsmith.types import Chunk, Chunks, Document, Entries, Hit, Hits, LazyHits, Rankings, Scale, Span

T = TypeVar("T")

MAX_RANKINGS = 4096
"""Maximum number of cached rankings of an index; a question has a few, by words, vectors and the entity graph."""

MAX_COMPUTED_QUERIES = 256
"""Maximum number of queries with cached values of an index, as pipelines process the same question in succession."""


class Corpus:
    """Documents and their chunks."""

    def __init__(self, documents: Sequence[Document], chunks: Chunks) -> None:
        self.documents = {document.id: document for document in documents}
        self.chunks = chunks
        self.id = digest(
            "corpus",
            [(d.id, d.title, d.text) for d in documents],
            [(c.id, c.start, c.end) for c in chunks],
            *_list_languages(chunks),
        )
        self._of_document: dict[str, list[Chunk]] = {}
        for chunk in chunks:
            self._of_document.setdefault(chunk.doc, []).append(chunk)

    def get_neighbours(self, chunk: Chunk, before: int, after: int) -> Chunks:
        """Return ``chunk`` with up to ``before`` and ``after`` neighbours in reading order; a summary has none."""
        if chunk.level:
            return (chunk,)
        siblings = self._of_document[chunk.doc]
        return tuple(siblings[max(0, chunk.index - before) : chunk.index + after + 1])

    def get_span(self, doc: str, first: int, last: int) -> Span:
        """Return the span of the chunks ``first`` to ``last`` of a document, 0-based and inclusive."""
        chunks = self._of_document[doc][first : last + 1]
        return Span(doc, chunks[0].start, max(chunk.end for chunk in chunks))

    def text(self, span: Span) -> str:
        """Return the text of a span."""
        return self.documents[span.doc].text[span.start : span.end]


def _list_languages(chunks: Iterable[Chunk]) -> list[list[str]]:
    """Return the languages of ``chunks`` for a cache key; empty if all are English."""
    languages = [chunk.language for chunk in chunks]
    return [languages] if set(languages) - {ENGLISH} else []


def embed_queries(embedder: Embedder, queries: Sequence[str]) -> Vectors:
    """Embed queries, which asymmetric models embed differently from documents."""
    embed = getattr(embedder, "embed_queries", embedder.embed)
    vectors: Vectors = embed(queries)
    return vectors


class Index:
    """An index over entries with lexical and vector search."""

    admitted: NDArray[np.bool_] | None = None
    """Which entries can be found, shape ``(entries,)``; None if all can."""
    _whole: Index | None = None

    def __init__(self, entries: Entries, open_store: OpenStore = ExactVectors) -> None:
        """``open_store`` opens the vector store that `by_vector` searches."""
        self.entries = tuple(sorted(entries, key=lambda entry: entry.chunk.id))
        positions = [(c.doc, c.index, c.section, c.modality, c.level) for c in (entry.chunk for entry in self.entries)]
        self.id = digest(
            "index",
            [(entry.chunk.id, entry.chunk.text, entry.keys) for entry in self.entries],
            positions,
            *_list_languages(entry.chunk for entry in self.entries),
        )
        self.keys = tuple(key for entry in self.entries for key in entry.keys)
        sizes = [len(entry.keys) for entry in self.entries]
        if 0 in sizes:
            raise ValueError(f"chunk {self.entries[sizes.index(0)].chunk.id} has no key: it could never be found")
        starts = np.cumsum([0, *sizes[:-1]]) if sizes else np.zeros(0, dtype=np.int64)
        self.chunks = tuple(entry.chunk for entry in self.entries)
        ids = [chunk.id for chunk in self.chunks]
        self._has_unique_ids = all(first < second for first, second in pairwise(ids))
        self._keys = Keys(self.id, starts, len(self.keys))
        self._open_store = open_store
        self._vectors: dict[str, NDArray[np.floating]] = {}
        self._derived: dict[str, Any] = {}
        self._rankings: dict[tuple[str, str], tuple[int, Hits]] = {}
        self._computed_values: dict[tuple[str, str], tuple[int, Any]] = {}
        self._lock = threading.RLock()
        self._register()

    @cached_property
    def _bm25(self) -> BM25:
        return BM25(self.keys, languages=[entry.chunk.language for entry in self.entries for _ in entry.keys])

    def restrict(self, admitted: NDArray[np.bool_]) -> Index:
        """Return an index in which only the entries that are ``admitted`` can be found, with their scores in this one.

        Entries keep their positions. Vectors and derived values are shared.
        """
        other = copy(self)
        other.admitted, other._whole, other.id = admitted, self, f"{self.id} {digest(admitted.tolist())}"
        other._rankings, other._computed_values = {}, {}
        other._register()
        return other

    @cached_property
    def positions(self) -> dict[str, int]:
        """The position of each entry by chunk id."""
        return {entry.chunk.id: position for position, entry in enumerate(self.entries)}

    def vectors(self, embedder: Embedder) -> NDArray[np.floating]:
        """Return vectors of all keys, shape ``(len(keys), dimensions)``, embedded once per embedder."""
        with self._lock:
            if embedder.id not in self._vectors:
                self._vectors[embedder.id] = self._embedded(embedder)
            return self._vectors[embedder.id]

    def vector_store(self, embedder: Embedder) -> VectorStore:
        """Return the store that `by_vector` searches, opened once and filled with the vectors of all keys.

        Raises:
            UsageError: the store cannot be opened.
            ModelUnavailable: the server is down or refuses the connection.
        """
        keys = replace(self._keys, name=make_keys_name(self.id, embedder.id))
        make = self._vector_maker(embedder)
        return self.derived(f"vector store {embedder.id}", lambda: self._open_store(keys, make))

    def _embedded(self, embedder: Embedder) -> NDArray[np.floating]:
        return to_memory_precision(embedder.embed(self.keys))

    def _vector_maker(self, embedder: Embedder) -> MakeVectors:
        return partial(self._vectors_of, embedder)

    def derived(self, name: str, build: Callable[[], T]) -> T:
        """Return the value of ``build``, computed once and cached with this index, such as scopes or graphs.

        ``name`` must identify everything the value depends on besides the entries: the id of an embedder, parameters.
        """
        with self._lock:
            if name not in self._derived:
                self._derived[name] = build()
            return cast(T, self._derived[name])

    @property
    def cached_names(self) -> frozenset[str]:
        """The ids of embedders with cached vectors, and the names of derived values."""
        return frozenset([*self._vectors, *self._derived])

    def copy_cached_from(self, other: Index) -> None:
        """Copy the vectors and derived values of ``other``, an index of the same entries."""
        with self._lock:
            for embedder, vectors in tuple(other._vectors.items()):
                self._vectors.setdefault(embedder, vectors)
            for name, value in tuple(other._derived.items()):
                self._derived.setdefault(name, value)

    def occurrences(self, query: str, positions: NDArray[np.int64]) -> tuple[Occurrences, NDArray[np.int64]]:
        """Return the occurrences of the terms of ``query`` in the keys of the entries at ``positions``.

        The second value is the index in ``positions`` of the entry of each key.
        """
        sizes = np.array([len(self.entries[position].keys) for position in positions.tolist()], dtype=np.int64)
        owner = np.repeat(np.arange(len(positions)), sizes)
        within = np.arange(len(owner)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return (self._whole or self)._bm25.occurrences(query, self._keys.starts[positions][owner] + within), owner

    def joined_words(self, units: NDArray[np.int64]) -> BM25:
        """Return BM25 statistics over texts that join the keys of entries: entry ``i`` is part of text ``units[i]``."""
        return (self._whole or self)._bm25.joined(np.repeat(units, [len(entry.keys) for entry in self.entries]))

    def word_scores(self, query: str) -> NDArray[np.float64]:
        """Return the BM25 score of every entry, that of its best key, to 6 decimals: shape ``(entries,)``.

        The score of an entry that cannot be found is 0.
        """
        scores = self._keys.entry_scores((self._whole or self)._bm25.scores(query))
        return scores if self.admitted is None else scores * self.admitted

    def cosines(self, queries: NDArray[np.float64], embedder: Embedder, k: int) -> NDArray[np.float64]:
        """Return the cosines of query vectors, shape ``(queries, dimensions)``, with the best keys of entries.

        They are rounded to 6 decimals and have shape ``(queries, entries)``; for a large index, only those of the ``k``
        best entries are computed (`compute_best_cosines`). In double precision the sixth decimal does not depend on the
        number of queries multiplied at a time. Entries that cannot be found are `screening.UNSCORED`.
        """
        return compute_best_cosines(self._keys, queries, self.vectors(embedder), k, self.admitted)

    def by_words(self, queries: Sequence[str], k: int) -> Rankings:
        """Return the ``k`` best chunks for each query by BM25, only chunks that share a term with it."""

        def search(missing: Sequence[str]) -> Iterator[Hits]:
            for query in missing:
                scores = self.word_scores(query)
                best = best_positions(scores, k, positive=True)
                yield self.ranking(best, scores[best], Scale.BM25)

        return self.search_cached("words", queries, k, search)

    def by_vector(self, queries: Sequence[str], k: int, embedder: Embedder) -> Rankings:
        """Return the ``k`` best chunks for each query by cosine similarity; without queries, only open the store."""
        if not self.keys:
            return tuple(() for _ in queries)
        store = self.vector_store(embedder)
        if not queries:
            return ()
        vectors = dict(zip(queries, embed_queries(embedder, queries), strict=True))

        def search(missing: Sequence[str]) -> Iterator[Hits]:
            wanted = np.stack([vectors[query] for query in missing])
            found = store.search(wanted, k) if self.admitted is None else store.search(wanted, k, self.admitted)
            for positions, scores in zip(*found, strict=True):
                yield self.ranking(positions, scores, Scale.COSINE)

        return self.search_cached(f"vectors {embedder.id}", queries, k, search)

    def search_cached(
        self, by: str, queries: Sequence[str], k: int, search: Callable[[Sequence[str]], Iterable[Hits]]
    ) -> Rankings:
        """Return the ``k`` best hits for each query; ``search`` is called once for queries not cached to this depth.

        Pipelines that fuse the same rankings in different ways share them. ``by`` must identify everything that
        rankings depend on besides the entries.
        """
        found = self._computed(self._rankings, MAX_RANKINGS, by, queries, k, search)
        return tuple([hits[:k] for hits in found])

    def compute_cached(
        self, by: str, queries: Sequence[str], compute: Callable[[Sequence[str]], Iterable[T]]
    ) -> list[T]:
        """Return the value of each query; ``compute`` is called once for queries that are not cached.

        ``by`` must identify everything that values depend on besides the entries.
        """
        return self._computed(self._computed_values, MAX_COMPUTED_QUERIES, by, queries, 0, compute)

    def _computed(
        self,
        known: dict[tuple[str, str], tuple[int, Any]],
        entries: int,
        by: str,
        queries: Sequence[str],
        depth: int,
        compute: Callable[[Sequence[str]], Iterable[Any]],
    ) -> list[Any]:
        """Return the values of queries to at least ``depth``, computing those that are not cached."""
        found = {query: known.get((by, query)) for query in queries}
        missing = [query for query, value in found.items() if value is None or value[0] < depth]
        if missing:
            if len(known) + len(missing) > entries:
                known.clear()
            for query, value in zip(missing, compute(missing), strict=True):
                found[query] = known[by, query] = depth, value
        return [value[1] for query in queries if (value := found[query]) is not None]

    @not_fingerprinted
    def get_cached(self) -> tuple[dict[str, NDArray[np.floating]], dict[str, Any]]:
        """Return copies of the vectors by embedder and of the derived values by name."""
        return dict(self._vectors), dict(self._derived)  # without the lock, which is held while texts are embedded

    @not_fingerprinted
    def copy_with(self, vectors: Mapping[str, Any], derived: Mapping[str, Any]) -> Index:
        """Return an index of the same entries with these vectors and derived values."""
        other = copy(self)
        other._vectors, other._derived = dict(vectors), dict(derived)
        return other

    @not_fingerprinted
    def _register(self) -> None:
        register_cache(self.forget, key="a query, and how it is searched", entries=MAX_RANKINGS + MAX_COMPUTED_QUERIES)

    @not_fingerprinted
    def forget(self) -> None:
        """Clear the caches by query."""
        self._rankings.clear()
        self._computed_values.clear()

    def select_own(self, hits: Iterable[Hit]) -> Hits:
        """Return the ``hits`` whose chunks are entries, best first."""
        own = tuple([hit for hit in hits if hit.chunk.id in self.positions])
        positions = [self.positions[hit.chunk.id] for hit in own]
        scores = [hit.score for hit in own]
        order = [(-score, position) for position, score in zip(positions, scores, strict=True)]
        is_ranking = all(one < other for one, other in pairwise(order)) and len(set(positions)) == len(order)
        same = all(hit.chunk == self.chunks[position] for hit, position in zip(own, positions, strict=True))
        plain = len({hit.scale for hit in own}) == 1 and not any(hit.survival for hit in own)
        if is_ranking and same and plain and self._has_unique_ids:
            return LazyHits(self.chunks, tuple(positions), tuple(scores), own[0].scale)
        return own

    def _vectors_of(self, embedder: Embedder, start: int, end: int) -> NDArray[np.floating]:
        """Return vectors of the keys ``[start, end)``; those of all keys are cached by `vectors`."""
        if end - start == len(self.keys):
            return self.vectors(embedder)
        return embedder.embed(self.keys[start:end])

    def ranking(self, positions: NDArray[np.int64], scores: NDArray[np.float64], scale: Scale) -> Hits:
        """Return a ranking of the entries at distinct ``positions``, sorted by descending score, then position."""
        ranking = LazyHits(self.chunks, tuple(positions.tolist()), tuple(scores.tolist()), scale)
        return ranking if self._has_unique_ids else ranking.hits

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_lock": None, "_rankings": {}, "_computed_values": {}}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.RLock()
        self._register()
