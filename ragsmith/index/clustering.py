"""Soft clusters of vectors: fewer dimensions, Gaussian mixtures fitted by EM, the number of components by BIC.

Results are reproducible: random numbers come from the given generator, and sums whose last bits depend on the machine
are rounded before comparisons. Only UMAP, an alternative to principal components, is reproducible on one machine only.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import MissingExtra

Floats = NDArray[np.float64]
Members = tuple[int, ...]

COVARIANCES = ("diagonal", "full")
REDUCTIONS = ("pca", "umap")

DECIMALS = 6
"""Number of decimals of coordinates, responsibilities and criteria in comparisons."""

MAX_DIMENSIONS = 10
MAX_COMPONENTS = 50
PATIENCE = 3
"""Consecutive numbers of components without a better BIC after which the search ends."""

MIN_RESPONSIBILITY = 0.1
MIN_UMAP_ROWS = 4

_LOG_2PI = math.log(2 * math.pi)
_LLOYD_ROUNDS = 30


@dataclass(frozen=True, slots=True)
class Mixture:
    """A Gaussian mixture of ``k`` components on ``n`` points in ``d`` dimensions.

    ``weights`` has shape ``(k,)``, ``means`` ``(k, d)``, ``covariances`` ``(k, d)`` (variances) or ``(k, d, d)``, and
    ``responsibilities`` ``(n, k)``. ``log_likelihoods`` holds that of all points after every step of EM, the start's
    first.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    responsibilities: Floats
    log_likelihoods: tuple[float, ...]

    @property
    def bic(self) -> float:
        """Bayesian information criterion, lower is better: ``p ln n - 2 ln L`` (Schwarz 1978).

        The ``p`` free numbers are weights that sum to 1, means and covariances.
        """
        k, d = self.means.shape
        spread = d if self.covariances.ndim == 2 else d * (d + 1) // 2
        parameters = (k - 1) + k * d + k * spread
        return float(parameters * math.log(len(self.responsibilities)) - 2 * self.log_likelihoods[-1])


def soft_clusters(
    vectors: Floats, *, covariance: str = "diagonal", reduction: str = "pca", least: int = 1, seed: int = 0
) -> tuple[Members, ...]:
    """Cluster the rows of ``vectors``, of which one may belong to several clusters; every one belongs to one at least.

    They are reduced by `pca`, or by `umap`, then the best mixture of ``least`` components or more is taken. A row
    belongs where its responsibility is at least ``max(0.1, 1/k + 1e-6)``, and to the likeliest component if it is
    nowhere so likely; so two components never share a row.

    With ``covariance="diagonal"``, up to ``n // 4`` dimensions and components are allowed. ``"full"`` has the limits of
    the published RAPTOR code, ``n - 2`` and ``n - 1``, at which the criterion is degenerate: 12 to 30 points without
    any structure come out as two to eight clusters.
    """
    n = len(vectors)
    if n == 0:
        return ()
    dimensions = max(1, n // 4) if covariance == "diagonal" else max(2, n - 2)
    points = (umap if reduction == "umap" else pca)(vectors, min(MAX_DIMENSIONS, dimensions))
    found = best_mixture(points, random.Random(seed), covariance=covariance, least=least)
    return memberships(found.responsibilities)


def pca(vectors: Floats, dimensions: int) -> Floats:
    """Project rows on their principal components: shape ``(n, min(dimensions, n, columns))``, centred on 0.

    The sign of a component is such that its largest loading is positive. Coordinates are rounded to six decimals.
    """
    centred = np.asarray(vectors, dtype=np.float64)
    centred = centred - centred.mean(axis=0) if len(centred) else centred
    left, singular, axes = np.linalg.svd(centred, full_matrices=False)
    kept = max(0, min(dimensions, len(axes)))
    largest = np.abs(axes[:kept]).round(DECIMALS).argmax(axis=1)
    signs = np.where(axes[np.arange(kept), largest] < 0, -1.0, 1.0)
    reduced: Floats = np.round(left[:, :kept] * singular[:kept] * signs, DECIMALS) + 0.0  # no negative zeros
    return reduced


def umap(vectors: Floats, dimensions: int) -> Floats:
    """Project rows so that near ones stay near (McInnes et al. 2018): shape ``(n, dimensions)``, 2 to n - 2 of these.

    With the settings of the published RAPTOR code: cosine, the square root of n - 1 as neighbours, a least distance of
    0.1, 100 epochs and the seed 42. Coordinates are rounded to six decimals, and may differ between machines. Fewer
    than four rows are reduced by `pca`.

    Raises:
        MissingExtra: umap-learn is not installed.
    """
    try:
        from umap import UMAP  # noqa: PLC0415  it compiles what it imports, which takes ten seconds the first time
    except ImportError:
        raise MissingExtra("umap-learn", "umap") from None
    n = len(vectors)
    if n < MIN_UMAP_ROWS:
        return pca(vectors, dimensions)
    reducer = UMAP(
        n_components=max(2, min(dimensions, n - 2)),
        n_neighbors=max(2, math.ceil(math.sqrt(n - 1))),
        metric="cosine",
        min_dist=0.1,
        n_epochs=100,
        random_state=42,
        n_jobs=1,  # several jobs are not reproducible
    )
    with warnings.catch_warnings():  # about disconnected rows, which are harmless here
        warnings.simplefilter("ignore")
        found: Floats = np.asarray(reducer.fit_transform(vectors), dtype=np.float64)
    reduced: Floats = np.round(found - found.mean(axis=0), DECIMALS) + 0.0
    return reduced


def memberships(responsibilities: Floats) -> tuple[Members, ...]:
    """Return the rows of every cluster that has any, clusters in the order of the components."""
    k = responsibilities.shape[1]
    rounded = responsibilities.round(DECIMALS)
    belongs = rounded >= max(MIN_RESPONSIBILITY, 1 / k + 1e-6)
    belongs[np.arange(len(rounded)), rounded.argmax(axis=1)] |= ~belongs.any(axis=1)
    return tuple(tuple(np.flatnonzero(column).tolist()) for column in belongs.T if column.any())


def best_mixture(points: Floats, rng: random.Random, *, covariance: str = "diagonal", least: int = 1) -> Mixture:
    """Fit mixtures of ``least``, then more components and return the one of lowest BIC, the smaller one of equals.

    At most ``min(50, n // 4)`` components, for ``covariance="full"`` ``min(50, n - 1)``, and not more than there are
    distinct points; the search ends after three numbers in a row that are no better. From 16 on the number grows by an
    eighth at a time, as neighbours hardly differ: every number is tried up to 64 points."""
    n = len(points)
    allowed = n // 4 if covariance == "diagonal" else n - 1
    most = max(1, min(MAX_COMPONENTS, allowed, len(np.unique(points, axis=0))))
    fewest = max(1, min(least, most))
    best = gaussian_mixture(points, fewest, rng, covariance=covariance)
    worse = 0
    for k in _numbers(fewest + 1, most):
        found = gaussian_mixture(points, k, rng, covariance=covariance)
        if round(found.bic, DECIMALS) < round(best.bic, DECIMALS):
            best, worse = found, 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    return best


def _numbers(first: int, last: int) -> Iterator[int]:
    k = first
    while k < last:
        yield k
        k = min(last, k + max(1, k // 8))
    if first <= last:
        yield last


def gaussian_mixture(
    points: Floats,
    k: int,
    rng: random.Random,
    *,
    covariance: str = "diagonal",
    tolerance: float = 1e-4,
    rounds: int = 100,
) -> Mixture:
    """Fit a mixture of ``k`` components by expectation maximisation (Dempster, Laird & Rubin 1977).

    It starts from k-means and ends when a step improves the mean log-likelihood of a point by less than ``tolerance``.
    Variances, for ``covariance="full"`` those along the principal axes of a component, are kept at 1 % of the mean
    variance of the points or above (for ``"full"`` at 1e-6, as published). What is below is raised, which is the
    maximum of the likelihood under that limit, so no step can lower it; adding the limit, as is usual, could."""
    offset = points.mean(axis=0)  # near 0, squares lose no digits
    centred = points - offset
    floor = max(1e-2 * float(centred.var(axis=0).mean()), 1e-12) if covariance == "diagonal" else 1e-6
    model = _maximised(centred, _one_hot(_k_means(centred, k, rng), k), covariance, floor)
    responsibilities, likelihood = _expected(centred, *model)
    likelihoods = [likelihood]
    for _ in range(rounds):
        model = _maximised(centred, responsibilities, covariance, floor)
        responsibilities, likelihood = _expected(centred, *model)
        likelihoods.append(likelihood)
        if likelihood - likelihoods[-2] < tolerance * len(points):
            break
    weights, means, covariances = model
    return Mixture(weights, means + offset, covariances, responsibilities, tuple(likelihoods))


def _expected(points: Floats, weights: Floats, means: Floats, covariances: Floats) -> tuple[Floats, float]:
    """E-step: responsibilities, and the log-likelihood of all points."""
    log_joint = np.log(weights) + _log_densities(points, means, covariances)
    top = log_joint.max(axis=1, keepdims=True)
    joint = np.exp(log_joint - top)
    total = joint.sum(axis=1, keepdims=True)
    return joint / total, float((np.log(total) + top).sum())


def _maximised(
    points: Floats, responsibilities: Floats, covariance: str, floor: float
) -> tuple[Floats, Floats, Floats]:
    """M-step: weights, means and covariances."""
    counts = responsibilities.sum(axis=0) + 10 * np.finfo(np.float64).eps
    means = responsibilities.T @ points / counts[:, None]
    if covariance == "diagonal":
        squares = responsibilities.T @ (points * points) / counts[:, None]
        covariances = np.maximum(squares - means * means, floor)
    else:
        shifted = points[None] - means[:, None]
        weighted = responsibilities.T[:, :, None] * shifted
        variances, axes = np.linalg.eigh(weighted.transpose(0, 2, 1) @ shifted / counts[:, None, None])
        covariances = (axes * np.maximum(variances, floor)[:, None, :]) @ axes.transpose(0, 2, 1)
    return counts / counts.sum(), means, covariances


def _log_densities(points: Floats, means: Floats, covariances: Floats) -> Floats:
    """Logarithm of the normal density of every point in every component: shape ``(n, k)``."""
    # ln N(x; m, S) = -(d ln 2 pi + ln |S| + (x - m)' S^-1 (x - m)) / 2
    if covariances.ndim == 2:
        precisions = 1 / covariances
        log_determinants = np.log(covariances).sum(axis=1)
        distances = (points * points) @ precisions.T - 2 * points @ (means * precisions).T
        distances += (means * means * precisions).sum(axis=1)
    else:
        factors = np.linalg.cholesky(covariances)
        log_determinants = 2 * np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        shifted = points[None] - means[:, None]
        whitened = np.linalg.solve(factors, shifted.transpose(0, 2, 1))
        distances = (whitened * whitened).sum(axis=1).T
    densities: Floats = -(points.shape[1] * _LOG_2PI + log_determinants + distances) / 2
    return densities


def _k_means(points: Floats, k: int, rng: random.Random) -> NDArray[np.intp]:
    """Return the cluster of every point: Lloyd's algorithm from a k-means++ start (Arthur & Vassilvitskii 2007)."""
    centres = _spread_out(points, k, rng)
    nearest: NDArray[np.intp] = _distances(points, centres).argmin(axis=1)
    for _ in range(_LLOYD_ROUNDS):
        sums = _one_hot(nearest, k).T @ points
        counts = np.bincount(nearest, minlength=k)[:, None]
        centres = np.where(counts > 0, sums / np.maximum(counts, 1), centres)
        moved = _distances(points, centres).argmin(axis=1)
        if np.array_equal(moved, nearest):
            break
        nearest = moved
    return nearest


def _spread_out(points: Floats, k: int, rng: random.Random) -> Floats:
    """Draw ``k`` points, each in proportion to its squared distance from those before; the best of a few draws."""
    chosen = [rng.randrange(len(points))]
    nearest = _distances(points, points[chosen])[:, 0]
    while len(chosen) < k:
        cumulated = nearest.cumsum()
        drawn = [rng.random() * float(cumulated[-1]) for _ in range(2 + int(math.log(k)))]
        candidates = np.minimum(np.searchsorted(cumulated, drawn, side="right"), len(points) - 1)
        after = np.minimum(nearest[:, None], _distances(points, points[candidates]))
        best = int(after.sum(axis=0).round(DECIMALS).argmin())
        chosen.append(int(candidates[best]))
        nearest = after[:, best]
    return points[chosen]


def _distances(points: Floats, centres: Floats) -> Floats:
    """Squared distances, shape ``(points, centres)``; rounded, as they decide who is nearest."""
    lengths = (points * points).sum(axis=1)[:, None] + (centres * centres).sum(axis=1)
    distances: Floats = np.maximum(lengths - 2 * points @ centres.T, 0).round(2 * DECIMALS)
    return distances


def _one_hot(clusters: NDArray[np.intp], k: int) -> Floats:
    return np.eye(k)[clusters]
