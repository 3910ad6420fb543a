"""A surrogate of the fitness: predict all genomes from the observed ones, with uncertainty.

It is a Gaussian process (Rasmussen and Williams 2006, chapters 2 and 5). The fitness of a genome is modelled as

    expected + level + sd * (an effect of each option + an effect of each pair of options + an effect of its own)

where ``expected`` and ``sd`` come from a prior, or are 0 and the spread of what was seen. Effects are normal and
independent of each other: w_i is the variance of the options of gene i, b w_i w_j that of the pairs of genes i and j,
and r that of what a genome has for itself alone. Two genomes with equal genes E therefore covary by

    sum_E w_i + b sum_E_pairs w_i w_j  (+ r, if they are the same)

The numbers w, b and r are those of highest posterior density given what was seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragsmith.strategies.strategy import Genome, Prior

Array = NDArray[np.float64]
Options = NDArray[np.int64]

LEVEL = 100.0
"""Variance of the level, in squares of the typical sd: so vague that the level comes from what is seen."""
JITTER = 1e-6
"""Least variance of noise, in squares of the typical sd: without it, equal rows could not be told apart."""
PAIRS, OWN = 0.4, 0.02
"""What b and r are expected to be, where all w together are expected to be 1."""
WIDTHS = 1.5, 1.0, 1.0
"""How far, in logarithms, the w, b and r are expected to be from that: standard deviations."""
ASCENT = 25
"""Steps to the highest density; the last ones are far below what would show."""
ROWS = 4096
"""Genomes for which the posterior is worked out at once."""


@dataclass(frozen=True, slots=True)
class GenomeVariances:
    """The numbers that say how genomes covary, in squares of the sd: see the module."""

    options: Array
    pairs: float
    own: float

    @property
    def total(self) -> float:
        """The variance of one genome."""
        options = self.options
        return float(options.sum() + self.pairs * (options.sum() ** 2 - (options**2).sum()) / 2.0 + self.own)

    def covary(self, first: Options, second: Options) -> Array:
        """The covariance of each genome of ``first`` with each of ``second``; both are arrays of options."""
        sizes = np.maximum(first.max(axis=0), second.max(axis=0)) + 1
        variances = np.repeat(self.options, sizes)
        one, other = _switches(first, sizes), _switches(second, sizes).T
        linear, squares = (one * variances) @ other, (one * variances**2) @ other
        own = self.own * (one @ other == len(sizes))
        covariance: Array = linear + self.pairs * (linear**2 - squares) / 2.0 + own
        return covariance


def _switches(rows: Options, sizes: Options) -> Array:
    """A row for each genome and a column for each option of each gene: 1 where the genome has the option."""
    switches = np.zeros((len(rows), int(sizes.sum())))
    np.put_along_axis(switches, rows + np.cumsum(sizes) - sizes, 1.0, axis=1)
    return switches


@dataclass(frozen=True)
class Surrogate:
    """The posterior over all genomes after some were observed; `fit` makes it."""

    variances: GenomeVariances
    scale: float
    """The sd where there is no prior."""
    prior: Prior | None
    level: float
    """The variance of the level."""
    _seen: Options
    _sds: Array
    _weights: Array
    """(K + noise)^-1 (what was seen - what was expected)."""
    _whitener: Array
    """The inverse of the Cholesky factor of K + noise."""

    def posterior(self, genomes: Sequence[Genome]) -> tuple[Array, Array]:
        """The expected fitness of each genome, and its standard deviation: of the fitness itself, not of a noisy look.

        At least one genome is given.
        """
        parts = [self._posterior(genomes[start : start + ROWS]) for start in range(0, len(genomes), ROWS)]
        return np.concatenate([mean for mean, _ in parts]), np.concatenate([sd for _, sd in parts])

    def joint(self, genomes: Sequence[Genome]) -> tuple[Array, Array]:
        """The expected fitness of each genome, and how they covary."""
        rows, sds, mean, white = self._conditioned(genomes)
        own = np.outer(sds, sds) * self.variances.covary(rows, rows) + self.level
        return mean, own - white @ white.T

    def _posterior(self, genomes: Sequence[Genome]) -> tuple[Array, Array]:
        _, sds, mean, white = self._conditioned(genomes)
        variance = sds**2 * self.variances.total + self.level - (white**2).sum(axis=1)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def _conditioned(self, genomes: Sequence[Genome]) -> tuple[Options, Array, Array, Array]:
        """Genomes as options, with their sds, their means, and their whitened covariances with what was seen."""
        expected, sds = _expected(genomes, self.prior, self.scale)
        rows = np.array(genomes, dtype=np.int64)
        covariance = np.outer(sds, self._sds) * self.variances.covary(rows, self._seen) + self.level
        return rows, sds, expected + covariance @ self._weights, covariance @ self._whitener.T


def fit(genomes: Sequence[Genome], means: ArrayLike, noise: ArrayLike = 0.0, prior: Prior | None = None) -> Surrogate:
    """Learn from ``genomes`` whose fitness was seen as ``means``, each with the variance ``noise``; at least one.

    ``prior`` says what was expected of a genome, and how surely.
    """
    rows, seen = np.array(genomes, dtype=np.int64), np.asarray(means, dtype=float)
    spread = float(seen.std())
    scale = spread if spread > 0.0 else 1.0
    expected, sds = _expected(genomes, prior, scale)
    typical = float((sds**2).mean())
    variance = np.broadcast_to(np.asarray(noise, dtype=float), seen.shape) + JITTER * typical
    level = LEVEL * typical
    problem = _Problem.of(rows, seen - expected, sds, variance, level)
    variances = problem.highest()
    covariance, *_ = problem.covariance(variances)
    whitener = np.linalg.inv(np.linalg.cholesky(covariance))
    weights = whitener.T @ (whitener @ problem.surprise)
    return Surrogate(variances, scale, prior, level, rows, sds, weights, whitener)


def expected_improvement(mean: Array, sd: Array, best: float | Array) -> Array:
    """By how much genomes are expected to be above ``best``, where one below counts 0 (Jones et al. 1998)."""
    sure = np.maximum(sd, 1e-12)
    z = (mean - best) / sure
    density = np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)
    above = np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in z])
    improvement: Array = sure * (z * above + density)
    return improvement


def _expected(genomes: Sequence[Genome], prior: Prior | None, scale: float) -> tuple[Array, Array]:
    """The prior mean and sd of each genome."""
    if prior is None:
        return np.zeros(len(genomes)), np.full(len(genomes), scale)
    return prior(genomes)


@dataclass(frozen=True)
class _Problem:
    """The data that the variances are fitted to."""

    same: Array
    """By gene, whether two genomes that were seen have the same option: shape (genes, seen * seen)."""
    twins: Array
    surprise: Array
    """What was seen, less what was expected."""
    scaling: Array
    noise: Array
    level: float

    @classmethod
    def of(cls, rows: Options, surprise: Array, sds: Array, noise: Array, level: float) -> _Problem:
        same = (rows.T[:, :, None] == rows.T[:, None, :]).astype(float)
        flat = same.reshape(len(same), -1)  # all sums over genes or over pairs of genomes are then products
        return cls(flat, same.all(axis=0).astype(float), surprise, np.outer(sds, sds), noise, level)

    def covariance(self, variances: GenomeVariances) -> tuple[Array, Array, Array]:
        """The covariance of what was seen, with the noise; and what each two genomes share: see `_shared`."""
        linear, pairs = self._shared(variances)
        effects = linear + variances.pairs * pairs + variances.own * self.twins
        return self.scaling * effects + self.level + np.diag(self.noise), linear, pairs

    def _shared(self, variances: GenomeVariances) -> tuple[Array, Array]:
        """What each two genomes share: sum_E w_i, and sum_E_pairs w_i w_j."""
        options = variances.options
        linear, squares = (np.stack([options, options**2]) @ self.same).reshape(2, *self.twins.shape)
        return linear, (linear**2 - squares) / 2.0

    def highest(self) -> GenomeVariances:
        """The variances of highest posterior density, by resilient propagation (Riedmiller and Braun 1993)."""
        genes = len(self.same)
        start = np.log(np.array([*[1.0 / genes] * genes, PAIRS, OWN]))
        widths = np.array([*[WIDTHS[0]] * genes, *WIDTHS[1:]])
        place, step, last = start.copy(), np.full(genes + 2, 0.3), np.zeros(genes + 2)
        for _ in range(ASCENT):
            slope = self._slope(_variances(place)) - (place - start) / widths**2
            turn = np.sign(slope) * np.sign(last)
            step = np.clip(np.where(turn > 0, 1.2 * step, np.where(turn < 0, 0.5 * step, step)), 1e-4, 1.0)
            last = np.where(turn < 0, 0.0, slope)
            place = place + np.sign(last) * step
        return _variances(np.round(place, 6))

    def _slope(self, variances: GenomeVariances) -> Array:
        """The derivatives of the logarithm of the marginal likelihood by the logarithms of the variances."""
        options, weight = variances.options, variances.pairs
        covariance, linear, pairs = self.covariance(variances)
        inverse = np.linalg.inv(covariance)
        weights = inverse @ self.surprise
        gain = (np.outer(weights, weights) - inverse) * self.scaling / 2.0
        alone, with_others = np.stack([gain, gain * linear]).reshape(2, -1) @ self.same.T
        by_option = options * (alone + weight * (with_others - options * alone))
        by_pairs = weight * float((gain * pairs).sum())
        return np.array([*by_option, by_pairs, variances.own * float((gain * self.twins).sum())])


def _variances(logarithms: Array) -> GenomeVariances:
    numbers = np.exp(logarithms)
    return GenomeVariances(numbers[:-2], float(numbers[-2]), float(numbers[-1]))
