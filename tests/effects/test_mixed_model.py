"""The mixed model on scores that were made up, so that what is to be found is known."""

from __future__ import annotations

import numpy as np
import pytest
from effect_model import fit, sampling_noise

from ragsmith.effects.beliefs import DatasetBlock, EffectVariances, effects
from ragsmith.evaluation.statistics import student_quantile

OPTIONS = (4, 3)
"""Options of two families; the terms are one an option, in two groups."""
PIPELINES = 20
GROUPS = np.repeat([0, 1], OPTIONS)
TRUE = EffectVariances(np.array([0.02**2, 0.01**2]), np.zeros(2), np.array([0.008**2, 0.004**2]), rest=0.003**2)
START = EffectVariances(np.full(2, 1e-3), np.full(2, 1e-4), np.full(2, 1e-3), rest=1e-4)


def designed(pipelines: int, rng: np.random.Generator) -> np.ndarray:
    design = np.zeros((pipelines, sum(OPTIONS)))
    for row in design:
        row[rng.integers(OPTIONS[0])] = 1
        row[OPTIONS[0] + rng.integers(OPTIONS[1])] = 1
    return design


def world(seed: int, sets: int, questions: int = 40, noise: float = 0.05) -> tuple[list[DatasetBlock], np.ndarray]:
    """Blocks of data sets, whose questions are a sample; and the effects on one more, that is not among them."""
    rng = np.random.default_rng(seed)
    general = rng.normal(0, np.sqrt(TRUE.general[GROUPS]))
    blocks = []
    for _ in range(sets):
        own = rng.normal(0, np.sqrt(TRUE.own[GROUPS]))
        design = designed(PIPELINES, rng)
        by_question = rng.normal(0, noise, (sum(OPTIONS), questions))
        scores = (
            (design @ (general + own))[:, None] + design @ by_question + rng.normal(0, TRUE.rest**0.5, (PIPELINES, 1))
        )
        scores = scores + rng.uniform(0.2, 0.8, questions)  # questions differ in how hard they are
        centred = scores - scores.mean(axis=1, keepdims=True)
        found = sampling_noise(design, GROUPS, 2, centred.T / questions)
        blocks.append(DatasetBlock(design, scores.mean(axis=1), found, "prose"))
    return blocks, general + rng.normal(0, np.sqrt(TRUE.own[GROUPS]))


def against_first(values: np.ndarray) -> np.ndarray:
    """Effects against the first option of each family, as levels cannot be told from the options' mean."""
    firsts = np.repeat([0, OPTIONS[0]], OPTIONS)
    return values - values[firsts]


def test_effects_of_many_data_sets_are_found() -> None:
    blocks, _ = world(1, sets=20)
    found = effects(blocks, GROUPS, fit(blocks, GROUPS, START, steps=20), "prose")
    general = np.random.default_rng(1).normal(0, np.sqrt(TRUE.general[GROUPS]))
    assert against_first(found.mean) == pytest.approx(against_first(general), abs=0.008)


def test_variances_are_found_but_for_their_own_uncertainty() -> None:
    fits = [fit(world(seed, sets=10)[0], GROUPS, START, steps=20) for seed in range(10)]
    assert np.mean([found.own for found in fits], axis=0) == pytest.approx(TRUE.own, rel=0.35)
    general = np.mean([found.kind + found.general for found in fits], axis=0)  # one kind: nobody can tell them apart
    assert general == pytest.approx(TRUE.general, rel=0.6)


def test_what_questions_add_is_not_taken_for_a_difference_between_data_sets() -> None:
    blocks, _ = world(2, sets=10, questions=10, noise=0.08)
    unaware = [DatasetBlock(block.design, block.scores, np.zeros(3), block.kind) for block in blocks]
    aware, fooled = (fit(given, GROUPS, START, steps=30) for given in (blocks, unaware))
    assert aware.own.sum() < 0.5 * fooled.own.sum()


def test_intervals_for_a_data_set_that_was_left_out_hold_what_they_promise() -> None:
    inside = total = 0
    for seed in range(40):
        blocks, truth = world(seed, sets=6)
        found = effects(blocks, GROUPS, fit(blocks, GROUPS, START, steps=20), "prose")
        for a, b in ((0, 1), (1, 2), (4, 5), (5, 6)):
            contrast = np.zeros(len(GROUPS))
            contrast[[a, b]] = 1, -1
            reach = student_quantile(0.975, 5) * np.sqrt(contrast @ found.covariance @ contrast)
            inside += abs(contrast @ (found.mean - truth)) <= reach
            total += 1
    assert 0.90 <= inside / total <= 1.0


def test_an_option_that_nobody_tried_has_mean_0_and_all_of_the_variance() -> None:
    blocks, _ = world(3, sets=4)
    without = [DatasetBlock(np.delete(b.design, 3, axis=1), b.scores, b.noise, b.kind) for b in blocks]
    padded = [DatasetBlock(np.insert(b.design, 3, 0.0, axis=1), b.scores, b.noise, b.kind) for b in without]
    found = effects(padded, GROUPS, TRUE, "prose")
    assert found.mean[3] == pytest.approx(0)
    assert found.covariance[3, 3] == pytest.approx(TRUE.general[0] + TRUE.own[0])


def test_a_kind_of_its_own_tells_of_that_kind_only() -> None:
    variances = EffectVariances(np.zeros(2), np.full(2, 1e-3), np.full(2, 1e-6), 1e-6)
    blocks, _ = world(4, sets=2)
    there, elsewhere = (effects(blocks, GROUPS, variances, kind) for kind in ("prose", "tables"))
    assert np.abs(there.mean).max() > 0.005
    assert elsewhere.mean == pytest.approx(np.zeros(7))


def test_stretching_widens_what_is_not_known_and_nothing_else() -> None:
    blocks, _ = world(5, sets=4)
    plain, wide = (effects(blocks, GROUPS, TRUE, "prose", stretch) for stretch in (1.0, 3.0))
    assert wide.mean == pytest.approx(plain.mean)
    assert np.diag(wide.covariance - plain.covariance) == pytest.approx(2 * TRUE.own[GROUPS])


def test_one_group_of_questions_says_nothing_about_their_noise() -> None:
    assert sampling_noise(np.ones((3, 7)), GROUPS, 2, np.zeros((1, 3))).tolist() == [0, 0, 0]
