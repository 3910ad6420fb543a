"""Open a pipeline with its index from the artifact cache; missing parts are built and stored.

Index entries that a pre-embedding creates with models, and relations extracted from chunks, are stored by corpus and
models; `ragsmith.index.cached_index` stores words, vectors, chunk graphs and the entity graph. Chunks, keys that need
no model, and scopes are rebuilt at each start.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path

import numpy as np

from ragsmith.datasets.changes import DocumentChanges, compare_contents, content_digests
from ragsmith.digest import digest, fingerprint
from ragsmith.errors import UsageError
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.pipeline import Pipeline
from ragsmith.index.artifact_cache import Arrays, ArtifactCache, ArtifactKey, pack_texts, unpack_texts
from ragsmith.index.cached_index import CachedIndex, load_graph
from ragsmith.index.entity_graph import EXTRACT_RELATIONS, format_passage
from ragsmith.index.index import Corpus
from ragsmith.index.relations import Triple
from ragsmith.index.stores import open_vector_store
from ragsmith.pipelines.engine import Engine, stage_errors
from ragsmith.pipelines.genes import Gene
from ragsmith.text.restoring import restore
from ragsmith.types import Chunk, Chunks, Dataset, Entries, IndexEntry, Modality

FOLDER = ".indexes"
"""Suffix of the folder of artifacts, which is appended to the path of the cache."""

_ANY_QUERY = "what"
"""The query that builds an index if the first document has no title."""

_CHUNK_FIELDS = tuple(field.name for field in fields(Chunk) if field.name != "sources")  # only summaries have sources


def artifact_cache_for(cache: str | Path) -> ArtifactCache:
    """Return the artifact cache of a cache: a folder next to its file, or in the user's cache folder for a server.

    Arrays are memory-mapped, so the files must be on this machine.
    """
    place = str(cache)
    if place.startswith("sqlite:///"):
        place = place.removeprefix("sqlite:///")
    elif "://" in place or place.startswith(("postgresql:", "postgres:")):
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return ArtifactCache(Path(home, "ragsmith", "indexes"))
    return ArtifactCache(f"{place}{FOLDER}")


def open_with_index(pipeline: Pipeline, artifacts: ArtifactCache, *, complete: bool = False) -> None:
    """Build the index of ``pipeline``, reading its parts from ``artifacts`` if possible and storing the others.

    Answers do not depend on the artifacts. Parts that only queries need are built by the first query, or now if
    ``complete``. A `Notice` names the parts that cannot be stored.

    Raises:
        StageFailed: the pre-embedding fails, or the retrieval technique fails to prepare the index.
    """
    engine, gene = pipeline.engine, pipeline.candidate[0]
    _store_documents(pipeline.setup.dataset, artifacts)
    entries = _build_entries(engine, gene, artifacts)
    with stage_errors(gene.technique.family, gene.technique.name):
        models = engine.models
        engine.install_index(
            gene, CachedIndex(entries, artifacts, partial(open_vector_store, models.vector_store_address))
        )
    if any("entity_graph" in gene.technique.tools.values() for gene in pipeline.candidate):
        _install_graph(engine, artifacts)
    index, _ = engine.prepare(pipeline.candidate)
    if complete and engine.corpus.chunks:  # postings and scopes are built for the first query
        retrieval = next(gene for gene in pipeline.candidate if gene.technique.family == "retrieval")
        engine.call(retrieval, (index, (engine.corpus.chunks[0].title or _ANY_QUERY,)))


def changed_documents(pipeline: Pipeline, path: str | Path, artifacts: ArtifactCache) -> DocumentChanges | None:
    """Return the changes of the documents of ``pipeline`` since it was found, or None if they are unknown.

    ``path`` is the file of the pipeline. The digests of the earlier documents are read from ``artifacts`` if they are
    stored, otherwise the documents of the file must be unchanged.
    """
    now = content_digests(pipeline.setup.dataset.documents)
    stored = artifacts.read(_documents_key(pipeline.found_on)) if pipeline.found_on else None
    if stored is not None:
        names, digests = (
            unpack_texts(stored.arrays[name], stored.arrays[f"{name}_ends"]) for name in ("names", "texts")
        )
        return compare_contents(dict(zip(names, digests, strict=True)), now)
    try:
        then = ExportedFile(Path(path)).named_dataset()
    except UsageError:  # missing, or unreadable
        return None
    if pipeline.found_on not in ("", then.digest):
        return None
    _store_documents(then, artifacts)
    return compare_contents(content_digests(then.documents), now)


def _documents_key(dataset: str) -> ArtifactKey:
    return ArtifactKey("documents", "", dataset)


def _store_documents(data: Dataset, artifacts: ArtifactCache) -> None:
    """Store the digests of the documents of a data set, for later comparisons."""
    if artifacts.read(_documents_key(data.digest)) is None:
        known = content_digests(data.documents)
        (names, names_ends), (texts, texts_ends) = pack_texts(list(known)), pack_texts(list(known.values()))
        artifacts.write(
            _documents_key(data.digest),
            {"names": names, "names_ends": names_ends, "texts": texts, "texts_ends": texts_ends},
        )


def _build_entries(engine: Engine, gene: Gene, artifacts: ArtifactCache) -> Entries:
    """Return the index entries of the corpus, and store them if the pre-embedding used a model."""
    chunks = engine.corpus.chunks
    models = engine.models
    models_by_tool = {
        "language_model": models.technique_model,
        "embedder": models.embedder,
        "cross_encoder": models.cross_encoder,
    }
    tools = sorted(set(gene.technique.tools.values()))
    creator = json.dumps([gene.identity, *(models_by_tool[tool].id for tool in tools if tool in models_by_tool)])
    key = ArtifactKey("entries", creator, _chunks_digest(engine.corpus)) if tools else None
    stored = artifacts.read(key) if key else None
    if stored is not None:
        return _read_entries(stored.arrays, chunks)
    entries, usage = engine.call(gene, (chunks,))
    engine.collection_usage.add(usage)
    if key and (usage.calls or usage.texts_embedded or usage.pairs_scored):
        artifacts.write(key, _entry_arrays(entries, chunks))
    return tuple(entries)


def _chunks_digest(corpus: Corpus) -> str:
    """Return the digest of chunks with their headings, which prompts contain, but the corpus id does not."""
    return digest("chunks", corpus.id, [[getattr(chunk, name) for name in _CHUNK_FIELDS] for chunk in corpus.chunks])


def _entry_arrays(entries: Entries, chunks: Chunks) -> Arrays:
    positions = {chunk.id: position for position, chunk in enumerate(chunks)}
    new_chunks: list[str] = []
    places = []
    for entry in entries:
        place = positions.get(entry.chunk.id, -1)
        if place < 0 or chunks[place] != entry.chunk:  # a summary, or a chunk changed by a technique
            place = -1 - len(new_chunks)
            new_chunks.append(json.dumps(asdict(entry.chunk)))
        places.append(place)
    keys, ends = pack_texts([key for entry in entries for key in entry.keys])
    made, made_ends = pack_texts(new_chunks)
    counts = np.array([len(entry.keys) for entry in entries], dtype=np.int64)
    return {
        "keys": keys,
        "ends": ends,
        "counts": counts,
        "places": np.array(places, dtype=np.int64),
        "made": made,
        "made_ends": made_ends,
    }


def _read_entries(arrays: Arrays, chunks: Chunks) -> Entries:
    keys = unpack_texts(arrays["keys"], arrays["ends"])
    texts = unpack_texts(arrays["made"], arrays["made_ends"])
    made = [restore(Chunk, json.loads(text), {Modality: Modality}) for text in texts]
    found, start = [], 0
    for place, count in zip(arrays["places"].tolist(), arrays["counts"].tolist(), strict=True):
        chunk = chunks[place] if place >= 0 else made[-1 - place]
        found.append(IndexEntry(tuple(keys[start : start + count]), chunk))
        start += count
    return tuple(found)


def _install_graph(engine: Engine, artifacts: ArtifactCache) -> None:
    """Install the stored entity graph, or build it from relations, which are stored or extracted by a model."""
    chunks, chunks_digest = engine.corpus.chunks, _chunks_digest(engine.corpus)
    extractor = json.dumps(
        [fingerprint("ragsmith.index.entity_graph", "build_graph"), engine.models.technique_model.id]
    )
    with stage_errors("collection", "entity_graph"):
        graph = load_graph(
            chunks_digest,
            chunks,
            extractor,
            artifacts,
            lambda: _extract_relations(engine, artifacts, ArtifactKey("relations", extractor, chunks_digest)),
        )
    engine.install_graph(graph)


def _extract_relations(engine: Engine, artifacts: ArtifactCache, key: ArtifactKey) -> Sequence[Sequence[Triple]]:
    """Return the relations of each chunk, which are extracted and stored if they are missing."""
    stored = artifacts.read(key)
    if stored is not None:
        texts = unpack_texts(stored.arrays["content"], stored.arrays["ends"])
        return [[(s, label, o) for s, label, o in json.loads(text)] for text in texts]
    model = engine.gateway.language_model(engine.models.technique_model, engine.collection_usage)
    passages = [{"passage": format_passage(chunk)} for chunk in engine.corpus.chunks]
    found = model.run_all(EXTRACT_RELATIONS, passages)
    content, ends = pack_texts([json.dumps(triples) for triples in found])
    artifacts.write(key, {"content": content, "ends": ends})
    return found
