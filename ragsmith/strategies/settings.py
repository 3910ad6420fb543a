"""The settings of a genetic search, and their presets."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from ragsmith.argument_types import check_fields
from ragsmith.digest import not_fingerprinted
from ragsmith.errors import UsageError, WrongOption
from ragsmith.strategies.offspring import BREEDINGS
from ragsmith.strategies.selection import SELECTIONS
from ragsmith.strategies.variation import CROSSOVERS, MUTATIONS
from ragsmith.text.suggest import did_you_mean

CHOICES: Mapping[str, Collection[str]] = MappingProxyType(
    {"crossover": CROSSOVERS, "mutation": MUTATIONS, "selection": SELECTIONS, "breeding": BREEDINGS}
)


@dataclass(frozen=True, slots=True)
class GeneticSettings:
    """The settings of the genetic algorithm; the defaults are the paper's.

    ``crossover_rate`` is the probability that a pair of parents is crossed, ``mutation_rate`` the probability that a
    gene mutates: the base of adaptive mutation, which varies it within ``mutation_min`` and ``mutation_max``.
    ``elitism`` is the number of best genomes that survive. A search ends after ``convergence`` steps without
    improvement or when the best score reaches ``target``; None disables the criterion. ``tournament`` is the size of a
    tournament.

    ``breeding`` is the pool of parents: the ``elites`` of the last population, as in Algorithm 1 of the paper, all its
    members (``best``), as in the code of the paper, or all observed genomes (``known``). With ``unseen``, children are
    bred again until they are new. ``screening`` is the number of new children per evaluated child, which a surrogate
    selects by expected improvement. ``local_search`` is the share of the budget for a final search among the neighbours
    of the best genomes. ``budget`` is the default number of evaluations; ``generations`` may be None if it is set.
    """

    population: int = 16
    generations: int | None = 20
    crossover: str = "uniform"
    crossover_rate: float = 0.6
    mutation: str = "adaptive"
    mutation_rate: float = 0.08
    mutation_min: float = 0.01
    mutation_max: float = 0.2
    selection: str = "elite"
    elitism: int = 5
    convergence: int | None = 100
    target: float | None = 1.0
    tournament: int = 3
    breeding: str = "elites"
    unseen: bool = False
    screening: int = 1
    local_search: float = 0.0
    budget: int | None = None

    @not_fingerprinted
    def __post_init__(self) -> None:
        check_fields(self)
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        check_minimum("population", self.population, 2)
        for name in ("generations", "tournament", "convergence", "screening", "budget"):
            if (number := getattr(self, name)) is not None:
                check_minimum(name, number, 1)
        for name in ("crossover_rate", "mutation_rate", "mutation_min", "mutation_max", "local_search"):
            if not 0.0 <= (rate := getattr(self, name)) <= 1.0:
                raise WrongOption(name, f"is {rate}: give a number between 0 and 1")
        for name, is_invalid, problem in self._rules():
            if is_invalid:
                raise WrongOption(name, problem)

    def _rules(self) -> Iterator[tuple[str, bool, str]]:
        """Yield, for each rule, the name of the setting, whether it is violated, and the message."""
        is_unlimited = self.generations is None and self.budget is None
        yield "generations", is_unlimited, "and budget are both None: set at least one of them"
        is_nan = self.target is not None and math.isnan(self.target)
        yield "target", is_nan, "is nan: give the fitness to stop at"
        limit = f"is {self.elitism}: give 0 to {self.population - 1}, fewer than the population"
        yield "elitism", not 0 <= self.elitism < self.population, limit
        no_parents = self.breeding == "elites" and self.elitism == 0
        yield "elitism", no_parents, "is 0: parents are elites, so give at least 1, or another breeding"
        needs_unseen = f"is {self.screening}: it preselects among new children, so set unseen too, or give 1"
        yield "screening", self.screening > 1 and not self.unseen, needs_unseen
        is_outside = self.mutation == "adaptive" and not self.mutation_min <= self.mutation_rate <= self.mutation_max
        bounds = f"mutation_min {self.mutation_min} and mutation_max {self.mutation_max}"
        yield "mutation_rate", is_outside, f"is {self.mutation_rate}: adaptive mutation needs it between {bounds}"

    def changed(self, **changes: Any) -> GeneticSettings:
        """Return a copy with ``changes``; a smaller population reduces ``elitism`` in proportion unless it is given.

        Raises:
            WrongOption: the value of a setting is invalid.
        """
        population = changes.get("population", self.population)
        if population < self.population and self.elitism:
            changes = {"elitism": max(1, self.elitism * population // self.population), **changes}
        return replace(self, **changes)

    @property
    def evaluations(self) -> int:
        """The default maximum number of evaluations."""
        bred = None if self.generations is None else self.generations * (self.population - self.elitism)
        return min(limit for limit in (self.budget, None if bred is None else self.population + bred) if limit)


def check_choice(name: str, value: str, choices: Collection[str]) -> None:
    """Raise `UsageError` unless ``value`` is in ``choices``."""
    if value not in choices:
        raise UsageError(f"unknown {name} {value!r}: {did_you_mean(value, choices)}")


def check_minimum(name: str, value: int, minimum: int) -> None:
    """Raise `WrongOption` if ``value`` is less than ``minimum``."""
    if value < minimum:
        raise WrongOption(name, f"is {value}: give at least {minimum}")


DEFAULT = GeneticSettings(
    population=10,
    generations=None,
    breeding="known",
    unseen=True,
    screening=20,
    local_search=0.3,
    convergence=8,
    budget=100,
)
"""Tuned on the landscapes of two data sets, on search questions only: see ``benchmarks/bench_strategies.py``."""

PRESETS: Mapping[str, GeneticSettings] = MappingProxyType(
    {
        "paper": GeneticSettings(),
        "default": DEFAULT,
        "quick": replace(DEFAULT, population=8, elitism=4, budget=50),
    }
)
