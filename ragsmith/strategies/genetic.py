"""The genetic algorithm of the RAGSmith paper: elitism, crossover, adaptive mutation, and optional extensions.

The initial population is generation 0 and is followed by up to ``generations`` more. Each consists of the elites, best
first and unchanged, and of ``population - elitism`` children. The size is constant, and the search of the paper scores
at most ``population + generations * (population - elitism)`` genomes: 16 + 20 * 11 = 236.

Optional extensions: parents and elites are selected from all observed genomes (``breeding``); duplicates are bred again
(``unseen``); a surrogate preselects children (``screening``); the last part of the budget is used for local search.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from itertools import islice

from ragsmith.strategies.genomes import draw_genome, find_new_neighbours, shuffle_space
from ragsmith.strategies.model_search import select_by_improvement
from ragsmith.strategies.offspring import BREEDINGS, OffspringGenerator
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.selection import SELECTIONS, Individual, elite, tournament
from ragsmith.strategies.settings import PRESETS, GeneticSettings
from ragsmith.strategies.strategy import Feasible, Genome, Population, Prior, Sizes, SteppedSearch, always_feasible
from ragsmith.strategies.variation import CROSSOVERS, MUTATIONS, adaptive_rate


class BreedingSearch(SteppedSearch):
    """Base class of evolutionary searches: settings, an offspring generator and a mutation rate."""

    def __init__(
        self,
        sizes: Sizes,
        settings: GeneticSettings = PRESETS["default"],
        *,
        seed: int = 42,
        feasible: Feasible = always_feasible,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self.settings = settings
        cross, mutate = CROSSOVERS[settings.crossover], MUTATIONS[settings.mutation]
        rate = settings.crossover_rate
        self._offspring = OffspringGenerator(self.sizes, feasible, cross, rate, mutate, self._rng)

    @property
    def _n_children(self) -> int:
        return self.settings.population - self.settings.elitism

    def _mutation_rate(self, diversity: float, stagnant: int) -> float:
        """Return the mutation rate of the next children, which only adaptive mutation varies."""
        settings = self.settings
        if settings.mutation != "adaptive":
            return settings.mutation_rate
        low, high = settings.mutation_min, settings.mutation_max
        return adaptive_rate(settings.mutation_rate, low, high, diversity, stagnant)


class GeneticSearch(BreedingSearch):
    """Genetic search with a single objective."""

    name = "genetic"

    def __init__(
        self,
        sizes: Sizes,
        settings: GeneticSettings = PRESETS["paper"],
        *,
        seed: int = 42,
        prior: Prior | None = None,
        feasible: Feasible = always_feasible,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, settings, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self._prior = prior

    def steps(self) -> Iterator[Population]:
        """Yield a random generation 0, generations of elites and children, and the populations of local search."""
        if not (genomes := self._initial_population()):
            return
        yield Population(genomes)
        n_generations = 0
        while (
            genomes
            and n_generations != self.settings.generations
            and self._remaining_to_breed > 0
            and not self._converged()
        ):
            last = self.history[-1]
            rate = self._mutation_rate(last.diversity, last.stagnant)
            if genomes := self._breed(genomes, rate):
                yield Population(genomes, rate)
            n_generations += 1
        while self.settings.local_search and not self._converged() and (genomes := self._select_neighbours()):
            yield Population(genomes, by="local search")

    def _initial_population(self) -> tuple[Genome, ...]:
        """Draw the initial population uniformly from the feasible space.

        With ``unseen``, genomes already observed are skipped and count towards the population size. With a prior and
        ``screening``, the population is selected from ``screening`` times as many draws.
        """
        settings = self.settings
        if not settings.unseen:
            return tuple(draw_genome(self.sizes, self.feasible, self._rng) for _ in range(settings.population))
        shuffled = shuffle_space(self.sizes, self.feasible, self._rng)
        unknown = (genome for genome in shuffled if genome not in self.observations)
        n = max(settings.population - len(self.observations), self._n_children)
        if self._prior and settings.screening > 1:
            return select_by_improvement(
                self.observations, list(islice(unknown, n * settings.screening)), n, self._prior
            )
        return tuple(islice(unknown, n))

    def _breed(self, last: Sequence[Genome], rate: float) -> tuple[Genome, ...]:
        """Return the next generation; empty if no new child can be bred."""
        settings = self.settings
        from_all = settings.breeding == "known"
        members = [
            Individual.from_score(genome, self.score(genome)) for genome in (self.observations if from_all else last)
        ]
        elites = elite(members, settings.elitism)
        n = self._n_children
        select = SELECTIONS[settings.selection]
        if select is tournament:
            select = partial(tournament, size=settings.tournament)
        selected = BREEDINGS[settings.breeding](members, elites, n, select, self._rng)
        parents = [parent.genome for parent in selected]
        if not settings.unseen:
            children: Sequence[Genome] = self._offspring.children(parents, rate)
        else:
            children = self._offspring.new_children(parents * settings.screening, rate, self.observations)
            if settings.screening > 1:
                children = select_by_improvement(self.observations, children, n, self._prior)
            children = children[: int(min(n, self._remaining_to_breed))]
        return (*(member.genome for member in elites), *children) if children else ()

    @property
    def _remaining_to_breed(self) -> float:
        """The number of genomes that may still be bred before local search begins."""
        if self.remaining is None or self.max_evaluations is None:
            return math.inf
        return self.remaining - round(self.settings.local_search * self.max_evaluations)

    def _select_neighbours(self) -> tuple[Genome, ...]:
        size = self.limit_batch_size(self._n_children)
        near = find_new_neighbours(self.observations, self.sizes, self.feasible, size)
        return select_by_improvement(self.observations, near, size, self._prior)

    def _converged(self) -> bool:
        settings, last = self.settings, self.history[-1]
        has_target = settings.target is not None and last.best is not None and last.best >= settings.target
        return has_target or (settings.convergence is not None and last.stagnant >= settings.convergence)


@strategy("genetic", reads=[field.name for field in fields(GeneticSettings)])
def genetic(problem: SearchProblem) -> GeneticSearch:
    """The genetic algorithm of the RAGSmith paper, with optional extensions."""
    prior = problem.prior
    return GeneticSearch(problem.sizes, problem.settings, seed=problem.seed, prior=prior, **problem.bounds)
