"""Clusters are compared with those that the points were drawn from, and every figure with a formula written out."""

from __future__ import annotations

import importlib.util
import itertools
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ragsmith.errors import MissingExtra
from ragsmith.index.clustering import (
    COVARIANCES,
    Floats,
    Mixture,
    assign_clusters,
    cluster_softly,
    fit_mixture,
    reduce_by_pca,
    reduce_by_umap,
    select_mixture,
)

every_covariance = pytest.mark.parametrize("covariance", COVARIANCES)


def directions(n: int, clusters: int, seed: int, noise: float = 0.3, dimensions: int = 256) -> Floats:
    """Unit vectors around so many random directions, row i around the ``i % clusters``-th."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(clusters, dimensions))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    rows = centres[np.arange(n) % clusters] + rng.normal(size=(n, dimensions)) * noise / math.sqrt(dimensions)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def noise(n: int, seed: int) -> Floats:
    return np.random.default_rng(seed).normal(size=(n, 256)) / 16


# --- UMAP ------------------------------------------------------------------------------------------------------------


def test_without_its_package_umap_says_what_to_install() -> None:
    if importlib.util.find_spec("umap"):
        pytest.skip("umap-learn is installed")
    with pytest.raises(MissingExtra, match=r"pip install 'ragsmith\[umap\]'"):
        cluster_softly(directions(20, 2, seed=1), reduction="umap")


@pytest.mark.parametrize("n", [4, 5, 40])
def test_umap_keeps_near_rows_near(n: int) -> None:
    pytest.importorskip("umap")
    rows = directions(n, 2, seed=1)
    reduced = reduce_by_umap(rows, 10)
    assert reduced.shape == (n, max(2, min(10, n - 2)))
    assert np.array_equal(reduced, reduce_by_umap(rows, 10))
    if n == 40:
        found = cluster_softly(rows, reduction="umap")
        assert {frozenset(row % 2 for row in members) for members in found} == {frozenset({0}), frozenset({1})}
    assert reduce_by_umap(rows[:3], 2).tolist() == reduce_by_pca(rows[:3], 2).tolist()


# --- principal components --------------------------------------------------------------------------------------------


def test_coordinates_are_those_of_the_eigenvectors_of_the_covariance() -> None:
    rows = np.random.default_rng(3).normal(size=(40, 6)) * [5, 3, 2, 1, 0.5, 0.1]
    reduced = reduce_by_pca(rows, 2)
    variances, axes = np.linalg.eigh(np.cov(rows.T))
    expected = (rows - rows.mean(axis=0)) @ axes[:, [-1, -2]]
    assert np.abs(reduced) == pytest.approx(np.abs(expected), abs=1e-5)
    assert reduced.var(axis=0, ddof=1) == pytest.approx(variances[[-1, -2]], rel=1e-4)


def test_the_sign_of_a_component_is_fixed() -> None:
    rows = np.array([[0.0, 0.0], [-2.0, 1.0], [2.0, -1.0]])
    assert reduce_by_pca(rows, 1)[:, 0] == pytest.approx(
        [0, -math.sqrt(5), math.sqrt(5)], abs=1e-6
    )  # largest loading: the first
    assert reduce_by_pca(rows, 1).tolist() == reduce_by_pca(rows[:, ::-1], 1).tolist()


@pytest.mark.parametrize(("n", "asked", "given_"), [(1, 3, 1), (5, 0, 0), (5, 9, 4), (0, 2, 0)])
def test_there_are_no_more_components_than_rows_and_columns(n: int, asked: int, given_: int) -> None:
    assert reduce_by_pca(np.zeros((n, 4)), asked).shape == (n, given_)


# --- mixtures --------------------------------------------------------------------------------------------------------


@every_covariance
@pytest.mark.parametrize(("k", "seed"), list(itertools.product((1, 2, 4, 7), range(4))))
def test_no_step_of_em_lowers_the_likelihood(covariance: str, k: int, seed: int) -> None:
    points = reduce_by_pca(noise(50, seed), 3) * 10
    found = fit_mixture(points, k, random.Random(seed), covariance=covariance, tolerance=1e-9)
    steps = np.diff(found.log_likelihoods)
    assert (steps >= -1e-8 * np.abs(found.log_likelihoods[:-1])).all()


def density(found: Mixture, point: Floats, component: int) -> float:
    """The normal density, by its formula."""
    covariance = found.covariances[component]
    matrix = np.diag(covariance) if covariance.ndim == 1 else covariance
    away = point - found.means[component]
    scale = math.sqrt((2 * math.pi) ** len(point) * np.linalg.det(matrix))
    return math.exp(-away @ np.linalg.inv(matrix) @ away / 2) / scale


@every_covariance
def test_likelihood_responsibilities_and_bic_are_those_of_the_formulas(covariance: str) -> None:
    points = np.random.default_rng(5).normal(size=(30, 2)) + np.repeat([[0, 0], [4, 1], [100, -50]], 10, axis=0)
    found = fit_mixture(points, 3, random.Random(0), covariance=covariance)
    joint = np.array([[found.weights[j] * density(found, x, j) for j in range(3)] for x in points])
    likelihood = float(np.log(joint.sum(axis=1)).sum())
    assert found.log_likelihoods[-1] == pytest.approx(likelihood, rel=1e-9)
    assert found.responsibilities == pytest.approx(joint / joint.sum(axis=1, keepdims=True), abs=1e-9)
    free = 2 + 3 * 2 + 3 * (2 if covariance == "diagonal" else 3)
    assert found.bic == pytest.approx(free * math.log(30) - 2 * likelihood)


def test_one_component_has_the_mean_and_the_variances_of_the_points() -> None:
    points = np.random.default_rng(1).normal([1000, 0, -5], size=(25, 3))
    found = fit_mixture(points, 1, random.Random(0))
    assert found.means[0] == pytest.approx(points.mean(axis=0))
    assert found.covariances[0] == pytest.approx(points.var(axis=0))
    full = fit_mixture(points, 1, random.Random(0), covariance="full")
    assert full.covariances[0] == pytest.approx(np.cov(points.T, bias=True))


def test_no_variance_falls_below_a_hundredth_of_the_mean_variance() -> None:
    points = np.array([[0.0, 0], [0, 1], [0, 2], [8, 0], [8, 1], [8, 2]])
    found = fit_mixture(points, 2, random.Random(0))
    limit = points.var(axis=0).mean() / 100
    assert found.covariances[:, 0] == pytest.approx([limit, limit])
    assert found.covariances[:, 1] == pytest.approx([2 / 3, 2 / 3])


@pytest.mark.parametrize("n", [12, 14, 18, 24, 36, 60])
def test_three_clear_clusters_are_found(n: int) -> None:
    """In 53 of 54 trials at the least, as measured for these limits; here in all that are tried."""
    for seed in range(3):
        expected = {tuple(range(first, n, 3)) for first in range(3)}
        assert set(cluster_softly(directions(n, 3, seed))) == expected


def test_where_nothing_is_there_one_cluster_is_found() -> None:
    found = [len(cluster_softly(noise(n, seed))) for n in (12, 20, 32, 48) for seed in range(5)]
    assert found.count(1) >= 18


def test_at_least_as_many_components_as_asked_for_but_never_more_than_allowed() -> None:
    points = reduce_by_pca(noise(40, 0), 4)
    assert len(select_mixture(points, random.Random(0)).weights) == 1
    assert len(select_mixture(points, random.Random(0), least=5).weights) >= 5
    assert len(select_mixture(points, random.Random(0), least=99).weights) == 10
    assert len(select_mixture(points[:7], random.Random(0), least=3).weights) == 1


@every_covariance
def test_equal_points_are_one_cluster(covariance: str) -> None:
    assert cluster_softly(np.ones((20, 8)), covariance=covariance, least=4) == (tuple(range(20)),)
    copies = cluster_softly(np.repeat(np.eye(3), 8, axis=0), covariance=covariance)
    assert 1 <= len(copies) <= 3  # never more clusters than distinct points


# --- membership ------------------------------------------------------------------------------------------------------


def test_a_point_belongs_where_it_is_likely_enough() -> None:
    responsibilities = np.array([[0.9, 0.06, 0.04], [0.5, 0.45, 0.05], [0.34, 0.33, 0.33], [1 / 3, 1 / 3, 1 / 3]])
    # 1/3 + 1e-6 is the bar: the second point belongs twice, the last nowhere, so to the first of the likeliest
    assert assign_clusters(responsibilities) == ((0, 1, 2, 3), (1,))
    assert assign_clusters(np.array([[0.5, 0.5], [0.4, 0.6]])) == ((0,), (1,))  # of two components, to one
    row = [0.0] * 20  # from ten components on a tenth is enough
    row[3], row[7], row[9] = 0.8, 0.1, 0.09
    assert assign_clusters(np.array([row])) == ((0,), (0,))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 40),
    st.integers(0, 5),
    st.sampled_from(COVARIANCES),
    st.integers(1, 6),
)
def test_every_row_belongs_and_the_same_rows_give_the_same_clusters(
    n: int, seed: int, covariance: str, least: int
) -> None:
    rows = noise(n, seed)
    found = cluster_softly(rows, covariance=covariance, least=least)
    assert {i for members in found for i in members} == set(range(n))
    assert all(members == tuple(sorted(set(members))) for members in found)
    shaken = rows + np.random.default_rng(0).normal(size=rows.shape) * 1e-15  # as another machine might compute them
    assert cluster_softly(shaken, covariance=covariance, least=least) == found
