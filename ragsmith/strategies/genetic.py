"""The genetic algorithm of the RAGSmith paper: elitism, crossover, mutation at an adaptive rate.

The initial population is generation 0 and is followed by up to ``generations`` more. Each consists of the elites, best
first and unchanged, and of ``population - elitism`` children, so its size is constant and a run scores at most
``population + generations * (population - elitism)`` genomes (the paper's numbers: 16 + 20 * 11 = 236).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any

from ragsmith.errors import UsageError, WrongOption
from ragsmith.strategies.breeding import towards
from ragsmith.strategies.crossover import CROSSOVERS
from ragsmith.strategies.mutation import MUTATIONS, adaptive_rate
from ragsmith.strategies.random_search import drawn
from ragsmith.strategies.selection import SELECTIONS, Individual, elite, tournament
from ragsmith.strategies.strategy import Feasible, Genome, Population, Sizes, SteppedSearch, anything
from ragsmith.text.suggest import did_you_mean


@dataclass(frozen=True, slots=True)
class GeneticSettings:
    """The knobs of the genetic algorithm; the defaults are the paper's.

    ``crossover_rate`` is the chance that a pair of parents is crossed, ``mutation_rate`` that a gene mutates: the base
    of the adaptive rate, which stays within ``mutation_min`` and ``mutation_max``, and a constant otherwise.
    ``elitism`` is how many of the best survive. ``convergence`` ends a run after so many generations without
    improvement, ``target`` when the best score reaches it; None means never. ``tournament`` is that selection's size.
    """

    population: int = 16
    generations: int = 20
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

    def __post_init__(self) -> None:
        check_choice("crossover", self.crossover, CROSSOVERS)
        check_choice("mutation", self.mutation, MUTATIONS)
        check_choice("selection", self.selection, SELECTIONS)
        check_least("population", self.population, 2)
        check_least("generations", self.generations, 1)
        check_least("tournament", self.tournament, 1)
        if self.convergence is not None:
            check_least("convergence", self.convergence, 1)
        if self.target is not None and math.isnan(self.target):
            raise WrongOption("target", "is nan: give the fitness to stop at")
        for name in ("crossover_rate", "mutation_rate", "mutation_min", "mutation_max"):
            if not 0.0 <= (rate := getattr(self, name)) <= 1.0:
                raise WrongOption(name, f"is {rate}: give a probability between 0 and 1")
        if not 0 <= self.elitism < self.population:
            most = self.population - 1
            raise WrongOption("elitism", f"is {self.elitism}: give 0 to {most}, fewer than the population")
        if self.mutation == "adaptive" and not self.mutation_min <= self.mutation_rate <= self.mutation_max:
            bounds = f"mutation_min {self.mutation_min} and mutation_max {self.mutation_max}"
            problem = f"is {self.mutation_rate}: adaptive mutation needs it between {bounds}"
            raise WrongOption("mutation_rate", problem)

    def changed(self, **changes: Any) -> GeneticSettings:
        """These settings with ``changes``. Fewer candidates keep fewer elites, in proportion, unless it says how many.

        Raises:
            WrongOption: a setting has a value that it cannot have.
        """
        population = changes.get("population", self.population)
        if population < self.population and self.elitism:
            changes = {"elitism": max(1, self.elitism * population // self.population), **changes}
        return replace(self, **changes)

    @property
    def evaluations(self) -> int:
        """The most genomes a run can score."""
        return self.population + self.generations * (self.population - self.elitism)


def check_choice(name: str, value: str, known: Mapping[str, object]) -> None:
    """Raise `UsageError` unless ``value`` is a known name."""
    if value not in known:
        raise UsageError(f"unknown {name} {value!r}: {did_you_mean(value, known)}")


def check_least(name: str, value: int, least: int) -> None:
    """Raise `UsageError` when ``value`` is too small."""
    if value < least:
        raise WrongOption(name, f"is {value}: give at least {least}")


PRESETS: Mapping[str, GeneticSettings] = MappingProxyType(
    {
        "paper": GeneticSettings(),
        "default": GeneticSettings(),  # the paper's algorithm; what differs by default is how candidates are evaluated
        "quick": GeneticSettings(population=8, generations=8, elitism=2, convergence=4),
    }
)


class GeneticSearch(SteppedSearch):
    """Breeds better genomes from the best ones (a `Strategy`)."""

    name = "genetic"

    def __init__(
        self,
        sizes: Sizes,
        settings: GeneticSettings = PRESETS["paper"],
        *,
        seed: int = 42,
        feasible: Feasible = anything,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, feasible=feasible, max_evaluations=max_evaluations)
        self.settings = settings
        self._rng = Random(seed)

    def steps(self) -> Iterator[Population]:
        """Generation 0 is drawn uniformly; each next one is the elites of the last and their population's children."""
        settings = self.settings
        genomes = tuple(drawn(self.sizes, self.feasible, self._rng) for _ in range(settings.population))
        yield Population(genomes)
        for _ in range(settings.generations):
            if self._converged():
                return
            population = [Individual.of(genome, self.score(genome)) for genome in genomes]
            elites = tuple(member.genome for member in elite(population, settings.elitism))
            rate = self._mutation_rate()
            genomes = elites + self._children(population, rate)
            yield Population(genomes, rate)

    def _children(self, population: list[Individual], rate: float) -> tuple[Genome, ...]:
        """As many children as parents: neighbours are paired, and an odd last parent is mutated alone."""
        settings, rng = self.settings, self._rng
        by_name = SELECTIONS[settings.selection]
        select = partial(tournament, size=settings.tournament) if by_name is tournament else by_name
        parents = select(population, settings.population - settings.elitism, rng)
        cross, mutate = CROSSOVERS[settings.crossover], MUTATIONS[settings.mutation]
        genomes = [parent.genome for parent in parents]
        for i in range(0, len(genomes) - 1, 2):
            if rng.random() < settings.crossover_rate:
                children = cross(genomes[i], genomes[i + 1], rng)
                pairs = zip(genomes[i : i + 2], children, strict=True)
                genomes[i : i + 2] = [towards(parent, child, self.feasible, rng) for parent, child in pairs]
        mutants = ((genome, mutate(genome, self.sizes, rate, rng)) for genome in genomes)
        return tuple(towards(genome, mutant, self.feasible, rng) for genome, mutant in mutants)

    def _mutation_rate(self) -> float:
        settings, last = self.settings, self.history[-1]
        if settings.mutation != "adaptive":
            return settings.mutation_rate
        low, high = settings.mutation_min, settings.mutation_max
        return adaptive_rate(settings.mutation_rate, low, high, last.diversity, last.stagnant)

    def _converged(self) -> bool:
        settings, last = self.settings, self.history[-1]
        reached = settings.target is not None and last.best is not None and last.best >= settings.target
        return reached or (settings.convergence is not None and last.stagnant >= settings.convergence)
