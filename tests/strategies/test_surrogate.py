from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from random import Random

import numpy as np
import pytest
from landscapes import PAPER_SIZES, additive, rugged

from ragsmith.strategies import Genome
from ragsmith.strategies.surrogate import JITTER, LEVEL_VARIANCE, Surrogate, expected_improvement, fit_surrogate

SPACE = list(product(range(3), range(2), range(4)))


def drawn(sizes: tuple[int, ...], n: int, seed: int = 0) -> list[Genome]:
    rng = Random(seed)
    return list(dict.fromkeys(tuple(rng.randrange(size) for size in sizes) for _ in range(n)))


def covariance(surrogate: Surrogate, one: Genome, other: Genome) -> float:
    """Of the effects of two genomes, pair by pair, as the module says it."""
    options = surrogate.variances.options
    equal = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a == b]
    single = sum(options[i] for i in equal)
    pairs = sum(surrogate.variances.pairs * options[i] * options[j] for i, j in combinations(equal, 2))
    return float(single + pairs + surrogate.variances.residual * (one == other))


def prior(genome: Genome) -> tuple[float, float]:
    return 0.5 + 0.02 * genome[0], 0.05 + 0.01 * genome[2]


def priors(genomes: Sequence[Genome]) -> tuple[np.ndarray, np.ndarray]:
    means, deviations = zip(*map(prior, genomes), strict=True)
    return np.array(means), np.array(deviations)


@pytest.mark.parametrize("known", [None, priors])
def test_the_posterior_is_that_of_the_textbook(known: object) -> None:
    """Rasmussen and Williams, equations 2.25 and 2.26, number by number."""
    seen = drawn((3, 2, 4), 10)
    values = np.array([math.sin(3 * sum(genome)) for genome in seen])
    noise = np.array([0.01 * (i % 3) for i in range(len(seen))])
    surrogate = fit_surrogate(seen, values, noise, known)

    def expected(genome: Genome) -> tuple[float, float]:
        return prior(genome) if known else (0.0, float(values.std()))

    typical = float(np.mean([expected(genome)[1] ** 2 for genome in seen]))

    def k(one: Genome, other: Genome) -> float:
        return expected(one)[1] * expected(other)[1] * covariance(surrogate, one, other) + LEVEL_VARIANCE * typical

    matrix = np.array([[k(a, b) for b in seen] for a in seen]) + np.diag(noise + JITTER * typical)
    surprise = values - np.array([expected(genome)[0] for genome in seen])
    mean, sd = surrogate.posterior(SPACE)
    joint_mean, joint = surrogate.joint(SPACE)
    for i, genome in enumerate(SPACE):
        cross = np.array([k(genome, other) for other in seen])
        assert mean[i] == pytest.approx(expected(genome)[0] + cross @ np.linalg.solve(matrix, surprise), abs=1e-6)
        variance = k(genome, genome) - cross @ np.linalg.solve(matrix, cross)
        assert sd[i] ** 2 == pytest.approx(variance, abs=1e-6)
        assert joint[i, i] == pytest.approx(variance, abs=1e-6)
        other = np.array([k(SPACE[0], one) for one in seen])
        assert joint[i, 0] == pytest.approx(k(genome, SPACE[0]) - cross @ np.linalg.solve(matrix, other), abs=1e-6)
    assert joint_mean == pytest.approx(mean)


def test_the_variances_have_the_highest_posterior_density() -> None:
    """No change of one of them, up or down, makes what was seen together with what is expected of them likelier."""
    seen = drawn((3, 4, 5, 2), 40)
    score = rugged((3, 4, 5, 2), 1)
    values = np.array([score(genome) for genome in seen])
    surrogate = fit_surrogate(seen, values)
    equal = np.array([[[a == b for a, b in zip(one, other, strict=True)] for other in seen] for one in seen], float)

    def density(logarithms: np.ndarray) -> float:
        options, (pairs, own) = np.exp(logarithms[:-2]), np.exp(logarithms[-2:])
        effects = equal @ options + own * np.eye(len(seen))
        for i, j in combinations(range(4), 2):
            effects += pairs * options[i] * options[j] * equal[:, :, i] * equal[:, :, j]
        matrix = values.var() * (effects + LEVEL_VARIANCE + JITTER * np.eye(len(seen)))
        likelihood = -0.5 * values @ np.linalg.solve(matrix, values) - 0.5 * np.linalg.slogdet(matrix)[1]
        expected, widths = np.log([0.25] * 4 + [0.4, 0.02]), np.array([1.5] * 4 + [1.0, 1.0])
        return float(likelihood - 0.5 * (((logarithms - expected) / widths) ** 2).sum())

    variances = surrogate.variances
    highest = np.log([*variances.options, variances.pairs, variances.residual])
    for i in range(6):
        for change in (-0.3, 0.3):
            assert density(highest) > density(highest + change * np.eye(6)[i])


def test_what_was_seen_exactly_is_known_and_what_was_seen_with_noise_is_shrunk() -> None:
    seen = drawn((3, 4, 5, 2), 30)
    score = rugged((3, 4, 5, 2), 2)
    values = np.array([score(genome) for genome in seen])
    mean, sd = fit_surrogate(seen, values).posterior(seen)
    assert mean == pytest.approx(values, abs=1e-3)
    assert sd.max() < 0.01
    noisy, doubt = fit_surrogate(seen, values, 0.01).posterior(seen)
    assert noisy.std() < values.std()
    assert doubt.min() > sd.max()


def test_it_predicts_what_it_did_not_see_and_knows_how_well() -> None:
    errors, beyond = [], []
    for seed in range(5):
        score = rugged(PAPER_SIZES, seed)
        seen, unseen = drawn(PAPER_SIZES, 100, seed), drawn(PAPER_SIZES, 300, seed + 100)
        truth = np.array([score(genome) for genome in unseen])
        mean, sd = fit_surrogate(seen, [score(genome) for genome in seen]).posterior(unseen)
        errors.append(((truth - mean) ** 2).mean() / truth.var())
        beyond.append((np.abs(truth - mean) > 1.96 * sd).mean())
    assert np.mean(errors) < 0.35
    assert 0.01 < np.mean(beyond) < 0.12


def test_a_prior_says_what_to_expect_where_nothing_was_seen() -> None:
    score = additive(PAPER_SIZES, 1)

    def good(genomes: Sequence[Genome]) -> tuple[np.ndarray, np.ndarray]:
        right = np.array([score(genome) for genome in genomes])
        return right + 0.3, np.full(len(genomes), 0.02)  # a wrong level, and the right order

    seen, unseen = drawn(PAPER_SIZES, 5), drawn(PAPER_SIZES, 200, 1)
    truth = np.array([score(genome) for genome in unseen])
    mean, _ = fit_surrogate(seen, [score(genome) for genome in seen], 0.0, good).posterior(unseen)
    assert mean == pytest.approx(truth, abs=0.02)


def test_one_value_and_equal_values_can_be_learned_from() -> None:
    for seen, value in ((SPACE[:1], 0.5), (SPACE[:7], 0.5), (SPACE[:12], 0.7)):  # twelve times 0.7 has an sd
        mean, sd = fit_surrogate(seen, [value] * len(seen)).posterior(SPACE)
        assert mean == pytest.approx(value, abs=0.02)
        assert np.isfinite(sd).all()
        assert sd.max() > 1e-3


def test_expected_improvement_is_the_mean_of_what_is_above() -> None:
    mean, sd = np.array([0.4, 0.5, 0.7, 0.6]), np.array([0.1, 0.2, 0.05, 0.0])
    draws = np.random.default_rng(0).normal(size=400_000)
    simulated = [np.maximum(m + s * draws - 0.55, 0.0).mean() for m, s in zip(mean, sd, strict=True)]
    assert expected_improvement(mean, sd, 0.55) == pytest.approx(simulated, abs=5e-4)
