"""Expected gains of pipelines on an unseen data set, with their uncertainty.

They are predictions of a linear mixed model of the scores of pipelines on several data sets:

    score(d, p) = level(d) + sum over the terms t of p of [general(t) + of_kind(kind(d), t) + own(d, t)] + rest(d, p)

The parts of an effect have mean 0 and a variance that all terms of a group share; levels have a vague prior. The
variance due to the sample of questions is estimated from the questions, and added to the variances of its data set.
Effects are Henderson's best linear unbiased predictions, with their covariance. The variances are estimated in
``tools/effect_model.py``.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, product
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from ragsmith.effects.terms import PAIRS, PLAIN, Labels, ModelClasses, Term, option_terms, pair_term, pipeline_terms

Array = NDArray[np.float64]

LEVEL_VARIANCE = 1.0
"""Prior variance of the level of a data set: nearly uninformative, as scores are between 0 and 1."""

MIN_VARIANCE = 1e-8
"""Minimum variance of a score, as some pipelines have identical scores."""


@dataclass(frozen=True)
class DatasetBlock:
    """Observations of one data set: a row of ``design`` (weights of terms) and a score for each pipeline.

    ``noise`` has the variances due to the sample of questions: that of effects for each group of terms, and last the
    residual variance of a pipeline.
    """

    design: Array
    scores: Array
    noise: Array
    kind: str


@dataclass(frozen=True)
class EffectVariances:
    """Variances of the parts of effects by group of terms: general, by kind of corpus, and by data set (``own``).

    ``rest`` is the residual variance of a pipeline.
    """

    general: Array
    kind: Array
    own: Array
    rest: float


@dataclass(frozen=True)
class Effects:
    """Predicted effects of terms on an unseen data set, and the covariance of the prediction errors."""

    mean: Array
    covariance: Array


def effects(
    blocks: Sequence[DatasetBlock],
    groups: NDArray[np.int_],
    variances: EffectVariances,
    kind: str,
    stretch: float = 1.0,
) -> Effects:
    """Predict the effects on a data set of ``kind``; the variance between data sets is multiplied by ``stretch``."""
    stacked = StackedBlocks(blocks, groups)
    same_kind = np.concatenate([np.full(len(block.scores), block.kind == kind) for block in blocks])
    shared = stacked.design * variances.general[groups] + stacked.design * variances.kind[groups] * same_kind[:, None]
    solution = np.linalg.solve(stacked.covariance(variances), np.column_stack([stacked.scores, shared]))
    prior = variances.general + variances.kind + stretch * variances.own
    return Effects(shared.T @ solution[:, 0], np.diag(prior[groups]) - shared.T @ solution[:, 1:])


def design_matrix(rows: Sequence[Sequence[Term]], places: Mapping[str, int]) -> Array:
    """Return the weights of terms, with a row for each pipeline and a column for each term."""
    design = np.zeros((len(rows), len(places)))
    for row, terms in zip(design, rows, strict=True):
        for term in terms:
            row[places[term.name]] += term.weight
    return design


class StackedBlocks:
    """Stacked observations of all data sets, with their covariance matrix."""

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
        """Return the covariance of the scores under ``variances``, including question noise and data set levels."""
        own = np.eye(len(self.same_kind))
        matrix: Array = np.diag(variances.rest + MIN_VARIANCE + self._noise[self._sets, -1])
        for rows in self.rows:
            matrix[rows, rows] += LEVEL_VARIANCE
        for group, kernel in enumerate(self.kernels):
            common = variances.general[group] + variances.kind[group] * self.same_kind
            common = common + own * (variances.own[group] + self._noise[:, group])
            for i, j in product(range(len(own)), repeat=2):  # uses far less memory than one gather
                block = self.rows[i], self.rows[j]
                matrix[block] += kernel[block] * common[i, j]
        return matrix


WeightedPipelines = Sequence[tuple[Labels, float]]
"""Pipelines, each with a weight."""


@dataclass(frozen=True)
class FitnessPart:
    """Predictions of R or of G: the ``learned`` effects, and the ``places`` of their terms.

    An option without learned effects is expected to equal the plain option of its family. By group of terms, ``prior``
    is the prior variance of an effect, and ``own`` its variance between data sets; ``rest`` is the residual variance of
    a pipeline.
    """

    name: str
    share: float
    places: Mapping[str, int]
    learned: Effects
    prior: tuple[float, ...]
    own: tuple[float, ...]
    rest: float
    models: ModelClasses
    _terms_cache: dict[tuple[int | str, ...], list[Term]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def option_terms(self, place: int, label: str) -> list[Term]:
        """Return the terms of an option of the family at ``place``.

        An option without learned effects has the terms of the plain option of its family and its own terms.
        """
        inherited = option_terms(place, self._label_with_effects(place, label), self.name, self.models)
        own = option_terms(place, label, self.name, self.models)
        return [*inherited, *(term for term in own if term not in inherited)]

    def pair_terms(self, i: int, first: str, j: int, second: str) -> list[Term]:
        """Return the terms of a pair of options of the families at ``i`` and ``j``."""
        inherited = pair_term(
            i, self._label_with_effects(i, first), j, self._label_with_effects(j, second), self.name, self.models
        )
        own = pair_term(i, first, j, second, self.name, self.models)
        return [inherited] if own == inherited else [inherited, own]

    def sum(self, pipelines: WeightedPipelines) -> tuple[float, float]:
        """Return the weighted sum of the expected scores of ``pipelines``, and its variance."""
        learned: dict[int, float] = {}
        unseen: dict[Term, float] = {}
        for labels, factor in pipelines:
            for term in self._terms(labels):
                if (place := self.places.get(term.name)) is not None:
                    learned[place] = learned.get(place, 0.0) + factor * term.weight
                else:
                    unseen[term] = unseen.get(term, 0.0) + factor * term.weight
        columns, weights = np.fromiter(learned, dtype=int), np.fromiter(learned.values(), dtype=float)
        covariance = self.learned.covariance[np.ix_(columns, columns)]
        variance = float(weights @ covariance @ weights) if len(columns) else 0.0
        variance += sum(weight**2 * self.prior[term.group] for term, weight in unseen.items())
        return float(weights @ self.learned.mean[columns]), max(0.0, variance)

    def between(self, pipeline: Labels, rival: Labels) -> float:
        """Return the variance between data sets of the difference of two pipelines."""
        weights: dict[Term, float] = {}
        for labels, sign in ((pipeline, 1.0), (rival, -1.0)):
            for term in pipeline_terms(labels, self.name, self.models):
                weights[term] = weights.get(term, 0.0) + sign * term.weight
        return sum(weight**2 * self.own[term.group] for term, weight in weights.items())

    def _terms(self, labels: Labels) -> Iterator[Term]:
        cache = self._terms_cache
        for place, label in enumerate(labels):
            if (place, label) not in cache:
                cache[place, label] = self.option_terms(place, label)
            yield from cache[place, label]
        for i, j in PAIRS:
            pair = i, labels[i], j, labels[j]
            if pair not in cache:
                cache[pair] = self.pair_terms(*pair)
            yield from cache[pair]

    def _label_with_effects(self, place: int, label: str) -> str:
        """Return the option itself if its technique has learned effects, otherwise the plain option of its family."""
        technique, _ = option_terms(place, label, self.name, self.models)
        return label if technique.name in self.places else PLAIN[place]


@dataclass(frozen=True)
class Beliefs:
    """Predictions of the fitness of pipelines, which is the weighted mean of ``parts``."""

    parts: tuple[FitnessPart, ...]

    def gain(self, pipeline: Labels, rival: Labels) -> tuple[float, float]:
        """Return the expected gain in fitness over a rival, and its standard deviation."""
        return self.sum(((pipeline, 1.0), (rival, -1.0)))

    def sum(self, pipelines: WeightedPipelines) -> tuple[float, float]:
        """Return the sum of the fitness of pipelines, with weights that add up to 0, and its standard deviation.

        The errors of R and G are assumed to be fully correlated, which is the worst case.
        """
        mean = deviation = 0.0
        for part in self.parts:
            part_mean, variance = part.sum(pipelines)
            mean += part.share * part_mean
            deviation += part.share * sqrt(variance)
        return mean, deviation

    def between(self, pipeline: Labels, rival: Labels) -> float:
        """Return the standard deviation between data sets of a gain, which more observations do not reduce."""
        return sum(part.share * sqrt(part.between(pipeline, rival)) for part in self.parts)
