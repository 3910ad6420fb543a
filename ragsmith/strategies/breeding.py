"""What the genetic search and NSGA-II have in common: settings, a generator of offspring, and a mutation rate."""

from __future__ import annotations

from random import Random

from ragsmith.strategies.crossover import CROSSOVERS
from ragsmith.strategies.mutation import MUTATIONS, adaptive_rate
from ragsmith.strategies.offspring import OffspringGenerator
from ragsmith.strategies.settings import PRESETS, GeneticSettings
from ragsmith.strategies.strategy import Feasible, Sizes, SteppedSearch, anything


class BreedingSearch(SteppedSearch):
    """A search that makes children of known genomes."""

    def __init__(
        self,
        sizes: Sizes,
        settings: GeneticSettings = PRESETS["default"],
        *,
        seed: int = 42,
        feasible: Feasible = anything,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, feasible=feasible, max_evaluations=max_evaluations)
        self.settings = settings
        self._rng = Random(seed)
        cross, mutate = CROSSOVERS[settings.crossover], MUTATIONS[settings.mutation]
        rate = settings.crossover_rate
        self._offspring = OffspringGenerator(self.sizes, feasible, cross, rate, mutate, self._rng)

    @property
    def _children_at_once(self) -> int:
        return self.settings.population - self.settings.elitism

    def _mutation_rate(self, diversity: float, stagnant: int) -> float:
        """The rate for the next children: adaptive mutation varies it."""
        its = self.settings
        if its.mutation != "adaptive":
            return its.mutation_rate
        return adaptive_rate(its.mutation_rate, its.mutation_min, its.mutation_max, diversity, stagnant)
