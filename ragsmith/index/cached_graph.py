"""An entity graph on a shelf: opened as it was built, without reading a name or a passage again.

To name entities and to read all passages for idf takes longer than all else that a start does with relations that are
kept. `EntityGraph` itself says nothing of it: its code is part of the identity of what retrieval finds.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ragsmith.digest import fingerprint
from ragsmith.index.artifact_cache import Arrays, ArtifactCache, ArtifactKey
from ragsmith.index.entity_graph import EntityGraph, Relation, Triple
from ragsmith.types import Chunks

_ARRAYS = "_subject", "_object", "_position", "_lengths", "_degree", "_starts", "_relations_of"
"""Attributes that are arrays."""


def kept_graph(
    of: str, chunks: Chunks, extractor: str, shelf: ArtifactCache, extracted: Callable[[], Sequence[Sequence[Triple]]]
) -> EntityGraph:
    """The entity graph of ``chunks``, of which ``of`` is the identity: from the shelf, or built of what is extracted.

    ``extractor`` is what reads relations, code and model; ``extracted`` has those of each chunk.
    """
    code = fingerprint(__name__, "graph_arrays"), fingerprint(__name__, "CachedGraph")
    address = ArtifactKey("entity graph", json.dumps([extractor, *code, unicodedata.unidata_version]), of)
    volume = shelf.read(address)
    if volume is not None:
        return CachedGraph(chunks, volume.arrays)
    graph = EntityGraph(chunks, extracted())
    shelf.write(address, graph_arrays(graph))
    return graph


def graph_arrays(graph: EntityGraph) -> Arrays:
    """Everything that `EntityGraph` works out, but for the chunks."""
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
    found: dict[str, NDArray[np.generic]] = {name: getattr(graph, name) for name in _ARRAYS}
    found["texts"] = np.frombuffer(json.dumps(texts).encode(), dtype=np.uint8)
    for name, held in postings.items():
        found[name] = np.concatenate([np.zeros(0, dtype=np.int64), *held.values()])
        found[f"{name}_ends"] = np.cumsum([len(positions) for positions in held.values()], dtype=int)
    return found


class CachedGraph(EntityGraph):
    """An `EntityGraph` that finds exactly what the one finds whose `graph_arrays` these are."""

    def __init__(self, chunks: Chunks, arrays: Arrays) -> None:
        texts = json.loads(arrays["texts"].tobytes())
        for name in ("id", "entities", "_texts", "_idf"):
            setattr(self, name, texts[name])
        for name in _ARRAYS:
            setattr(self, name, arrays[name])
        for name, terms in texts["terms"].items():
            bounds = pairwise([0, *arrays[f"{name}_ends"].tolist()])
            setattr(self, name, {term: arrays[name][a:b] for term, (a, b) in zip(terms, bounds, strict=True)})
        self._chunks = tuple(sorted(chunks, key=lambda chunk: chunk.id))
        self._names = tuple(self.entities)
        ends = self._subject.tolist(), self._object.tolist(), self._position.tolist()
        self.relations = tuple(
            Relation(self._names[subject], label, self._names[object_], self._chunks[position].id)
            for label, subject, object_, position in zip(texts["labels"], *ends, strict=True)
        )

    @cached_property
    def _of_trigram(self) -> dict[str, list[str]]:  # type: ignore[override]  # wanted for a misspelt word alone
        held = list(self._of_entity)
        spelled: dict[str, NDArray[np.int64]] = vars(self)["_spelled_with"]
        return {trigram: [held[i] for i in places.tolist()] for trigram, places in spelled.items()}
