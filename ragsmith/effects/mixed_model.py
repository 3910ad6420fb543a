"""A linear mixed model of what pipelines score on several data sets, by restricted maximum likelihood.

    score(d, p) = level(d) + sum over the terms t of p of [general(t) + of_kind(kind(d), t) + own(d, t)] + rest(d, p)

Each part of a term's effect is drawn around 0, with a variance that all terms of its group share; levels are free. What
the sample of questions adds is known from the questions, and joins the variances of its data set. Variances are found
by the multiplicative steps of Zhou, Hu, Zhou and Lange (2019), which never leave what a variance may be; effects are
what the scores leave to expect of them (Henderson's best linear unbiased predictions), with their covariance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

STEPS = 20
"""Steps to the likeliest variances: more change no effect by a thousandth."""
LEVEL = 1.0
"""Variance of the level of a data set: scores lie between 0 and 1, so this is nearly free."""

LEAST = 1e-8
"""Variance of a score, at least: some pipelines score alike to the last digit."""


@dataclass(frozen=True)
class DatasetBlock:
    """What was seen of one data set: a row of ``design`` (its terms, by weight) and a score for each pipeline.

    ``noise`` has for each group of terms the variance that the sample of questions gives an effect, and at the end that
    which it gives a pipeline besides.
    """

    design: Array
    scores: Array
    noise: Array
    kind: str


@dataclass(frozen=True)
class EffectVariances:
    """By group of terms, the variance of general effects, of those of a kind of corpus, and of those of a data set.

    ``rest`` is the variance of what terms do not explain of a pipeline.
    """

    general: Array
    kind: Array
    own: Array
    rest: float


@dataclass(frozen=True)
class Effects:
    """What is expected of the effects of terms on a data set that was not seen, and the covariance of the error."""

    mean: Array
    covariance: Array


def fit(
    blocks: Sequence[DatasetBlock], groups: NDArray[np.int_], start: EffectVariances, steps: int = STEPS
) -> EffectVariances:
    """The variances under which ``blocks`` are likeliest; ``groups`` has the group of each column of the designs."""
    stacked = _Stacked(blocks, groups)
    found = start
    for _ in range(steps):
        inverse = np.asarray(np.linalg.inv(stacked.covariance(found)), dtype=np.float64)
        explained = inverse @ stacked.scores
        wanted = [stacked.by_sets(np.outer(explained, explained) * kernel) for kernel in stacked.kernels]
        given = [stacked.by_sets(inverse * kernel) for kernel in stacked.kernels]
        general, kind, own = (
            np.array([_step((w * alike).sum(), (g * alike).sum()) for w, g in zip(wanted, given, strict=True)])
            for alike in (np.ones_like(stacked.same_kind), stacked.same_kind, np.eye(len(blocks)))
        )
        rest = _step(explained @ explained, np.trace(inverse))
        found = EffectVariances(found.general * general, found.kind * kind, found.own * own, found.rest * rest)
    return found


def effects(
    blocks: Sequence[DatasetBlock],
    groups: NDArray[np.int_],
    variances: EffectVariances,
    kind: str,
    stretch: float = 1.0,
) -> Effects:
    """The effects to expect on a data set of ``kind``; ``stretch`` times the usual variance between data sets."""
    stacked = _Stacked(blocks, groups)
    alike = np.concatenate([np.full(len(block.scores), block.kind == kind) for block in blocks])
    shared = stacked.design * variances.general[groups] + stacked.design * variances.kind[groups] * alike[:, None]
    solved = np.linalg.solve(stacked.covariance(variances), np.column_stack([stacked.scores, shared]))
    before = variances.general + variances.kind + stretch * variances.own
    return Effects(shared.T @ solved[:, 0], np.diag(before[groups]) - shared.T @ solved[:, 1:])


def sampling_noise(design: Array, groups: NDArray[np.int_], n_groups: int, deviations: Array) -> Array:
    """What the questions that happen to be asked do to effects, as `DatasetBlock.noise`, by the method of moments.

    ``deviations`` has a row for each independent group of questions: by pipeline, how far its mean over all questions
    would move with the group, so that the sum over groups is 0.
    """
    count, pipelines = deviations.shape
    if count < 2:  # nothing is known of it: what data sets differ by has to hold it
        return np.zeros(n_groups + 1)
    centred = deviations - deviations.mean(axis=1, keepdims=True)
    observed = centred.T @ centred * count / (count - 1)
    centre = np.eye(pipelines) - 1 / pipelines
    kernels = [design[:, groups == group] @ design[:, groups == group].T for group in range(n_groups)]
    shapes = [centre @ kernel @ centre for kernel in (*kernels, np.eye(pipelines))]
    return _not_negative(
        np.array([[float((a * b).sum()) for a in shapes] for b in shapes]),
        np.array([float((observed * shape).sum()) for shape in shapes]),
    )


def student_95(freedom: float) -> float:
    """The 97.5 % quantile of Student's t, by Hill's expansion from the normal one (1970); within 1 % from 3 on."""
    z = 1.959964
    powers = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return float(z + sum(power / freedom ** (n + 1) for n, power in enumerate(powers)))


class _Stacked:
    """All data sets below each other. What data sets have in common is a matrix with a row and a column for each."""

    def __init__(self, blocks: Sequence[DatasetBlock], groups: NDArray[np.int_]) -> None:
        self.design = np.vstack([block.design for block in blocks])
        self.scores = np.concatenate([block.scores - block.scores.mean() for block in blocks])
        lengths = [len(block.scores) for block in blocks]
        self._sets = np.repeat(np.arange(len(blocks)), lengths)
        self._starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
        ends = np.cumsum(lengths).tolist()
        self._rows = [slice(start, end) for start, end in zip(self._starts.tolist(), ends, strict=True)]
        kinds = np.array([block.kind for block in blocks])
        self.same_kind = (kinds[:, None] == kinds).astype(float)
        self._noise = np.array([block.noise for block in blocks])
        number = self._noise.shape[1] - 1
        self.kernels = [self.design[:, groups == group] @ self.design[:, groups == group].T for group in range(number)]

    def covariance(self, variances: EffectVariances) -> Array:
        """The covariance of the scores under ``variances``, with what questions add and the levels of data sets."""
        own = np.eye(len(self.same_kind))
        found: Array = np.diag(variances.rest + LEAST + self._noise[self._sets, -1])
        for rows in self._rows:
            found[rows, rows] += LEVEL
        for group, kernel in enumerate(self.kernels):
            common = variances.general[group] + variances.kind[group] * self.same_kind
            common = common + own * (variances.own[group] + self._noise[:, group])
            for one, other in product(range(len(own)), repeat=2):  # far less memory passes through than with one gather
                block = self._rows[one], self._rows[other]
                found[block] += kernel[block] * common[one, other]
        return found

    def by_sets(self, matrix: Array) -> Array:
        """The sums of a matrix of scores by scores over each pair of data sets."""
        return np.asarray(np.add.reduceat(np.add.reduceat(matrix, self._starts, axis=0), self._starts, axis=1))


def _step(wanted: float, given: float) -> float:
    """By what to multiply a variance under which the scores vary as ``given``, where they vary as ``wanted``."""
    return float(np.sqrt(max(0.0, wanted) / given)) if given > 0 else 0.0


def _not_negative(matrix: Array, right: Array) -> Array:
    """The least-squares solution of ``matrix @ x = right`` with no negative number: what is negative is left out."""
    found = np.zeros(len(right))
    active = np.diag(matrix) > 0
    while active.any():
        solved = np.linalg.lstsq(matrix[np.ix_(active, active)], right[active], rcond=None)[0]
        if (solved >= 0).all():
            found[active] = solved
            break
        active[np.flatnonzero(active)[solved < 0]] = False
    return found
