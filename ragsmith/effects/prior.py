"""What a search may expect of each pipeline of a space before it evaluates any: `Beliefs` in tables, for many at once.

A gain is a sum over slots: one a family, which its option fills, and one a pair of families that interact. What fills a
slot has a number, and tables have what it adds over what BM25 has there, and how the errors of two of them covary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragsmith.effects.beliefs import Array, Beliefs, PartOfFitness
from ragsmith.effects.terms import PAIRS, Labels, Term, labels_of
from ragsmith.pipelines.genes import GENES, Candidate

ROWS = 8192
"""Pipelines that are looked up at once."""


@dataclass(frozen=True)
class Prior:
    """What to expect of pipelines: the gain in fitness over BM25, which itself is 0 for certain.

    Genomes are positions in ``options``, then in ``further``: the options of settings that a space searches over.
    Nothing is learned of these: with standard deviation ``setting`` each may be worth as much as an option of the
    family whose options differ most, and makes what is expected less sure. ``rest`` is the standard deviation of what a
    pipeline has for itself, which its options do not explain. The difficulty of the questions is unknown and shared
    by all pipelines.
    """

    options: tuple[tuple[str, ...], ...]
    rest: float
    _parts: tuple[_Tables, ...] = field(repr=False)
    further: tuple[tuple[str, ...], ...] = ()
    setting: float = 0.0

    @classmethod
    def of_beliefs(
        cls,
        beliefs: Beliefs,
        options: Sequence[Sequence[str]],
        rival: Labels,
        further: Sequence[Sequence[str]] = (),
    ) -> Prior:
        """A prior over the ``options`` of each family, among which those of ``rival`` are, by the words of each."""
        slots = _Slots(tuple(map(tuple, options)))
        zero = slots.of(np.array([slots.genome(rival)]))[0]
        parts = tuple(_Tables.of(part, slots, zero) for part in beliefs.parts if part.share)
        rest = sqrt(sum(part.share**2 * part.rest for part in beliefs.parts))
        widest = sum(part.share * sqrt(max(part.before)) for part in beliefs.parts)
        return cls(slots.options, rest, parts, tuple(map(tuple, further)), widest)

    def of(self, pipelines: Sequence[Candidate]) -> tuple[Array, Array]:
        """The gain over BM25 that is expected of each pipeline, and its standard deviation.

        Raises:
            KeyError: a pipeline has an option that the prior does not know.
        """
        return self.of_genomes(self.genomes(pipelines))

    def of_genomes(self, genomes: ArrayLike) -> tuple[Array, Array]:
        """The same, of an array that has a row for each genome; the errors of R and G are taken to go together."""
        rows, settings = self._divided(genomes)
        means, deviations = self._gains(rows)
        return means, np.sqrt(deviations**2 + self.setting**2 * settings.shape[1])

    def _divided(self, genomes: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The part of each genome that is of families, and the part that is of settings."""
        families = len(self.options)
        rows = np.asarray(genomes, dtype=np.int64).reshape(-1, families + len(self.further))
        return rows[:, :families], rows[:, families:]

    def _gains(self, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        """As `of_genomes`, of options of families alone."""
        means, deviations = np.zeros(len(rows)), np.zeros(len(rows))
        for start in range(0, len(rows), ROWS):
            part = slice(start, start + ROWS)
            slots = self._slots.of(rows[part])
            for tables in self._parts:
                means[part] += tables.share * tables.mean[slots].sum(axis=1)
                deviations[part] += tables.share * np.sqrt(tables.variances(slots))
        return means, deviations

    def covariance(self, genomes: ArrayLike, others: ArrayLike) -> Array:
        """How the errors of the gains of ``genomes`` covary with those of ``others``; with itself as in `of_genomes`.

        Both are arrays that have a row for each genome.
        """
        (ours, our_settings), (theirs, their_settings) = map(self._divided, (genomes, others))
        sides = ours, theirs
        slots = [self._slots.of(rows) for rows in sides]
        joint = sum(tables.share**2 * tables.between(*slots) for tables in self._parts)
        # these add up as if errors of R and G were independent: widened to what `of_genomes` says
        scales = []
        for rows, its in zip(sides, slots, strict=True):
            apart = np.sqrt(sum(tables.share**2 * tables.variances(its) for tables in self._parts))
            scales.append(np.divide(self._gains(rows)[1], apart, where=apart > 0, out=np.zeros(len(rows))))
        alike = (our_settings[:, None, :] == their_settings[None, :, :]).sum(axis=2)
        return np.asarray(joint * np.outer(*scales) + self.setting**2 * alike)

    def genomes(self, pipelines: Sequence[Candidate]) -> NDArray[np.int64]:
        """A row for each pipeline, whose options are numbered as in ``options`` and ``further``."""

        def settings(one: Candidate) -> list[int]:
            return [its.index(str(gene)) for its, gene in zip(self.further, one[GENES:], strict=True)]

        rows = [[*self._slots.genome(labels_of(one)), *settings(one)] for one in pipelines]
        return np.array(rows).reshape(-1, len(self.options) + len(self.further))

    @cached_property
    def _slots(self) -> _Slots:
        return _Slots(self.options)


@dataclass(frozen=True)
class _Slots:
    """Numbers for options, and for pairs of options of families that interact."""

    options: tuple[tuple[str, ...], ...]

    def genome(self, labels: Labels) -> list[int]:
        return [its[label] for its, label in zip(self._at, labels, strict=True)]

    def of(self, genomes: NDArray[np.int64]) -> NDArray[np.int64]:
        """What fills the slots of each genome: a row for each, a column for each slot."""
        sizes = [len(its) for its in self.options]
        pairs = [genomes[:, i] * sizes[j] + genomes[:, j] for i, j in PAIRS]
        widths = [*sizes, *(sizes[i] * sizes[j] for i, j in PAIRS)]
        columns: NDArray[np.int64] = np.column_stack([genomes, *pairs]) + np.cumsum([0, *widths[:-1]])
        return columns

    def terms(self, part: PartOfFitness) -> list[list[list[Term]]]:
        """By slot, the terms of all that can fill it."""
        single = [[part.of_option(place, label) for label in its] for place, its in enumerate(self.options)]
        pairs = [
            [part.of_pair(i, first, j, second) for first in self.options[i] for second in self.options[j]]
            for i, j in PAIRS
        ]
        return [*single, *pairs]

    @cached_property
    def _at(self) -> list[dict[str, int]]:
        return [{label: place for place, label in enumerate(its)} for its in self.options]


@dataclass(frozen=True)
class _Tables:
    """Of a part of the fitness: what all that can fill a slot adds over what fills it in BM25, and the covariance."""

    share: float
    mean: Array
    joint: Array

    @classmethod
    def of(cls, part: PartOfFitness, slots: _Slots, zero: NDArray[np.int64]) -> _Tables:
        by_slot = slots.terms(part)
        every = [terms for of_slot in by_slot for terms in of_slot]
        named = {term.name: term for terms in every for term in terms}
        strange = {name: term.group for name, term in named.items() if name not in part.places}
        places = {**part.places, **{name: len(part.places) + n for n, name in enumerate(strange)}}
        design = np.zeros((len(every), len(places)))
        for row, terms in zip(design, every, strict=True):
            for term in terms:
                row[places[term.name]] += term.weight
        design -= design[np.repeat(zero, [len(of_slot) for of_slot in by_slot])]
        known, other = np.hsplit(design, [len(part.places)])
        joint = known @ part.known.covariance @ known.T
        joint += (other * np.array([part.before[group] for group in strange.values()])) @ other.T
        return cls(part.share, known @ part.known.mean, joint)

    def variances(self, slots: NDArray[np.int64]) -> Array:
        """The variance of the gain of each row of ``slots``."""
        columns = list(slots.T)
        found = sum((self.joint[column, column] for column in columns), np.zeros(len(slots)))
        found += 2 * sum((self.joint[a, b] for a, b in combinations(columns, 2)), np.zeros(len(slots)))
        return np.maximum(found, 0.0)

    def between(self, slots: NDArray[np.int64], others: NDArray[np.int64]) -> Array:
        """The covariance of the gains of each row of ``slots`` with those of each of ``others``."""
        ours, theirs = self._switches(slots), self._switches(others)
        return np.asarray(ours @ self.joint @ theirs.T)

    def _switches(self, slots: NDArray[np.int64]) -> Array:
        found = np.zeros((len(slots), len(self.mean)))
        np.put_along_axis(found, slots, 1.0, axis=1)
        return found
