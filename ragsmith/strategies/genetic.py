"""The genetic algorithm of the RAGSmith paper: elitism, crossover, mutation at an adaptive rate; and what helps it.

The initial population is generation 0 and is followed by up to ``generations`` more. Each consists of the elites, best
first and unchanged, and of ``population - elitism`` children, so its size is constant and the paper's search scores at
most ``population + generations * (population - elitism)`` genomes (its numbers: 16 + 20 * 11 = 236).

What the settings can add: parents and elites are the best of all known genomes; children are bred
until they are new; a model chooses among more children than are scored; the end of the budget goes to local search.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import islice

from ragsmith.strategies.genomes import drawn, shuffled_space, unknown_neighbours
from ragsmith.strategies.model_search import most_promising
from ragsmith.strategies.offspring import BREEDINGS, OffspringGenerator
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.selection import SELECTIONS, Individual, elite, tournament
from ragsmith.strategies.settings import PRESETS, GeneticSettings
from ragsmith.strategies.strategy import Feasible, Genome, Population, Prior, Sizes, SteppedSearch, anything
from ragsmith.strategies.variation import CROSSOVERS, MUTATIONS, adaptive_rate


class BreedingSearch(SteppedSearch):
    """A search that makes children of known genomes: settings, a generator of offspring, and a mutation rate."""

    def __init__(
        self,
        sizes: Sizes,
        settings: GeneticSettings = PRESETS["default"],
        *,
        seed: int = 42,
        feasible: Feasible = anything,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self.settings = settings
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


class GeneticSearch(BreedingSearch):
    """Breeds better genomes from the best ones."""

    name = "genetic"

    def __init__(
        self,
        sizes: Sizes,
        settings: GeneticSettings = PRESETS["paper"],
        *,
        seed: int = 42,
        prior: Prior | None = None,
        feasible: Feasible = anything,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, settings, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self._prior = prior

    def steps(self) -> Iterator[Population]:
        """Generation 0 is drawn; each next one is elites and children; then comes local search, if any."""
        if not (genomes := self._first()):
            return
        yield Population(genomes)
        bred = 0
        while genomes and bred != self.settings.generations and self._left > 0 and not self._converged():
            last = self.history[-1]
            rate = self._mutation_rate(last.diversity, last.stagnant)
            if genomes := self._bred(genomes, rate):
                yield Population(genomes, rate)
            bred += 1
        while self.settings.local_search and not self._converged() and (genomes := self._neighbours()):
            yield Population(genomes, by="local search")

    def _first(self) -> tuple[Genome, ...]:
        """Uniform over what is feasible; where known ones are left out, they count towards the population.

        A prior, where children are screened, chooses among many such draws instead.
        """
        settings = self.settings
        if not settings.unseen:
            return tuple(drawn(self.sizes, self.feasible, self._rng) for _ in range(settings.population))
        every = shuffled_space(self.sizes, self.feasible, self._rng)
        unknown = (genome for genome in every if genome not in self.told)
        n = max(settings.population - len(self.told), self._children_at_once)
        if self._prior and settings.screening > 1:
            return most_promising(self.told, list(islice(unknown, n * settings.screening)), n, self._prior)
        return tuple(islice(unknown, n))

    def _bred(self, last: Sequence[Genome], rate: float) -> tuple[Genome, ...]:
        """The next generation; nothing if all that could be bred is known."""
        settings = self.settings
        from_all = settings.breeding == "known"
        members = [Individual.of(genome, self.score(genome)) for genome in (self.told if from_all else last)]
        elites = elite(members, settings.elitism)
        n = self._children_at_once
        select = SELECTIONS[settings.selection]
        if select is tournament:
            select = partial(tournament, size=settings.tournament)
        chosen = BREEDINGS[settings.breeding](members, elites, n, select, self._rng)
        parents = [parent.genome for parent in chosen]
        if not settings.unseen:
            children: Sequence[Genome] = self._offspring.children(parents, rate)
        else:
            children = self._offspring.new_children(parents * settings.screening, rate, self.told)
            if settings.screening > 1:
                children = most_promising(self.told, children, n, self._prior)
            children = children[: int(min(n, self._left))]
        return (*(member.genome for member in elites), *children) if children else ()

    @property
    def _left(self) -> float:
        """How many genomes may be bred before local search begins."""
        if self.remaining is None or self.max_evaluations is None:
            return math.inf
        return self.remaining - round(self.settings.local_search * self.max_evaluations)

    def _neighbours(self) -> tuple[Genome, ...]:
        size = self.batch_of(self._children_at_once)
        near = unknown_neighbours(self.told, self.sizes, self.feasible, size)
        return most_promising(self.told, near, size, self._prior)

    def _converged(self) -> bool:
        settings, last = self.settings, self.history[-1]
        reached = settings.target is not None and last.best is not None and last.best >= settings.target
        return reached or (settings.convergence is not None and last.stagnant >= settings.convergence)


@strategy("genetic", reads=[field.name for field in fields(GeneticSettings)])
def genetic(problem: SearchProblem) -> GeneticSearch:
    """The genetic algorithm of the RAGSmith paper, and what helps it: parts that settings turn on."""
    prior = problem.prior
    return GeneticSearch(problem.sizes, problem.settings, seed=problem.seed, prior=prior, **problem.bounds)
