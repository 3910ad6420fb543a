"""Weighted sums of pipelines, question by question, with an interval: what a part is worth is one of these."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragsmith.comparison.clusters import FEWEST_GROUPS, Clusters
from ragsmith.comparison.difference import effective_groups, interval, widened
from ragsmith.comparison.power import variance
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE, Fitness
from ragsmith.evaluation.ranking import common
from ragsmith.evaluation.statistics import student_quantile

Weighted = Sequence[tuple[Evaluation, float]]
"""Evaluations on the same questions, each with a weight."""

FEWEST_TO_VARY = 2
"""Groups without which nothing is known of how a mean varies."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over ``n`` questions in ``groups`` and its 95 % interval by itself, not adjusted for how many there are.

    ``error`` is the standard error of the mean. Both are by group, as questions of a group are not independent, and
    wider where groups differ in size (`ragsmith.comparison.difference.widened`). Of fewer than `FEWEST_GROUPS`, with
    which no verdict is given either, there is no interval: one by so few groups is far too narrow too often.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    groups: int
    error: float

    @property
    def shown(self) -> bool:
        """Whether the interval is clear of 0; never where there is none."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)

    @property
    def variance(self) -> float:
        """That of the mean; 0 where it is not known, as there are too few groups to tell."""
        return self.error**2 if self.groups >= FEWEST_GROUPS else 0.0

    @classmethod
    def of(cls, values: Mapping[str, float], clusters: Clusters) -> Estimate:
        """The mean of values by question, of which there is at least one; drawn anew by group (bootstrap)."""
        # sums of weighted scores differ from 0 by rounding where nothing differs
        settled = {question: 0.0 if abs(value) < 1e-12 else value for question, value in values.items()}
        numbers = clusters.numbers(list(settled))
        groups = len(set(numbers))
        low, high = interval(list(settled.values()), numbers) if groups >= FEWEST_GROUPS else (None, None)
        error, _ = error_of(settled, clusters)
        return cls(_mean(settled), low, high, len(settled), groups, error)

    @classmethod
    def by_student(
        cls, mean: float, moved: Mapping[str, float], clusters: Clusters, weights: Mapping[str, float] | None = None
    ) -> Estimate:
        """A mean, and how far each question moves it, all of them together by nothing; its interval is Student's.

        The degrees of freedom are those of the effective number of groups, by what the questions weigh: 1 each, unless
        ``weights`` says otherwise. Scores lie between 0 and 1, so the interval ends at -1 and 1.
        """
        error, degrees = error_of(moved, clusters, weights)
        groups = len(set(clusters.numbers(list(moved))))
        if groups < FEWEST_GROUPS:
            return cls(mean, None, None, len(moved), groups, error)
        reach = student_quantile(0.975, degrees) * error
        return cls(mean, max(-1.0, mean - reach), min(1.0, mean + reach), len(moved), groups, error)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Estimate:
        """From its ``asdict``."""
        return cls(**stored)


def error_of(
    values: Mapping[str, float], clusters: Clusters, weights: Mapping[str, float] | None = None
) -> tuple[float, int]:
    """The standard error by group of a mean of values by question, and its degrees of freedom.

    Both are those of the effective number of groups: with one large group among small ones a mean is little surer than
    that group is. 0 of one group, of which nothing is known.
    """
    sizes: defaultdict[int, float] = defaultdict(float)
    for question, group in zip(values, clusters.numbers(list(values)), strict=True):
        sizes[group] += 1.0 if weights is None else weights[question]
    if len(sizes) < FEWEST_TO_VARY:
        return 0.0, 1
    error = math.sqrt(variance(values, clusters.groups) / len(values))
    return widened(error, len(sizes), effective_groups(list(sizes.values())))


def contrast(weighted: Weighted, name: str, fitness: Fitness, clusters: Clusters) -> Estimate | None:
    """The weighted sum of a value on the questions that all have finished; None where none has such a value.

    ``name`` is ``fitness``, ``retrieval`` or ``generation``. A question that has no such value is left out.
    """
    questions = common([one for one, _ in weighted])
    columns = [(one.on(questions).column(name, fitness), weight) for one, weight in weighted]
    sums = {}
    for place, question in enumerate(questions):
        values = [(column[place], weight) for column, weight in columns]
        if all(value is not None for value, _ in values):
            sums[question] = math.fsum(weight * value for value, weight in values if value is not None)
    return Estimate.of(sums, clusters) if sums else None


def contrasts(weighted: Weighted, fitness: Fitness, clusters: Clusters) -> dict[str, Estimate]:
    """The same of F, and of R and G where they are known."""
    found = {name: contrast(weighted, name, fitness, clusters) for name in HEADLINE}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def mean_difference(first: Evaluation, second: Evaluation, name: str) -> float:
    """The mean of ``first`` less ``second`` in a count of the usage, on the questions that both have finished."""
    both = common([first, second])
    return (math.fsum(first.on(both).values(name)) - math.fsum(second.on(both).values(name))) / len(both)


def _mean(values: Mapping[str, float]) -> float:
    return math.fsum(values.values()) / len(values)
