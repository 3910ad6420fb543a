"""The entity graph of a corpus, and search by spreading activation on it.

Entities are identified by their normalised names. The graph is built from one extraction per chunk, and is immutable
and picklable.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsmith.digest import digest
from ragsmith.index.relations import EXTRACT_RELATIONS, Triple
from ragsmith.index.top import best_positions
from ragsmith.models.protocols import LanguageModel
from ragsmith.text.words import terms, words
from ragsmith.types import Chunk, Chunks, Hit, Hits, Scale

__all__ = [
    "EXTRACT_RELATIONS",
    "EntityGraph",
    "Relation",
    "Triple",
    "build_graph",
    "format_passage",
    "make_entity_id",
]

_MIN_SIMILARITY = 0.6
"""Minimum trigram similarity of an unknown word and its replacement: about one letter in six differs."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of two entities (by identifier), described by ``label``, with the id of its ``chunk``."""

    subject: str
    label: str
    object: str
    chunk: str


def build_graph(chunks: Chunks, language_model: LanguageModel) -> EntityGraph:
    """Extract the relations of every chunk and connect them."""
    triples = language_model.run_all(EXTRACT_RELATIONS, [{"passage": format_passage(chunk)} for chunk in chunks])
    return EntityGraph(chunks, triples)


def format_passage(chunk: Chunk) -> str:
    """Return the text of a chunk for extraction: below its last heading and title, which often name its subject."""
    heading = " — ".join(dict.fromkeys(part for part in (*chunk.headings[-1:], chunk.title) if part))
    return f"{heading}\n\n{chunk.text}" if heading else chunk.text


def make_entity_id(name: str) -> str:
    """Return the identifier of an entity: its stemmed content words, so that case, articles and plurals are ignored."""
    return " ".join(terms(name) or words(name))


class EntityGraph:
    """Entities and their relations over ``chunks``; ``triples`` holds the extraction of each chunk, in their order."""

    def __init__(self, chunks: Chunks, triples: Sequence[Sequence[Triple]]) -> None:
        pairs = sorted(zip(chunks, triples, strict=True), key=lambda pair: pair[0].id)
        self.id = digest("entity graph", [(chunk.id, chunk.text, [list(t) for t in found]) for chunk, found in pairs])
        self.chunks = tuple(chunk for chunk, _ in pairs)
        spelled: dict[str, Counter[str]] = {}
        relations: dict[Relation, None] = {}
        self._texts: list[str] = []
        for chunk, found in pairs:
            for subject, label, object_ in found:
                ends = make_entity_id(subject), make_entity_id(object_)
                relation = Relation(ends[0], label, ends[1], chunk.id)
                if not all(ends) or relation in relations:  # names without letters and digits are skipped
                    continue
                relations[relation] = None
                self._texts.append(_format_relation(subject, label, object_))
                for end, name in zip(ends, (subject, object_), strict=True):
                    spelled.setdefault(end, Counter())[name] += 1
        self.relations = tuple(relations)
        self.entities = {
            end: min(spelled[end], key=lambda name: (-spelled[end][name], name)) for end in sorted(spelled)
        }
        self._connect()

    def _connect(self) -> None:
        """Compute the arrays for search."""
        node = {entity: number for number, entity in enumerate(self.entities)}
        position = {chunk.id: number for number, chunk in enumerate(self.chunks)}
        self._subject = np.array([node[r.subject] for r in self.relations], dtype=np.int64)
        self._object = np.array([node[r.object] for r in self.relations], dtype=np.int64)
        self._position = np.array([position[r.chunk] for r in self.relations], dtype=np.int64)
        entity_terms = [frozenset(entity.split()) for entity in self.entities]
        relation_terms = [frozenset(terms(text)) for text in self._texts]
        self._idf = _compute_idf(
            [frozenset(terms(format_passage(chunk))) for chunk in self.chunks], [*entity_terms, *relation_terms]
        )
        self._of_entity = _build_postings(entity_terms)
        self._of_relation = _build_postings(relation_terms)
        self._lengths = np.array([math.sqrt(sum(self._idf[t] ** 2 for t in sorted(held))) for held in entity_terms])
        self._names = tuple(self.entities)
        self._link(np.ones(len(self.relations), dtype=np.bool_))
        self._of_trigram: dict[str, list[str]] = {}
        for term in sorted(self._of_entity):
            for trigram in sorted(_extract_trigrams(term)):
                self._of_trigram.setdefault(trigram, []).append(term)

    def _link(self, used: NDArray[np.bool_]) -> None:
        """Compute the relations of each entity, of those that are ``used``, shape ``(relations,)``."""
        ends = np.concatenate([self._subject, self._object])
        sides = np.flatnonzero(np.tile(used, 2))
        degree = np.bincount(ends[sides], minlength=len(self._names))
        self._degree = degree.astype(float)
        self._starts = np.concatenate([[0], np.cumsum(degree)])  # offsets of each entity's relations in _relations_of
        self._relations_of = sides[np.argsort(ends[sides], kind="stable")] % max(1, len(self.relations))

    def restrict(self, admitted: NDArray[np.bool_]) -> EntityGraph:
        """Return the graph with only the relations of the chunks that are ``admitted``, shape ``(chunks,)``."""
        other = copy(self)
        other._link(admitted[self._position])
        other._lengths = np.where(other._degree, self._lengths, np.inf)  # an entity without relations matches nothing
        return other

    def facts(self, text: str, n: int = 3, seeds: int = 20) -> tuple[str, ...]:
        """Return the ``n`` relations with the most evidence for ``text``, as distinct sentences, best first."""
        relations, evidence = self._score_relations(text, seeds)
        found: dict[str, None] = {}
        for i in best_positions(evidence, len(evidence), positive=True):
            if len(found) == n:
                break
            # relations with equal sentences count once, by the best of them
            found[self._texts[relations[i]]] = None
        return tuple(found)

    def search(self, text: str, k: int, seeds: int = 20) -> Hits:
        """Return the ``k`` chunks with the most evidence for ``text``, by spreading activation (Crestani 1997).

        The ``seeds`` best matching entities are activated and activate their neighbours. Each relation is evidence for
        its chunk: the activation of its ends, times the idf-weighted share of the query terms in its sentence.
        """
        relations, evidence = self._score_relations(text, seeds)
        positions = self._position[relations]
        scores = np.zeros(len(self.chunks))
        np.maximum.at(scores, positions, evidence)
        total = np.bincount(positions, weights=evidence, minlength=len(self.chunks))
        scores = np.round(
            scores + _SUPPORT_WEIGHT * np.log1p(total), 9
        )  # many weak relations count less than one good match
        best = best_positions(scores, k, positive=True)
        return tuple(Hit(self.chunks[i], float(scores[i]), Scale.GRAPH) for i in best)

    def _correct_terms(self, text: str) -> tuple[str, ...]:
        """Return the distinct terms of ``text``, with misspelt ones replaced."""
        return tuple(dict.fromkeys(self._correct_term(term) for term in sorted(set(terms(text)))))

    def _correct_term(self, term: str) -> str:
        """Return ``term`` if the corpus has it, else the most similar term of a name (Dice coefficient of trigrams)."""
        if term in self._idf or len(term) < 4:
            return term
        trigrams = _extract_trigrams(term)
        shared = Counter(other for trigram in trigrams for other in self._of_trigram.get(trigram, ()))
        similarities = ((2 * n / (len(trigrams) + len(_extract_trigrams(other))), other) for other, n in shared.items())
        best, name = max(similarities, default=(0.0, term))
        return name if best >= _MIN_SIMILARITY else term

    def _match_entities(self, known: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the entities that share a term with ``known``, ascending, and the cosines of their names with it.

        Terms are weighted by idf (Salton & Buckley 1988), so that ordinary words hardly count.
        """
        scores = np.zeros(len(self._names))
        for term in known:
            if term in self._of_entity:
                scores[self._of_entity[term]] += self._idf[term] ** 2
        nodes = np.flatnonzero(scores)
        length = math.sqrt(sum(self._idf.get(term, 0.0) ** 2 for term in known))
        return nodes, np.round(scores[nodes] / (self._lengths[nodes] * length), 6) if len(nodes) else scores[nodes]

    def _find_relations(self, nodes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the distinct relations of any of these entities, ascending."""
        counts = self._starts[nodes + 1] - self._starts[nodes]
        shifts = np.repeat(self._starts[nodes] - np.cumsum(counts) + counts, counts)
        touched = np.zeros(len(self.relations), dtype=np.bool_)
        touched[self._relations_of[shifts + np.arange(len(shifts))]] = True
        return np.flatnonzero(touched)

    def _score_relations(self, text: str, seeds: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Return the relations with evidence for ``text``, ascending, and the evidence of each."""
        known = self._correct_terms(text)
        nodes, matched = self._match_entities(known)
        best = best_positions(matched, seeds, positive=True)
        chosen = nodes[best]
        active, share = np.zeros(len(self._names)), np.zeros(len(self._names))
        active[chosen] = matched[best]
        share[chosen] = (
            active[chosen] / np.maximum(self._degree[chosen], 1.0) ** 0.5
        )  # the activation of a hub is divided
        fits = self._match_relations(known)
        near = self._find_relations(chosen)
        walked = np.maximum(fits[near], _MIN_RELEVANCE)  # relations without query terms also pass on activation
        passed = np.bincount(self._object[near], weights=share[self._subject[near]] * walked, minlength=len(active))
        passed += np.bincount(self._subject[near], weights=share[self._object[near]] * walked, minlength=len(active))
        active += _DECAY * passed
        relations = self._find_relations(np.flatnonzero(active))
        both = active[self._subject[relations]] + active[self._object[relations]]
        return relations, np.round(both * np.maximum(fits[relations], _MIN_RELEVANCE), 9)

    def _match_relations(self, known: Sequence[str]) -> NDArray[np.float64]:
        """Return the idf-weighted share of the terms ``known`` in each relation's sentence, shape ``(relations,)``."""
        fits = np.zeros(len(self.relations))
        for term in known:
            if term in self._of_relation:
                fits[self._of_relation[term]] += self._idf[term]
        total = sum(self._idf.get(term, 0.0) for term in known)
        return fits / total if total else fits


_MIN_RELEVANCE = 0.05
"""Minimum relevance of a relation, so that relations without query terms pass on some activation."""
_DECAY = 0.5
"""Decay of activation per step."""
_SUPPORT_WEIGHT = 0.25
"""Weight of all relations of a chunk relative to the best one."""


def _format_relation(subject: str, label: str, object_: str) -> str:
    """Return a relation as text; a label that is a sentence may already contain one or both of its ends."""
    if object_ in label:
        return label if subject in label else f"{subject}: {label}"
    return f"{subject} {label} {object_}"


def _compute_idf(chunks: Sequence[frozenset[str]], others: Iterable[frozenset[str]]) -> dict[str, float]:
    """Return Robertson's idf over chunks in Lucene's form, which is positive; terms in no chunk count as in one."""
    frequency = Counter(term for held in chunks for term in held)
    vocabulary = sorted(set(frequency).union(*others))
    n = len(chunks)
    # idf(t) = ln(1 + (N - n(t) + 0.5) / (n(t) + 0.5))
    return {t: math.log(1 + (n - max(frequency[t], 1) + 0.5) / (max(frequency[t], 1) + 0.5)) for t in vocabulary}


def _build_postings(bags: Sequence[frozenset[str]]) -> dict[str, NDArray[np.int64]]:
    """Return the positions of the bags that contain each term."""
    found: dict[str, list[int]] = {}
    for position, bag in enumerate(bags):
        for term in sorted(bag):
            found.setdefault(term, []).append(position)
    return {term: np.array(positions, dtype=np.int64) for term, positions in found.items()}


def _extract_trigrams(term: str) -> frozenset[str]:
    padded = f" {term} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))
