"""An entity graph on a shelf: opened as it was built, without reading a name or a passage again.

To name entities and to read all passages for idf takes longer than all else that a start does with relations that are
kept. `EntityGraph` itself says nothing of it: its code is part of the identity of what retrieval finds.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ragsmith.digest import fingerprint
from ragsmith.index.artifact_cache import Arrays, ArtifactCache, ArtifactKey, packed, unpacked
from ragsmith.index.entity_graph import EntityGraph, Relation, Triple
from ragsmith.types import Chunks

_PLAIN = "_subject", "_object", "_position", "_lengths", "_degree", "_starts", "_relations_of"
"""Attributes that are arrays as they are."""

Postings = Mapping[str, NDArray[np.int64]]


def kept_graph(
    of: str, chunks: Chunks, extractor: str, shelf: ArtifactCache, extracted: Callable[[], Sequence[Sequence[Triple]]]
) -> EntityGraph:
    """The entity graph of ``chunks``, of which ``of`` is the identity: from the shelf, or built of what is extracted.

    ``extractor`` is what reads relations, code and model; ``extracted`` has those of each chunk.
    """
    code = fingerprint(__name__, "graph_arrays"), fingerprint(__name__, "KeptGraph")
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
    postings = {"of_entity": graph._of_entity, "of_relation": graph._of_relation, "of_trigram": alike}
    texts = {
        "id": [graph.id],
        "entities": list(graph.entities),
        "names": list(graph.entities.values()),
        "labels": [relation.label for relation in graph.relations],
        "sentences": graph._texts,
        "vocabulary": list(graph._idf),
        "entity_terms": list(graph._of_entity),
        "relation_terms": list(graph._of_relation),
        "trigrams": list(alike),
    }
    found: dict[str, NDArray[np.generic]] = {name: getattr(graph, name) for name in _PLAIN}
    for name, held in texts.items():
        found[name], found[f"{name}_ends"] = packed(held)
    found["idf"] = np.array(list(graph._idf.values()), dtype=np.float64)
    for name, positions in postings.items():
        found[name], found[f"{name}_ends"] = _flat(positions)
    return found


class CachedGraph(EntityGraph):
    """An `EntityGraph` that finds exactly what the one finds whose `graph_arrays` these are."""

    def __init__(self, chunks: Chunks, arrays: Arrays) -> None:
        def texts(name: str) -> list[str]:
            return unpacked(arrays[name], arrays[f"{name}_ends"])

        def postings(terms: str, name: str) -> dict[str, NDArray[np.int64]]:
            ends = [0, *arrays[f"{name}_ends"].tolist()]
            return {term: arrays[name][a:b] for term, (a, b) in zip(texts(terms), pairwise(ends), strict=True)}

        [self.id] = texts("id")
        self._chunks = tuple(sorted(chunks, key=lambda chunk: chunk.id))
        self._subject, self._object, self._position, self._lengths, self._degree, self._starts, self._relations_of = (
            arrays[name] for name in _PLAIN
        )
        self._texts = texts("sentences")
        self.entities = dict(zip(texts("entities"), texts("names"), strict=True))
        self._names = tuple(self.entities)
        self._idf = dict(zip(texts("vocabulary"), arrays["idf"].tolist(), strict=True))
        self._of_entity = postings("entity_terms", "of_entity")
        self._of_relation = postings("relation_terms", "of_relation")
        self._spelled_with = postings("trigrams", "of_trigram")
        ends = self._subject.tolist(), self._object.tolist(), self._position.tolist()
        self.relations = tuple(
            Relation(self._names[subject], label, self._names[object_], self._chunks[position].id)
            for label, subject, object_, position in zip(texts("labels"), *ends, strict=True)
        )

    @cached_property
    def _of_trigram(self) -> dict[str, list[str]]:  # type: ignore[override]  # wanted for a misspelt word alone
        held = list(self._of_entity)
        return {trigram: [held[i] for i in places.tolist()] for trigram, places in self._spelled_with.items()}


def _flat(postings: Postings) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All positions, term by term, and where those of each end."""
    none = np.zeros(0, dtype=np.int64)
    return np.concatenate([none, *postings.values()]), np.cumsum([len(held) for held in postings.values()], dtype=int)
