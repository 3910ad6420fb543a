"""What is believed of the pipelines of a data set that has not been searched: gains with their uncertainty.

They come from a linear mixed model of what pipelines score on several data sets:

    score(d, p) = level(d) + sum over the terms t of p of [general(t) + of_kind(kind(d), t) + own(d, t)] + rest(d, p)

Each part of a term's effect is drawn around 0, with a variance that all terms of its group share; levels are free. What
the sample of questions adds is known from the questions, and joins the variances of its data set. Effects are what the
scores leave to expect of them (Henderson's best linear unbiased predictions), with their covariance. Variances are
estimated where effects are learned, in ``tools/effect_model.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ragsmith.effects.terms import PAIRS, PLAIN, Labels, ModelClasses, Term, option_terms, pair_term, terms_of

Array = NDArray[np.float64]

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


def effects(
    blocks: Sequence[DatasetBlock],
    groups: NDArray[np.int_],
    variances: EffectVariances,
    kind: str,
    stretch: float = 1.0,
) -> Effects:
    """The effects to expect on a data set of ``kind``; ``stretch`` times the usual variance between data sets."""
    stacked = StackedBlocks(blocks, groups)
    alike = np.concatenate([np.full(len(block.scores), block.kind == kind) for block in blocks])
    shared = stacked.design * variances.general[groups] + stacked.design * variances.kind[groups] * alike[:, None]
    solved = np.linalg.solve(stacked.covariance(variances), np.column_stack([stacked.scores, shared]))
    before = variances.general + variances.kind + stretch * variances.own
    return Effects(shared.T @ solved[:, 0], np.diag(before[groups]) - shared.T @ solved[:, 1:])


def student_95(freedom: float) -> float:
    """The 97.5 % quantile of Student's t, by Hill's expansion from the normal one (1970); within 1 % from 3 on."""
    z = 1.959964
    powers = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return float(z + sum(power / freedom ** (n + 1) for n, power in enumerate(powers)))


class StackedBlocks:
    """All data sets below each other. What data sets have in common is a matrix with a row and a column for each."""

    def __init__(self, blocks: Sequence[DatasetBlock], groups: NDArray[np.int_]) -> None:
        self.design = np.vstack([block.design for block in blocks])
        self.scores = np.concatenate([block.scores - block.scores.mean() for block in blocks])
        lengths = [len(block.scores) for block in blocks]
        self._sets = np.repeat(np.arange(len(blocks)), lengths)
        ends = np.cumsum([0, *lengths]).tolist()
        self.rows = [slice(start, end) for start, end in pairwise(ends)]
        kinds = np.array([block.kind for block in blocks])
        self.same_kind = (kinds[:, None] == kinds).astype(float)
        self._noise = np.array([block.noise for block in blocks])
        number = self._noise.shape[1] - 1
        self.kernels = [self.design[:, groups == group] @ self.design[:, groups == group].T for group in range(number)]

    def covariance(self, variances: EffectVariances) -> Array:
        """The covariance of the scores under ``variances``, with what questions add and the levels of data sets."""
        own = np.eye(len(self.same_kind))
        found: Array = np.diag(variances.rest + LEAST + self._noise[self._sets, -1])
        for rows in self.rows:
            found[rows, rows] += LEVEL
        for group, kernel in enumerate(self.kernels):
            common = variances.general[group] + variances.kind[group] * self.same_kind
            common = common + own * (variances.own[group] + self._noise[:, group])
            for one, other in product(range(len(own)), repeat=2):  # far less memory passes through than with one gather
                block = self.rows[one], self.rows[other]
                found[block] += kernel[block] * common[one, other]
        return found


Weighted = Sequence[tuple[Labels, float]]
"""Pipelines, each with a weight."""


@dataclass(frozen=True)
class PartOfFitness:
    """What is believed of R, or of G: ``known`` effects at the ``places`` of their terms.

    An option that nothing was learned of is expected to do what the plain one of its family does. By group of terms,
    ``before`` has the variance of an effect of which nothing is known, and ``own`` that from one data set to another;
    ``rest`` is the variance of what terms do not explain of a pipeline.
    """

    name: str
    share: float
    places: Mapping[str, int]
    known: Effects
    before: tuple[float, ...]
    own: tuple[float, ...]
    rest: float
    models: ModelClasses
    _terms_by_options: dict[tuple[int | str, ...], list[Term]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def of_option(self, place: int, label: str) -> list[Term]:
        """The terms that an option of the family at ``place`` is taken to have.

        One that nothing was learned of has those of the plain option of its family, and its own besides.
        """
        taken = option_terms(place, self._known(place, label), self.name, self.models)
        own = option_terms(place, label, self.name, self.models)
        return [*taken, *(term for term in own if term not in taken)]

    def of_pair(self, i: int, first: str, j: int, second: str) -> list[Term]:
        """The terms that two options, of the families at ``i`` and ``j``, are taken to have together."""
        taken = pair_term(i, self._known(i, first), j, self._known(j, second), self.name, self.models)
        own = pair_term(i, first, j, second, self.name, self.models)
        return [taken] if own == taken else [taken, own]

    def sum(self, pipelines: Weighted) -> tuple[float, float]:
        """The weighted sum of what ``pipelines`` are expected to score, and the variance of that."""
        known: dict[int, float] = {}
        strange: dict[Term, float] = {}
        for labels, times in pipelines:
            for term in self._terms(labels):
                if (place := self.places.get(term.name)) is not None:
                    known[place] = known.get(place, 0.0) + times * term.weight
                else:
                    strange[term] = strange.get(term, 0.0) + times * term.weight
        at, by = np.fromiter(known, dtype=int), np.fromiter(known.values(), dtype=float)
        variance = float(by @ self.known.covariance[np.ix_(at, at)] @ by) if len(at) else 0.0
        variance += sum(weight**2 * self.before[term.group] for term, weight in strange.items())
        return float(by @ self.known.mean[at]), max(0.0, variance)

    def between(self, pipeline: Labels, rival: Labels) -> float:
        """The variance of the difference from one data set to another."""
        weights: dict[Term, float] = {}
        for labels, sign in ((pipeline, 1.0), (rival, -1.0)):
            for term in terms_of(labels, self.name, self.models):
                weights[term] = weights.get(term, 0.0) + sign * term.weight
        return sum(weight**2 * self.own[term.group] for term, weight in weights.items())

    def _terms(self, labels: Labels) -> Iterator[Term]:
        known = self._terms_by_options
        for place, label in enumerate(labels):
            if (place, label) not in known:
                known[place, label] = self.of_option(place, label)
            yield from known[place, label]
        for i, j in PAIRS:
            pair = i, labels[i], j, labels[j]
            if pair not in known:
                known[pair] = self.of_pair(*pair)
            yield from known[pair]

    def _known(self, place: int, label: str) -> str:
        technique, _ = option_terms(place, label, self.name, self.models)
        return label if technique.name in self.places else PLAIN[place]


@dataclass(frozen=True)
class Beliefs:
    """What to expect of pipelines, whose fitness is the weighted mean of ``parts``."""

    parts: tuple[PartOfFitness, ...]

    def gain(self, pipeline: Labels, rival: Labels) -> tuple[float, float]:
        """The gain in fitness over a rival that is expected, and its standard deviation."""
        return self.sum(((pipeline, 1.0), (rival, -1.0)))

    def sum(self, pipelines: Weighted) -> tuple[float, float]:
        """The sum of the fitness of pipelines, by weights that add up to 0, and its standard deviation.

        The errors of R and G are taken to go together, which is the worst case.
        """
        mean = deviation = 0.0
        for part in self.parts:
            found, variance = part.sum(pipelines)
            mean += part.share * found
            deviation += part.share * sqrt(variance)
        return mean, deviation

    def between(self, pipeline: Labels, rival: Labels) -> float:
        """The standard deviation of a gain from one data set to another, which no learning takes away."""
        return sum(part.share * sqrt(part.between(pipeline, rival)) for part in self.parts)
