"""Weighted sums of pipelines, question by question, with an interval: what a part is worth is one of these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE, Fitness
from ragsmith.evaluation.ranking import common
from ragsmith.evaluation.statistics import bootstrap_interval, student_quantile

Weighted = Sequence[tuple[Evaluation, float]]
"""Evaluations on the same questions, each with a weight."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over ``n`` questions and its 95 % interval by itself: it is not adjusted for how many there are.

    ``sd`` is the standard error of the mean.
    """

    mean: float
    low: float
    high: float
    n: int
    sd: float

    @property
    def shown(self) -> bool:
        """Whether the interval is clear of 0."""
        return self.low > 0 or self.high < 0

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """The mean of values of questions, of which there is at least one."""
        n, mean = len(values), math.fsum(values) / len(values)
        # sums of weighted scores differ from 0 by rounding where nothing differs
        settled = [0.0 if abs(value) < 1e-12 else value for value in values]
        low, high = bootstrap_interval(settled)
        variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1) if n > 1 else 0.0
        return cls(mean if any(settled) else 0.0, low, high, n, math.sqrt(variance / n))

    @classmethod
    def of_deviations(cls, mean: float, moved: Sequence[float]) -> Estimate:
        """A mean, and how far each question moves it, all of them together by nothing; its interval is Student's."""
        n = len(moved)
        if n < 2:
            return cls(mean, mean, mean, n, 0.0)
        sd = math.sqrt(math.fsum(one**2 for one in moved) / (n - 1) / n)
        reach = student_quantile(0.975, n - 1) * sd
        return cls(mean, mean - reach, mean + reach, n, sd)

    @classmethod
    def read(cls, stored: Mapping[str, Any]) -> Estimate:
        """From its ``asdict``."""
        return cls(**stored)


def contrast(weighted: Weighted, name: str, fitness: Fitness) -> Estimate | None:
    """The weighted sum of a value on the questions that all have finished; None where none has such a value.

    ``name`` is ``fitness``, ``retrieval`` or ``generation``. A question that has no such value is left out.
    """
    questions = common([one for one, _ in weighted])
    columns = [(one.on(questions).column(name, fitness), weight) for one, weight in weighted]
    sums = []
    for place in range(len(questions)):
        values = [(column[place], weight) for column, weight in columns]
        if all(value is not None for value, _ in values):
            sums.append(math.fsum(weight * value for value, weight in values if value is not None))
    return Estimate.of(sums) if sums else None


def contrasts(weighted: Weighted, fitness: Fitness) -> dict[str, Estimate]:
    """The same of F, and of R and G where they are known."""
    found = {name: contrast(weighted, name, fitness) for name in HEADLINE}
    return {name: estimate for name, estimate in found.items() if estimate is not None}


def mean_difference(first: Evaluation, second: Evaluation, name: str) -> float:
    """The mean of ``first`` less ``second`` in a count of the usage, on the questions that both have finished."""
    both = common([first, second])
    return (math.fsum(first.on(both).values(name)) - math.fsum(second.on(both).values(name))) / len(both)


def plain(estimates: Mapping[str, Estimate]) -> dict[str, Any]:
    """Estimates as plain data."""
    return {name: asdict(estimate) for name, estimate in estimates.items()}
