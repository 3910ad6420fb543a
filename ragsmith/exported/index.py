"""A pipeline with its index on a shelf: opened where it is there, else built and put there for whoever comes next.

What a pre-embedding makes with models, and the relations that are read from chunks, are kept whole, by the corpus and
the models that they come from; words, vectors and chunk graphs are in `ragsmith.index.cached_index`, the entity graph
in `ragsmith.index.cached_graph`. Chunks, keys that are cut from them without a model, and scopes are made at each
start.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ragsmith.datasets.changes import DocumentChanges, changes, contents
from ragsmith.digest import digest, fingerprint
from ragsmith.errors import UsageError
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.pipeline import Pipeline
from ragsmith.index.artifact_cache import Arrays, ArtifactCache, ArtifactKey, packed, unpacked
from ragsmith.index.cached_graph import kept_graph
from ragsmith.index.cached_index import CachedIndex
from ragsmith.index.entity_graph import EXTRACT_RELATIONS, passage_of
from ragsmith.index.index import Corpus
from ragsmith.index.relations import Triple
from ragsmith.index.stores import open_vectors
from ragsmith.pipelines.engine import Engine, failing_as
from ragsmith.pipelines.genes import Gene
from ragsmith.types import Chunk, Chunks, Dataset, Entries, IndexEntry, Modality, Span

FOLDER = ".indexes"
"""What is appended to the name of a cache for the folder of its shelf."""

_ANY_QUERY = "what"
_OF_CHUNK = tuple(field.name for field in fields(Chunk) if field.name != "sources")  # which only summaries have


def shelf_beside(cache: str | Path) -> ArtifactCache:
    """The shelf of a cache: the folder beside its file; for a database server, one of this user on this machine.

    Arrays are mapped from files, so they have to lie on the machine that maps them.
    """
    place = str(cache)
    if place.startswith("sqlite:///"):
        place = place.removeprefix("sqlite:///")
    elif "://" in place or place.startswith(("postgresql:", "postgres:")):
        home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return ArtifactCache(Path(home, "ragsmith", "indexes"))
    return ArtifactCache(f"{place}{FOLDER}")


def open_with_index(pipeline: Pipeline, shelf: ArtifactCache, *, complete: bool = False) -> None:
    """Build what ``pipeline`` needs once for its collection, from ``shelf`` as far as it is there; keep the rest there.

    The pipeline answers as without it. What is only made for a query is made, and kept, with the first one; or at once,
    if the index is to be ``complete``. What cannot be kept is named in a `Notice`, and only costs
    the time to build it.

    Raises:
        StageFailed: the pre-embedding, or what retrieval derives from the index, fails.
    """
    engine, gene = pipeline.engine, pipeline.candidate[0]
    _note_documents(pipeline.setup.dataset, shelf)
    entries = _entries(engine, gene, shelf)
    with failing_as(gene.technique.family, gene.technique.name):
        models = engine.models
        engine.install_index(gene, CachedIndex(entries, shelf, partial(open_vectors, models.vectors_at)))
    if any("entity_graph" in gene.technique.tools.values() for gene in pipeline.candidate):
        _install_graph(engine, shelf)
    index, _ = engine.prepare(pipeline.candidate)
    if complete and engine.corpus.chunks:  # postings and scopes are made for the first query
        retrieval = next(gene for gene in pipeline.candidate if gene.technique.family == "retrieval")
        engine.call(retrieval, (index, (engine.corpus.chunks[0].title or _ANY_QUERY,)))


def changed_documents(pipeline: Pipeline, path: str | Path, shelf: ArtifactCache) -> DocumentChanges | None:
    """How the documents of ``pipeline`` differ from those that it was found on, as its file ``path`` names them.

    They are where the file says, unless they changed there: then ``shelf`` knows what they were if the pipeline was
    opened with it before. None if nobody knows.
    """
    now = contents(pipeline.setup.dataset.documents)
    volume = shelf.read(_documents_of(pipeline.found_on)) if pipeline.found_on else None
    if volume is not None:
        names, digests = (unpacked(volume.arrays[name], volume.arrays[f"{name}_ends"]) for name in ("names", "texts"))
        return changes(dict(zip(names, digests, strict=True)), now)
    try:
        then = ExportedFile(Path(path)).named_dataset()
    except UsageError:  # it is not there any more, or cannot be read
        return None
    if pipeline.found_on not in ("", then.digest):
        return None
    _note_documents(then, shelf)
    return changes(contents(then.documents), now)


def _documents_of(dataset: str) -> ArtifactKey:
    return ArtifactKey("documents", "", dataset)


def _note_documents(data: Dataset, shelf: ArtifactCache) -> None:
    """Keep what the documents of a data set are, so that it can be said later how others differ from them."""
    if shelf.read(_documents_of(data.digest)) is None:
        known = contents(data.documents)
        (names, names_ends), (texts, texts_ends) = packed(list(known)), packed(list(known.values()))
        shelf.write(
            _documents_of(data.digest),
            {"names": names, "names_ends": names_ends, "texts": texts, "texts_ends": texts_ends},
        )


def _entries(engine: Engine, gene: Gene, shelf: ArtifactCache) -> Entries:
    """What the pre-embedding makes of the corpus; kept if a model was asked for it."""
    chunks = engine.corpus.chunks
    models = engine.models
    asked = {"language_model": models.asked, "embedder": models.embedder, "cross_encoder": models.cross_encoder}
    tools = sorted(set(gene.technique.tools.values()))
    made_by = json.dumps([gene.identity, *(asked[tool].id for tool in tools if tool in asked)])
    address = ArtifactKey("entries", made_by, _identity(engine.corpus)) if tools else None
    volume = shelf.read(address) if address else None
    if volume is not None:
        return _read_entries(volume.arrays, chunks)
    entries, usage = engine.call(gene, (chunks,))
    engine.collection_usage.add(usage)
    if address and (usage.calls or usage.texts_embedded or usage.pairs_scored):
        shelf.write(address, _entry_arrays(entries, chunks))
    return tuple(entries)


def _identity(corpus: Corpus) -> str:
    """Of all that is made of chunks: models read their headings, too, which the cuts alone do not tell."""
    return digest("chunks", corpus.id, [[getattr(chunk, name) for name in _OF_CHUNK] for chunk in corpus.chunks])


def _entry_arrays(entries: Entries, chunks: Chunks) -> Arrays:
    positions = {chunk.id: position for position, chunk in enumerate(chunks)}
    own: list[str] = []
    places = []
    for entry in entries:
        place = positions.get(entry.chunk.id, -1)
        if place < 0 or chunks[place] != entry.chunk:  # a summary, or what a technique of one's own made of a chunk
            place = -1 - len(own)
            own.append(json.dumps(asdict(entry.chunk)))
        places.append(place)
    keys, ends = packed([key for entry in entries for key in entry.keys])
    made, made_ends = packed(own)
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
    keys = unpacked(arrays["keys"], arrays["ends"])
    made = [_read_chunk(json.loads(text)) for text in unpacked(arrays["made"], arrays["made_ends"])]
    found, start = [], 0
    for place, count in zip(arrays["places"].tolist(), arrays["counts"].tolist(), strict=True):
        chunk = chunks[place] if place >= 0 else made[-1 - place]
        found.append(IndexEntry(tuple(keys[start : start + count]), chunk))
        start += count
    return tuple(found)


def _read_chunk(known: dict[str, Any]) -> Chunk:
    spans = tuple(Span(**span) for span in known.pop("sources"))
    modality, headings = Modality(known.pop("modality")), tuple(known.pop("headings"))
    return Chunk(**known, modality=modality, headings=headings, sources=spans)


def _install_graph(engine: Engine, shelf: ArtifactCache) -> None:
    """Have the entity graph that is kept, or build it: of relations that are kept, or of those that a model reads."""
    chunks, of = engine.corpus.chunks, _identity(engine.corpus)
    extractor = json.dumps([fingerprint("ragsmith.index.entity_graph", "build_graph"), engine.models.asked.id])
    with failing_as("collection", "entity_graph"):
        graph = kept_graph(
            of, chunks, extractor, shelf, lambda: _relations(engine, shelf, ArtifactKey("relations", extractor, of))
        )
    engine.install_graph(graph)


def _relations(engine: Engine, shelf: ArtifactCache, address: ArtifactKey) -> Sequence[Sequence[Triple]]:
    """Of each chunk, what was read from it, or is now."""
    volume = shelf.read(address)
    if volume is not None:
        texts = unpacked(volume.arrays["content"], volume.arrays["ends"])
        return [[(s, label, o) for s, label, o in json.loads(text)] for text in texts]
    model = engine.gateway.language_model(engine.models.asked, engine.collection_usage)
    passages = [{"passage": passage_of(chunk)} for chunk in engine.corpus.chunks]
    found = model.run_all(EXTRACT_RELATIONS, passages)
    content, ends = packed([json.dumps(triples) for triples in found])
    shelf.write(address, {"content": content, "ends": ends})
    return found
