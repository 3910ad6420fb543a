"""Indexes and entity graphs in an artifact cache.

The terms and the vector of a text depend on the text alone and are reused from earlier artifacts, so that only new
texts of a grown corpus are tokenised and embedded. Statistics of all texts (idf, lengths, postings) are computed again.
Lexical statistics equal those of a new index bit for bit, as do vectors of an embedder that embeds texts separately; an
embedder that batches texts may differ in the last bits.

Building an entity graph from stored relations would dominate the start. Its serialisation is defined here, as the code
of `EntityGraph` is part of the cache key of retrieval results.
"""

import json
import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ragsmith.digest import fingerprint
from ragsmith.index.artifact_cache import (
    Arrays,
    ArtifactCache,
    ArtifactKey,
    digest_texts,
    gather_rows,
    match_rows,
    pack_texts,
    unpack_texts,
)
from ragsmith.index.chunk_graph import ChunkGraph
from ragsmith.index.entity_graph import EntityGraph, Relation, Triple
from ragsmith.index.index import Index
from ragsmith.index.vector_store import MakeVectors, OpenStore, TextPositions, to_memory_precision
from ragsmith.index.vector_stores.exact import ExactVectors
from ragsmith.models.protocols import Embedder
from ragsmith.text.bm25 import BM25
from ragsmith.text.languages import ENGLISH
from ragsmith.text.words import terms, tokeniser_for
from ragsmith.types import Chunks, Entries

T = TypeVar("T")

_CHUNK_GRAPH = "chunk graph "
_BM25_PARAMETERS = 1.2, 0.75
"""k1 and b, the defaults of `BM25`."""


class CachedIndex(Index):
    """An `Index` whose statistics and vectors are stored in an artifact cache."""

    def __init__(self, entries: Entries, cache: ArtifactCache, open_store: OpenStore = ExactVectors) -> None:
        super().__init__(entries, open_store)
        self._cache = cache

    @cached_property
    def _bm25(self) -> BM25:
        languages = [entry.chunk.language for entry in self.entries for _ in entry.keys]
        return load_bm25(self.id, self.keys, languages, self._cache)

    def _embedded(self, embedder: Embedder) -> NDArray[np.floating]:
        return load_vectors(self.id, self.keys, embedder, self._cache)

    def _vector_maker(self, embedder: Embedder) -> MakeVectors:
        return TextPositions(self.keys, embedder, super()._vector_maker(embedder))

    def derived(self, name: str, build: Callable[[], T]) -> T:
        """See `Index.derived`."""
        if not name.startswith(_CHUNK_GRAPH):
            return super().derived(name, build)
        made_by = f"{name} {fingerprint('ragsmith.index.chunk_graph', 'get_chunk_graph')}"
        key = ArtifactKey("chunk graph", made_by, self.id)

        def load() -> T:
            artifact = self._cache.read(key)
            if artifact is not None:
                return cast(T, ChunkGraph(**artifact.arrays))
            graph = cast(ChunkGraph, build())
            self._cache.write(key, {field: getattr(graph, field) for field in ChunkGraph.__dataclass_fields__})
            return cast(T, graph)

        return super().derived(name, load)


def load_vectors(of: str, keys: Sequence[str], embedder: Embedder, cache: ArtifactCache) -> NDArray[np.floating]:
    """Return the vectors of ``keys``, identified by ``of``; missing ones are embedded and stored."""
    key = ArtifactKey("vectors", embedder.id, of)
    artifact = cache.read(key)
    if artifact is None:
        if not keys:
            return to_memory_precision(embedder.embed(keys))
        rows = digest_texts(keys)
        earlier = ((other.arrays["rows"], other.arrays["vectors"]) for other in cache.iter_recent(key))
        taken, missing = match_rows(rows, earlier)
        if len(missing):
            new = embedder.embed([keys[i] for i in missing.tolist()])
            taken.append((new, missing, np.arange(len(new))))
        made = to_memory_precision(gather_rows(len(keys), taken))
        if not cache.write(key, {"rows": rows, "vectors": made}):
            return made
        artifact = cache.read(key)
        if artifact is None:
            return made
    return artifact.arrays["vectors"]


def load_bm25(of: str, keys: Sequence[str], languages: Sequence[str], cache: ArtifactCache) -> BM25:
    """Return BM25 statistics over ``keys``, identified by ``of``; only texts in no artifact are tokenised."""
    made_by = f"{fingerprint('ragsmith.text.bm25', 'BM25')} {unicodedata.unidata_version}"  # the tokeniser
    key = ArtifactKey("words", made_by, of)
    artifact = cache.read(key)
    if artifact is not None:
        return _CachedBM25(artifact.arrays, languages)
    rows = digest_texts([key if own == ENGLISH else f"{own}\0{key}" for key, own in zip(keys, languages, strict=True)])
    vocabulary, tokens, counts = _tokenise(key, rows, keys, languages, cache)
    words, ends = pack_texts(vocabulary)
    arrays: dict[str, NDArray[Any]] = {"rows": rows, "words": words, "ends": ends, "tokens": tokens, "counts": counts}
    built = _CachedBM25(arrays, languages)
    cache.write(key, {**arrays, **built.postings})
    return built


class _CachedBM25(BM25):
    """BM25 from stored tokens."""

    def __init__(self, arrays: Arrays, languages: Sequence[str]) -> None:
        self._tokenise = tokeniser_for(languages)
        self._languages = tuple(sorted(set(languages)))
        self._constants = _BM25_PARAMETERS
        words = unpack_texts(arrays["words"], arrays["ends"])
        self._vocabulary = dict(zip(words, range(len(words)), strict=True))
        self._arrays = arrays
        self._size = len(arrays["counts"])
        if "gains" in arrays:
            self._gains, self._rows, self._cuts = arrays["gains"], arrays["columns"], arrays["cuts"]
            self._tokens, self._texts = arrays["tokens"], arrays["texts"]
        else:
            texts = np.repeat(np.arange(self._size, dtype=np.int32), arrays["counts"])
            self._index(arrays["tokens"], texts, self._size)

    @property
    def postings(self) -> dict[str, NDArray[Any]]:
        """The arrays computed from all texts."""
        return {"gains": self._gains, "columns": self._rows, "cuts": self._cuts, "texts": self._texts}


def _tokenise(
    key: ArtifactKey, rows: NDArray[np.uint8], keys: Sequence[str], languages: Sequence[str], cache: ArtifactCache
) -> tuple[list[str], NDArray[np.int32], NDArray[np.int64]]:
    """Return the vocabulary in order of first occurrence, the token ids text by text, and the lengths of texts."""
    ids: dict[str, int] = {}
    parts: list[NDArray[np.int32] | None] = [None] * len(keys)
    taken, missing = match_rows(rows, ((other.arrays["rows"], other.arrays) for other in cache.iter_recent(key)))
    for arrays, own, places in taken:
        words = unpack_texts(arrays["words"], arrays["ends"])
        renamed = np.array([ids.setdefault(word, len(ids)) for word in words], dtype=np.int32)
        tokens = renamed[arrays["tokens"]] if len(renamed) else arrays["tokens"]
        ends = np.cumsum(arrays["counts"])
        for text, place in zip(own.tolist(), places.tolist(), strict=True):
            parts[text] = tokens[ends[place] - arrays["counts"][place] : ends[place]]
    for text in missing.tolist():
        read = terms(keys[text]) if languages[text] == ENGLISH else terms(keys[text], languages[text])
        parts[text] = np.array([ids.setdefault(word, len(ids)) for word in read], dtype=np.int32)
    whole = [part for part in parts if part is not None]
    counts = np.array([len(part) for part in whole], dtype=np.int64)
    tokens = np.concatenate(whole) if whole else np.zeros(0, dtype=np.int32)
    return *_renumber_tokens(list(ids), tokens), counts


def _renumber_tokens(words: list[str], tokens: NDArray[np.int32]) -> tuple[list[str], NDArray[np.int32]]:
    """Return the occurring ``words`` in order of first occurrence, and ``tokens`` renumbered accordingly."""
    first = np.full(len(words), len(tokens), dtype=np.int64)
    first[tokens[::-1]] = np.arange(len(tokens))[::-1]  # the last assignment, of the first position, wins
    order = np.argsort(first, kind="stable")[: int((first < len(tokens)).sum())]
    numbers = np.zeros(len(words), dtype=np.int32)
    numbers[order] = np.arange(len(order), dtype=np.int32)
    return [words[i] for i in order.tolist()], numbers[tokens]


_ARRAY_ATTRIBUTES = "_subject", "_object", "_position", "_lengths", "_degree", "_starts", "_relations_of"
"""The attributes of an `EntityGraph` that are arrays."""


def load_graph(
    of: str, chunks: Chunks, extractor: str, cache: ArtifactCache, extracted: Callable[[], Sequence[Sequence[Triple]]]
) -> EntityGraph:
    """Return the entity graph of ``chunks``, identified by ``of``; it is built and stored if it is missing.

    ``extractor`` identifies the code and model of the extraction; ``extracted`` returns the triples of each chunk.
    """
    code = fingerprint(__name__, "graph_to_arrays"), fingerprint(__name__, "CachedGraph")
    key = ArtifactKey("entity graph", json.dumps([extractor, *code, unicodedata.unidata_version]), of)
    artifact = cache.read(key)
    if artifact is not None:
        return CachedGraph(chunks, artifact.arrays)
    graph = EntityGraph(chunks, extracted())
    cache.write(key, graph_to_arrays(graph))
    return graph


def graph_to_arrays(graph: EntityGraph) -> Arrays:
    """Return the computed attributes of an `EntityGraph` as arrays."""
    number = {term: position for position, term in enumerate(graph._of_entity)}
    alike = {key: np.array([number[term] for term in held]) for key, held in graph._of_trigram.items()}
    postings = {"_of_entity": graph._of_entity, "_of_relation": graph._of_relation, "_spelled_with": alike}
    texts = {
        "id": graph.id,
        "entities": graph.entities,
        "labels": [relation.label for relation in graph.relations],
        "_texts": graph._texts,
        "_idf": graph._idf,
        "terms": {name: list(held) for name, held in postings.items()},
    }
    found: dict[str, NDArray[np.generic]] = {name: getattr(graph, name) for name in _ARRAY_ATTRIBUTES}
    found["texts"] = np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8)
    for name, held in postings.items():
        found[name] = np.concatenate([np.zeros(0, dtype=np.int64), *held.values()])
        found[f"{name}_ends"] = np.cumsum([len(positions) for positions in held.values()], dtype=int)
    return found


class CachedGraph(EntityGraph):
    """An `EntityGraph` restored from `graph_to_arrays`."""

    def __init__(self, chunks: Chunks, arrays: Arrays) -> None:
        texts = json.loads(arrays["texts"].tobytes())
        for name in ("id", "entities", "_texts", "_idf"):
            setattr(self, name, texts[name])
        for name in _ARRAY_ATTRIBUTES:
            setattr(self, name, arrays[name])
        for name, held in texts["terms"].items():
            bounds = pairwise([0, *arrays[f"{name}_ends"].tolist()])
            setattr(self, name, {term: arrays[name][a:b] for term, (a, b) in zip(held, bounds, strict=True)})
        self.chunks = tuple(sorted(chunks, key=lambda chunk: chunk.id))
        self._names = tuple(self.entities)
        ends = self._subject.tolist(), self._object.tolist(), self._position.tolist()
        self.relations = tuple(
            Relation(self._names[subject], label, self._names[object_], self.chunks[position].id)
            for label, subject, object_, position in zip(texts["labels"], *ends, strict=True)
        )

    @cached_property
    def _of_trigram(self) -> dict[str, list[str]]:  # type: ignore[override]  # only needed for misspelt words
        held = list(self._of_entity)
        spelled: dict[str, NDArray[np.int64]] = vars(self)["_spelled_with"]
        return {trigram: [held[i] for i in places.tolist()] for trigram, places in spelled.items()}
