"""Soft clustering of vectors: dimensionality reduction, and Gaussian mixtures fitted by EM and selected by BIC.

Results are reproducible: random numbers are drawn from the given generator, and sums whose last bits depend on the
machine are rounded before comparisons. Only UMAP, an alternative to principal components, is reproducible on one
machine only.
"""

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
"""Maximum number of dimensions after reduction."""
MAX_COMPONENTS = 50
"""Maximum number of components of a mixture."""
PATIENCE = 3
"""Number of consecutive component counts without a lower BIC after which the search ends."""

MIN_RESPONSIBILITY = 0.1
"""Minimum responsibility of a component for its members."""
MIN_UMAP_ROWS = 4
"""Minimum number of rows for UMAP."""

_LOG_2PI = math.log(2 * math.pi)
_MAX_LLOYD_STEPS = 30


@dataclass(frozen=True, slots=True)
class Mixture:
    """A Gaussian mixture of ``k`` components on ``n`` points in ``d`` dimensions.

    ``weights`` has shape ``(k,)``, ``means`` ``(k, d)``, ``covariances`` ``(k, d)`` (variances) or ``(k, d, d)``, and
    ``responsibilities`` ``(n, k)``. ``log_likelihoods`` has those of all points at the start and after every step of
    EM.
    """

    weights: Floats
    means: Floats
    covariances: Floats
    responsibilities: Floats
    log_likelihoods: tuple[float, ...]

    @property
    def bic(self) -> float:
        """Bayesian information criterion, lower is better: ``p ln n - 2 ln L`` (Schwarz 1978).

        The ``p`` free parameters are weights that sum to 1, means and covariances.
        """
        k, d = self.means.shape
        spread = d if self.covariances.ndim == 2 else d * (d + 1) // 2
        parameters = (k - 1) + k * d + k * spread
        return float(parameters * math.log(len(self.responsibilities)) - 2 * self.log_likelihoods[-1])


def cluster_softly(
    vectors: Floats, *, covariance: str = "diagonal", reduction: str = "pca", least: int = 1, seed: int = 0
) -> tuple[Members, ...]:
    """Cluster the rows of ``vectors``; every row is in at least one cluster.

    Vectors are reduced by `reduce_by_pca` or `reduce_by_umap`, then the best mixture of at least ``least`` components
    is selected. A row belongs to the components whose responsibility is at least ``max(0.1, 1/k + 1e-6)``, or to the
    most probable one if there is none; so two components never share a row.

    With ``covariance="diagonal"``, up to ``n // 4`` dimensions and components are allowed. ``"full"`` has the limits of
    the published RAPTOR code, ``n - 2`` and ``n - 1``, at which the criterion is degenerate: 12 to 30 points without
    any structure give two to eight clusters.
    """
    n = len(vectors)
    if n == 0:
        return ()
    dimensions = max(1, n // 4) if covariance == "diagonal" else max(2, n - 2)
    points = (reduce_by_umap if reduction == "umap" else reduce_by_pca)(vectors, min(MAX_DIMENSIONS, dimensions))
    mixture = select_mixture(points, random.Random(seed), covariance=covariance, least=least)
    return assign_clusters(mixture.responsibilities)


def reduce_by_pca(vectors: Floats, dimensions: int) -> Floats:
    """Project rows on their principal components: shape ``(n, min(dimensions, n, columns))``, with mean 0.

    The sign of a component is such that its largest loading is positive. Coordinates are rounded to six decimals.
    """
    centred = np.asarray(vectors, dtype=np.float64)
    centred = centred - centred.mean(axis=0) if len(centred) else centred
    left, singular, axes = np.linalg.svd(centred, full_matrices=False)
    count = max(0, min(dimensions, len(axes)))
    largest = np.abs(axes[:count]).round(DECIMALS).argmax(axis=1)
    signs = np.where(axes[np.arange(count), largest] < 0, -1.0, 1.0)
    reduced: Floats = np.round(left[:, :count] * singular[:count] * signs, DECIMALS) + 0.0  # no negative zeros
    return reduced


def reduce_by_umap(vectors: Floats, dimensions: int) -> Floats:
    """Project rows by UMAP (McInnes et al. 2018): shape ``(n, dimensions)``, with 2 to n - 2 dimensions.

    The settings are those of the published RAPTOR code: cosine, the square root of n - 1 as neighbours, a minimum
    distance of 0.1, 100 epochs and the seed 42. Coordinates are rounded to six decimals and may differ between
    machines. Fewer than four rows are reduced by `reduce_by_pca`.

    Raises:
        MissingExtra: umap-learn is not installed.
    """
    try:
        from umap import UMAP  # noqa: PLC0415  compiles functions on import, which takes ten seconds the first time
    except ImportError:
        raise MissingExtra("umap-learn", "umap") from None
    n = len(vectors)
    if n < MIN_UMAP_ROWS:
        return reduce_by_pca(vectors, dimensions)
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
        projected: Floats = np.asarray(reducer.fit_transform(vectors), dtype=np.float64)
    reduced: Floats = np.round(projected - projected.mean(axis=0), DECIMALS) + 0.0
    return reduced


def assign_clusters(responsibilities: Floats) -> tuple[Members, ...]:
    """Return the rows of every non-empty cluster, in the order of the components."""
    k = responsibilities.shape[1]
    rounded = responsibilities.round(DECIMALS)
    belongs = rounded >= max(MIN_RESPONSIBILITY, 1 / k + 1e-6)
    belongs[np.arange(len(rounded)), rounded.argmax(axis=1)] |= ~belongs.any(axis=1)
    return tuple(tuple(np.flatnonzero(column).tolist()) for column in belongs.T if column.any())


def select_mixture(points: Floats, rng: random.Random, *, covariance: str = "diagonal", least: int = 1) -> Mixture:
    """Fit mixtures of increasing numbers of components from ``least``, and return the one with the lowest BIC.

    At most ``min(50, n // 4)`` components are tried, for ``covariance="full"`` ``min(50, n - 1)``, and not more than
    there are distinct points; the search ends after three consecutive numbers without a lower BIC. From 16 on the
    number grows by an eighth at a time, as neighbouring numbers hardly differ. Ties go to fewer components.
    """
    n = len(points)
    allowed = n // 4 if covariance == "diagonal" else n - 1
    max_count = max(1, min(MAX_COMPONENTS, allowed, len(np.unique(points, axis=0))))
    min_count = max(1, min(least, max_count))
    best = fit_mixture(points, min_count, rng, covariance=covariance)
    worse = 0
    for k in _iter_component_counts(min_count + 1, max_count):
        mixture = fit_mixture(points, k, rng, covariance=covariance)
        if round(mixture.bic, DECIMALS) < round(best.bic, DECIMALS):
            best, worse = mixture, 0
        else:
            worse += 1
        if worse == PATIENCE:
            break
    return best


def _iter_component_counts(first: int, last: int) -> Iterator[int]:
    k = first
    while k < last:
        yield k
        k = min(last, k + max(1, k // 8))
    if first <= last:
        yield last


def fit_mixture(
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
    Variances, for ``covariance="full"`` those along the principal axes of a component, are at least 1 % of the mean
    variance of the points (for ``"full"`` 1e-6, as published). Lower ones are raised to the limit, which maximises the
    likelihood under it, so no step can lower the likelihood; adding the limit, as is usual, could.
    """
    offset = points.mean(axis=0)  # near 0, squares lose no digits
    centred = points - offset
    floor = max(1e-2 * float(centred.var(axis=0).mean()), 1e-12) if covariance == "diagonal" else 1e-6
    model = _run_m_step(centred, _one_hot(_run_k_means(centred, k, rng), k), covariance, floor)
    responsibilities, likelihood = _run_e_step(centred, *model)
    likelihoods = [likelihood]
    for _ in range(rounds):
        model = _run_m_step(centred, responsibilities, covariance, floor)
        responsibilities, likelihood = _run_e_step(centred, *model)
        likelihoods.append(likelihood)
        if likelihood - likelihoods[-2] < tolerance * len(points):
            break
    weights, means, covariances = model
    return Mixture(weights, means + offset, covariances, responsibilities, tuple(likelihoods))


def _run_e_step(points: Floats, weights: Floats, means: Floats, covariances: Floats) -> tuple[Floats, float]:
    """E-step: responsibilities, and the log-likelihood of all points."""
    log_joint = np.log(weights) + _compute_log_densities(points, means, covariances)
    top = log_joint.max(axis=1, keepdims=True)
    joint = np.exp(log_joint - top)
    total = joint.sum(axis=1, keepdims=True)
    return joint / total, float((np.log(total) + top).sum())


def _run_m_step(
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


def _compute_log_densities(points: Floats, means: Floats, covariances: Floats) -> Floats:
    """Return the log density of every point in every component: shape ``(n, k)``."""
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


def _run_k_means(points: Floats, k: int, rng: random.Random) -> NDArray[np.intp]:
    """Return the cluster of every point, by Lloyd's algorithm from a k-means++ start (Arthur & Vassilvitskii 2007)."""
    centres = _draw_centres(points, k, rng)
    nearest: NDArray[np.intp] = _compute_distances(points, centres).argmin(axis=1)
    for _ in range(_MAX_LLOYD_STEPS):
        sums = _one_hot(nearest, k).T @ points
        counts = np.bincount(nearest, minlength=k)[:, None]
        centres = np.where(counts > 0, sums / np.maximum(counts, 1), centres)
        moved = _compute_distances(points, centres).argmin(axis=1)
        if np.array_equal(moved, nearest):
            break
        nearest = moved
    return nearest


def _draw_centres(points: Floats, k: int, rng: random.Random) -> Floats:
    """Draw ``k`` points by k-means++, each the best of a few draws."""
    chosen = [rng.randrange(len(points))]
    nearest = _compute_distances(points, points[chosen])[:, 0]
    while len(chosen) < k:
        cumulated = nearest.cumsum()
        drawn = [rng.random() * float(cumulated[-1]) for _ in range(2 + int(math.log(k)))]
        candidates = np.minimum(np.searchsorted(cumulated, drawn, side="right"), len(points) - 1)
        after = np.minimum(nearest[:, None], _compute_distances(points, points[candidates]))
        best = int(after.sum(axis=0).round(DECIMALS).argmin())
        chosen.append(int(candidates[best]))
        nearest = after[:, best]
    return points[chosen]


def _compute_distances(points: Floats, centres: Floats) -> Floats:
    """Return squared distances, shape ``(points, centres)``, rounded so that comparisons are reproducible."""
    lengths = (points * points).sum(axis=1)[:, None] + (centres * centres).sum(axis=1)
    distances: Floats = np.maximum(lengths - 2 * points @ centres.T, 0).round(2 * DECIMALS)
    return distances


def _one_hot(clusters: NDArray[np.intp], k: int) -> Floats:
    return np.eye(k)[clusters]
