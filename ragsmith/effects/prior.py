"""Prior over the pipelines of a search space: tables of `Beliefs`, which predict many pipelines at once.

The gain of a pipeline over BM25 is a sum of effects: one for the option of each family, and one for the pair of options
of each two families that interact. Options and pairs are numbered; tables hold the mean effect of each, relative to
that of BM25, and the covariance of their errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragsmith.effects.beliefs import Array, Beliefs, FitnessPart, design_matrix
from ragsmith.effects.terms import PAIRS, Labels, Term, option_labels
from ragsmith.pipelines.genes import N_FAMILIES, Candidate

BLOCK_ROWS = 8192
"""Number of pipelines predicted at once, which bounds memory."""


@dataclass(frozen=True)
class Prior:
    """Normal prior of the gain in fitness of pipelines over BM25, whose own gain is 0 with certainty.

    Genomes are positions in ``options``, by family, and then in ``setting_options``, the options of the settings that a
    space searches over. No effects are learned for settings: each has mean 0 and standard deviation ``setting_sd``,
    that of the family whose options differ most. ``residual_sd`` is the standard deviation of the part of a gain that
    the options do not explain. The difficulty of the questions is unknown and shared by all pipelines.
    """

    options: tuple[tuple[str, ...], ...]
    residual_sd: float
    _tables: tuple[_GainTables, ...] = field(repr=False)
    setting_options: tuple[tuple[str, ...], ...] = ()
    setting_sd: float = 0.0

    @classmethod
    def from_beliefs(
        cls,
        beliefs: Beliefs,
        options: Sequence[Sequence[str]],
        baseline: Labels,
        setting_options: Sequence[Sequence[str]] = (),
    ) -> Prior:
        """Tabulate the effects of the ``options`` of each family relative to the option of ``baseline``."""
        encoder = _SlotEncoder(tuple(map(tuple, options)))
        reference = encoder.encode(np.array([encoder.to_genome(baseline)]))[0]
        tables = tuple(_GainTables.from_part(part, encoder, reference) for part in beliefs.parts if part.share)
        residual_sd = sqrt(sum(part.share**2 * part.rest for part in beliefs.parts))
        setting_sd = sum(part.share * sqrt(max(part.prior)) for part in beliefs.parts)
        return cls(encoder.options, residual_sd, tables, tuple(map(tuple, setting_options)), setting_sd)

    def predict_genomes(self, genomes: ArrayLike) -> tuple[Array, Array]:
        """Return the expected gain over BM25 of each row of ``genomes``, and its standard deviation.

        The errors of retrieval and of generation are assumed to be fully correlated.
        """
        rows, settings = self._split_genomes(genomes)
        means, deviations = self._predict_options(rows)
        return means, np.sqrt(deviations**2 + self.setting_sd**2 * settings.shape[1])

    def _split_genomes(self, genomes: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Split each genome into the options of families and those of settings."""
        families = len(self.options)
        rows = np.asarray(genomes, dtype=np.int64).reshape(-1, families + len(self.setting_options))
        return rows[:, :families], rows[:, families:]

    def _predict_options(self, rows: NDArray[np.int64]) -> tuple[Array, Array]:
        """Predict as `predict_genomes` does, from the options of families only."""
        means, deviations = np.zeros(len(rows)), np.zeros(len(rows))
        for start in range(0, len(rows), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            slots = self._encoder.encode(rows[block])
            for tables in self._tables:
                means[block] += tables.share * tables.mean[slots].sum(axis=1)
                deviations[block] += tables.share * np.sqrt(tables.variances(slots))
        return means, deviations

    def covariance(self, genomes: ArrayLike, others: ArrayLike) -> Array:
        """Return the covariance of the errors of the gains of ``genomes`` with those of ``others``.

        Both are arrays with a row for each genome. The variances are those of `predict_genomes`.
        """
        (rows, settings), (other_rows, other_settings) = map(self._split_genomes, (genomes, others))
        sides = rows, other_rows
        slots = [self._encoder.encode(side) for side in sides]
        joint = sum(tables.share**2 * tables.covariance(*slots) for tables in self._tables)
        # the sum assumes independent errors of retrieval and generation: rescale it to match `predict_genomes`
        scales = []
        for side, side_slots in zip(sides, slots, strict=True):
            independent = np.sqrt(sum(tables.share**2 * tables.variances(side_slots) for tables in self._tables))
            deviations = self._predict_options(side)[1]
            scales.append(np.divide(deviations, independent, where=independent > 0, out=np.zeros(len(side))))
        shared = (settings[:, None, :] == other_settings[None, :, :]).sum(axis=2)
        return np.asarray(joint * np.outer(*scales) + self.setting_sd**2 * shared)

    def genomes(self, pipelines: Sequence[Candidate]) -> NDArray[np.int64]:
        """Return the genomes of ``pipelines``: positions in ``options`` and ``setting_options``, a row for each.

        Raises:
            KeyError: a pipeline has an option that is not in ``options``.
        """

        def settings(pipeline: Candidate) -> list[int]:
            pairs = zip(self.setting_options, pipeline[N_FAMILIES:], strict=True)
            return [labels.index(str(gene)) for labels, gene in pairs]

        rows = [[*self._encoder.to_genome(option_labels(pipeline)), *settings(pipeline)] for pipeline in pipelines]
        return np.array(rows).reshape(-1, len(self.options) + len(self.setting_options))

    @cached_property
    def _encoder(self) -> _SlotEncoder:
        return _SlotEncoder(self.options)


@dataclass(frozen=True)
class _SlotEncoder:
    """Numbers the options of each family, and the pairs of options of families that interact.

    A slot is a family or such a pair of families; each slot of a pipeline has one number.
    """

    options: tuple[tuple[str, ...], ...]

    def to_genome(self, labels: Labels) -> list[int]:
        return [positions[label] for positions, label in zip(self._positions, labels, strict=True)]

    def encode(self, genomes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of each genome, shape ``(genomes, slots)``."""
        sizes = [len(labels) for labels in self.options]
        pairs = [genomes[:, i] * sizes[j] + genomes[:, j] for i, j in PAIRS]
        widths = [*sizes, *(sizes[i] * sizes[j] for i, j in PAIRS)]
        columns: NDArray[np.int64] = np.column_stack([genomes, *pairs]) + np.cumsum([0, *widths[:-1]])
        return columns

    def terms(self, part: FitnessPart) -> list[list[list[Term]]]:
        """Return, by slot, the terms of each of its options or pairs."""
        single = [[part.option_terms(place, label) for label in labels] for place, labels in enumerate(self.options)]
        pairs = [
            [part.pair_terms(i, first, j, second) for first in self.options[i] for second in self.options[j]]
            for i, j in PAIRS
        ]
        return [*single, *pairs]

    @cached_property
    def _positions(self) -> list[dict[str, int]]:
        return [{label: place for place, label in enumerate(labels)} for labels in self.options]


@dataclass(frozen=True)
class _GainTables:
    """Effects on one part of the fitness: the ``mean`` of each option or pair relative to BM25, and the covariance."""

    share: float
    mean: Array
    joint: Array

    @classmethod
    def from_part(cls, part: FitnessPart, encoder: _SlotEncoder, reference: NDArray[np.int64]) -> _GainTables:
        by_slot = encoder.terms(part)
        rows = [terms for slot in by_slot for terms in slot]
        named = {term.name: term for terms in rows for term in terms}
        unseen = {name: term.group for name, term in named.items() if name not in part.places}
        places = {**part.places, **{name: len(part.places) + n for n, name in enumerate(unseen)}}
        design = design_matrix(rows, places)
        design -= design[np.repeat(reference, [len(slot) for slot in by_slot])]
        known, other = np.hsplit(design, [len(part.places)])
        joint = known @ part.learned.covariance @ known.T
        joint += (other * np.array([part.prior[group] for group in unseen.values()])) @ other.T
        return cls(part.share, known @ part.learned.mean, joint)

    def variances(self, slots: NDArray[np.int64]) -> Array:
        """Return the variance of the gain of each row of ``slots``."""
        columns = list(slots.T)
        variances = sum((self.joint[column, column] for column in columns), np.zeros(len(slots)))
        variances += 2 * sum((self.joint[a, b] for a, b in combinations(columns, 2)), np.zeros(len(slots)))
        return np.maximum(variances, 0.0)

    def covariance(self, slots: NDArray[np.int64], others: NDArray[np.int64]) -> Array:
        """Return the covariance of the gain of each row of ``slots`` with that of each row of ``others``."""
        return np.asarray(self._one_hot(slots) @ self.joint @ self._one_hot(others).T)

    def _one_hot(self, slots: NDArray[np.int64]) -> Array:
        encoded = np.zeros((len(slots), len(self.mean)))
        np.put_along_axis(encoded, slots, 1.0, axis=1)
        return encoded
