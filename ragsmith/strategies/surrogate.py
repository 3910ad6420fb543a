"""A Gaussian process surrogate of the fitness (Rasmussen and Williams 2006, chapters 2 and 5).

The fitness of a genome is modelled as

    expected + level + sd * (an effect of each option + an effect of each pair of options + a residual)

where ``expected`` and ``sd`` come from a prior, or are 0 and the standard deviation of the observations. Effects are
independent and normal: w_i is the variance of the options of gene i, b w_i w_j that of the pairs of genes i and j, and
r that of the residual of a genome. The covariance of two genomes with the set E of equal genes is

    sum_E w_i + b sum_E_pairs w_i w_j  (+ r for equal genomes)

The hyperparameters w, b and r are maximum a posteriori estimates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ragsmith.strategies.strategy import Genome, Prior

Array = NDArray[np.float64]
OptionArray = NDArray[np.int64]

LEVEL_VARIANCE = 100.0
"""Variance of the level, in units of the mean squared sd: vague, so that the observations determine the level."""
JITTER = 1e-6
"""Minimum noise variance, in units of the mean squared sd, for numerical stability."""
PAIR_WEIGHT_PRIOR, RESIDUAL_PRIOR = 0.4, 0.02
"""Prior medians of b and r; that of the sum of all w is 1."""
LOG_PRIOR_SDS = 1.5, 1.0, 1.0
"""Prior standard deviations of the logarithms of w, b and r."""
ASCENT_STEPS = 25
"""Steps of the optimiser; the last ones change predictions negligibly."""
BLOCK_ROWS = 4096
"""Number of genomes per block of posterior predictions."""


@dataclass(frozen=True, slots=True)
class GenomeVariances:
    """Hyperparameters of the covariance, in units of the squared sd: see the module."""

    options: Array
    pairs: float
    residual: float

    @property
    def total(self) -> float:
        """The variance of a genome."""
        options = self.options
        return float(options.sum() + self.pairs * (options.sum() ** 2 - (options**2).sum()) / 2.0 + self.residual)

    def covariance(self, first: OptionArray, second: OptionArray) -> Array:
        """Return the covariance of the genomes of ``first`` and ``second``, arrays of options."""
        sizes = np.maximum(first.max(axis=0), second.max(axis=0)) + 1
        variances = np.repeat(self.options, sizes)
        left, right = _one_hot(first, sizes), _one_hot(second, sizes).T
        linear, squares = (left * variances) @ right, (left * variances**2) @ right
        residual = self.residual * (left @ right == len(sizes))
        covariance: Array = linear + self.pairs * (linear**2 - squares) / 2.0 + residual
        return covariance


def _one_hot(rows: OptionArray, sizes: OptionArray) -> Array:
    """One-hot encode genomes: a row for each genome and a column for each option of each gene."""
    encoded = np.zeros((len(rows), int(sizes.sum())))
    np.put_along_axis(encoded, rows + np.cumsum(sizes) - sizes, 1.0, axis=1)
    return encoded


@dataclass(frozen=True)
class Surrogate:
    """The posterior over the fitness of genomes; see `fit_surrogate`."""

    variances: GenomeVariances
    scale: float
    """The standard deviation used without a prior."""
    prior: Prior | None
    level: float
    """The variance of the level."""
    _observed: OptionArray
    _sds: Array
    _weights: Array
    """(K + noise)^-1 (observed - expected)."""
    _whitener: Array
    """The inverse of the Cholesky factor of K + noise."""

    def posterior(self, genomes: Sequence[Genome]) -> tuple[Array, Array]:
        """Return the posterior mean and standard deviation of the noise-free fitness of at least one genome."""
        parts = [self._posterior(genomes[start : start + BLOCK_ROWS]) for start in range(0, len(genomes), BLOCK_ROWS)]
        return np.concatenate([mean for mean, _ in parts]), np.concatenate([sd for _, sd in parts])

    def joint(self, genomes: Sequence[Genome]) -> tuple[Array, Array]:
        """Return the posterior mean and covariance of the fitness of genomes."""
        rows, sds, mean, white = self._condition(genomes)
        prior = np.outer(sds, sds) * self.variances.covariance(rows, rows) + self.level
        return mean, prior - white @ white.T

    def _posterior(self, genomes: Sequence[Genome]) -> tuple[Array, Array]:
        _, sds, mean, white = self._condition(genomes)
        variance = sds**2 * self.variances.total + self.level - (white**2).sum(axis=1)
        return mean, np.sqrt(np.maximum(variance, 0.0))

    def _condition(self, genomes: Sequence[Genome]) -> tuple[OptionArray, Array, Array, Array]:
        """Return the options, prior sds, posterior means and whitened covariances with the observations."""
        expected, sds = _prior_moments(genomes, self.prior, self.scale)
        rows = np.array(genomes, dtype=np.int64)
        covariance = np.outer(sds, self._sds) * self.variances.covariance(rows, self._observed) + self.level
        return rows, sds, expected + covariance @ self._weights, covariance @ self._whitener.T


def fit_surrogate(
    genomes: Sequence[Genome], means: ArrayLike, noise: ArrayLike = 0.0, prior: Prior | None = None
) -> Surrogate:
    """Fit a surrogate to at least one genome, with observed ``means`` and noise variances ``noise``."""
    rows, observed = np.array(genomes, dtype=np.int64), np.asarray(means, dtype=float)
    spread = float(observed.std())
    scale = spread if spread > 1e-12 * np.abs(observed).max() else 1.0  # equal values may have a spread of rounding
    expected, sds = _prior_moments(genomes, prior, scale)
    typical = float((sds**2).mean()) or 1.0  # BM25 alone has a certain gain
    variance = np.broadcast_to(np.asarray(noise, dtype=float), observed.shape) + JITTER * typical
    level = LEVEL_VARIANCE * typical
    problem = _TrainingData.from_rows(rows, observed - expected, sds, variance, level)
    variances = problem.maximise_posterior()
    covariance, *_ = problem.covariance(variances)
    whitener = np.linalg.inv(np.linalg.cholesky(covariance))
    weights = whitener.T @ (whitener @ problem.residuals)
    return Surrogate(variances, scale, prior, level, rows, sds, weights, whitener)


def expected_improvement(mean: Array, sd: Array, best: float | Array) -> Array:
    """Return the expected improvement over ``best`` (Jones et al. 1998)."""
    sd = np.maximum(sd, 1e-12)
    z = (mean - best) / sd
    density = np.exp(-(z**2) / 2.0) / math.sqrt(2.0 * math.pi)
    above = np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in z])
    improvement: Array = sd * (z * above + density)
    return improvement


def _prior_moments(genomes: Sequence[Genome], prior: Prior | None, scale: float) -> tuple[Array, Array]:
    """Return the prior mean and sd of each genome."""
    if prior is None:
        return np.zeros(len(genomes)), np.full(len(genomes), scale)
    return prior(genomes)


@dataclass(frozen=True)
class _TrainingData:
    """The observations that the hyperparameters are fitted to."""

    same: Array
    """For each gene, whether two observed genomes have the same option: shape (genes, observed * observed)."""
    equal: Array
    """Whether two observed genomes are equal: shape (observed, observed)."""
    residuals: Array
    """Observed less expected fitness."""
    scaling: Array
    """Products of the prior sds of two genomes."""
    noise: Array
    """The noise variance of each observation."""
    level: float
    """The variance of the level."""

    @classmethod
    def from_rows(cls, rows: OptionArray, residuals: Array, sds: Array, noise: Array, level: float) -> _TrainingData:
        same = (rows.T[:, :, None] == rows.T[:, None, :]).astype(float)
        flat = same.reshape(len(same), -1)  # sums over genes or pairs of genomes are then matrix products
        return cls(flat, same.all(axis=0).astype(float), residuals, np.outer(sds, sds), noise, level)

    def covariance(self, variances: GenomeVariances) -> tuple[Array, Array, Array]:
        """Return the covariance of the observations with noise, and the two terms of `_kernel_terms`."""
        linear, pairs = self._kernel_terms(variances)
        effects = linear + variances.pairs * pairs + variances.residual * self.equal
        return self.scaling * effects + self.level + np.diag(self.noise), linear, pairs

    def _kernel_terms(self, variances: GenomeVariances) -> tuple[Array, Array]:
        """Return sum_E w_i and sum_E_pairs w_i w_j for each pair of observed genomes."""
        options = variances.options
        linear, squares = (np.stack([options, options**2]) @ self.same).reshape(2, *self.equal.shape)
        return linear, (linear**2 - squares) / 2.0

    def maximise_posterior(self) -> GenomeVariances:
        """Return the maximum a posteriori variances by resilient propagation (Riedmiller and Braun 1993)."""
        genes = len(self.same)
        start = np.log(np.array([*[1.0 / genes] * genes, PAIR_WEIGHT_PRIOR, RESIDUAL_PRIOR]))
        widths = np.array([*[LOG_PRIOR_SDS[0]] * genes, *LOG_PRIOR_SDS[1:]])
        point, step, last = start.copy(), np.full(genes + 2, 0.3), np.zeros(genes + 2)
        for _ in range(ASCENT_STEPS):
            gradient = self._gradient(_from_logarithms(point)) - (point - start) / widths**2
            agreement = np.sign(gradient) * np.sign(last)
            step = np.clip(np.where(agreement > 0, 1.2 * step, np.where(agreement < 0, 0.5 * step, step)), 1e-4, 1.0)
            last = np.where(agreement < 0, 0.0, gradient)
            point = point + np.sign(last) * step
        return _from_logarithms(np.round(point, 6))

    def _gradient(self, variances: GenomeVariances) -> Array:
        """Return the gradient of the log marginal likelihood with respect to the logarithms of the variances."""
        options, weight = variances.options, variances.pairs
        covariance, linear, pairs = self.covariance(variances)
        inverse = np.linalg.inv(covariance)
        weights = inverse @ self.residuals
        gain = (np.outer(weights, weights) - inverse) * self.scaling / 2.0
        alone, with_others = np.stack([gain, gain * linear]).reshape(2, -1) @ self.same.T
        by_option = options * (alone + weight * (with_others - options * alone))
        by_pairs = weight * float((gain * pairs).sum())
        return np.array([*by_option, by_pairs, variances.residual * float((gain * self.equal).sum())])


def _from_logarithms(logarithms: Array) -> GenomeVariances:
    variances = np.exp(logarithms)
    return GenomeVariances(variances[:-2], float(variances[-2]), float(variances[-1]))
