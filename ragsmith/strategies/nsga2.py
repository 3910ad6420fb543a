"""NSGA-II (Deb et al. 2002): a genetic algorithm for the Pareto front of a score and costs.

DEAP's ``selNSGA2`` selects the population of each generation from all observed genomes by non-dominated fronts, and
within the last front by crowding distance. Its ``selTournamentDCD`` draws from the global ``random``, so `tournament`
implements the same rule with a generator.

As in the genetic search, more children may be bred than are evaluated (``screening``). Surrogates of the score and of
each cost then select those with the highest expected improvement, averaged over budgets. With one cost, this is the
expected hypervolume improvement.
"""

from collections.abc import Iterator, Sequence
from itertools import islice, product
from random import Random

import numpy as np

from ragsmith.strategies.genetic import BreedingSearch
from ragsmith.strategies.genomes import shuffle_space
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.selection import Individual
from ragsmith.strategies.strategy import Genome, Population
from ragsmith.strategies.surrogate import expected_improvement, fit_surrogate

BUDGET_LEVELS = 16
"""Number of budgets of each cost, evenly spaced between its observed minimum and maximum."""

COST_TOLERANCE = 1e-3
"""Tolerance of comparisons with a budget, as a share of the range of a cost, as predicted costs are not exact."""


class NSGA2Search(BreedingSearch):
    """NSGA-II search with a score and any number of costs."""

    name = "nsga2"

    def steps(self) -> Iterator[Population]:
        """Yield random genomes until at least one has a score, then generations of new children."""
        from deap import tools  # noqa: PLC0415  slow import

        shuffled = shuffle_space(self.sizes, self.feasible, self._rng)
        settings = self.settings
        n_generations, stagnant, best = 0, 0, frozenset[tuple[float, ...]]()
        while settings.generations is None or n_generations <= settings.generations:
            members, rate = self._members(), None
            if not n_generations or not members:
                unknown = (genome for genome in shuffled if genome not in self.observations)
                genomes = tuple(islice(unknown, max(settings.population - len(self.observations), self._n_children)))
            else:
                front = frozenset(member.fitness.values for member in tools.sortNondominated(members, 1, True)[0])
                stagnant, best = stagnant + 1 if front == best else 0, front
                rate = self._mutation_rate(1.0, stagnant)
                genomes = self._breed(members, rate)
            if not genomes:
                return
            yield Population(genomes, rate)
            n_generations += 1

    def _members(self) -> list[Individual]:
        """Return the scored genomes; the first observed of those with equal score and costs."""
        members: dict[tuple[float, ...], Individual] = {}
        for genome in self.observations:
            if (score := self.score(genome)) is not None:
                costs = self.costs.get(genome, ())
                members.setdefault((score, *costs), Individual.from_score(genome, score, costs))
        return list(members.values())

    def _breed(self, members: Sequence[Individual], rate: float) -> tuple[Genome, ...]:
        from deap import tools  # noqa: PLC0415  slow import

        settings = self.settings
        population = tools.selNSGA2(members, settings.population)
        parents = [tournament(population, self._rng).genome for _ in range(self._n_children)]
        children = self._offspring.new_children(parents * settings.screening, rate, self.observations)
        return self._preselect(children) if settings.screening > 1 else tuple(children)

    def _preselect(self, children: Sequence[Genome]) -> tuple[Genome, ...]:
        """Select the children with the highest expected improvement one by one.

        The predictions for a selected child count as observations in the following selections (kriging believer).
        """
        scored = [genome for genome in self.observations if self.score(genome) is not None]
        scores = np.array([self.score(genome) for genome in scored])
        costs = np.array([self.costs.get(genome, ()) for genome in scored])
        if not children:
            return ()
        mean, sd = fit_surrogate(scored, scores).posterior(children)
        expected = np.array([fit_surrogate(scored, column).posterior(children)[0] for column in costs.T])
        expected = expected.T.reshape(len(children), costs.shape[1])
        ends = zip(costs.min(axis=0), costs.max(axis=0), strict=True)
        budgets = np.array(list(product(*(np.linspace(low, high, BUDGET_LEVELS) for low, high in ends))))
        slack = COST_TOLERANCE * np.ptp(costs, axis=0)
        affordable = (expected[:, None, :] <= budgets + slack).all(axis=2)  # children × budgets
        selected: list[int] = []
        for _ in range(min(self._n_children, len(children))):
            within = (costs[:, None, :] <= budgets + slack).all(axis=2)
            best = [scores.max(where=mask, initial=scores.min()) for mask in within.T]
            above = {level: expected_improvement(mean, sd, level) for level in set(best)}
            gain = np.array([above[level] for level in best]).T * affordable
            gain = np.round(gain.mean(axis=1), 12)  # rounding errors of sums do not decide
            gain[selected] = -1.0
            i = int(gain.argmax())
            selected.append(i)
            scores, costs = np.append(scores, mean[i]), np.vstack([costs, expected[i]])
        return tuple(children[i] for i in selected)


def tournament(population: Sequence[Individual], rng: Random) -> Individual:
    """Return the better of two random members: by dominance, then by crowding distance, then at random."""
    first, second = rng.sample(population, 2) if len(population) > 1 else [*population, *population]
    if first.fitness.dominates(second.fitness):
        return first
    if second.fitness.dominates(first.fitness):
        return second
    if first.fitness.crowding_dist == second.fitness.crowding_dist:
        return rng.choice((first, second))
    return max(first, second, key=lambda member: float(member.fitness.crowding_dist))


@strategy(
    "nsga2",
    reads=(
        *("population", "generations", "elitism", "crossover", "crossover_rate", "mutation", "mutation_rate"),
        *("mutation_min", "mutation_max", "screening", "budget"),
    ),
    multi_objective=True,
    paper="https://doi.org/10.1109/4235.996017",
)
def nsga2(problem: SearchProblem) -> NSGA2Search:
    """NSGA-II, a multi-objective search over quality and costs."""
    return NSGA2Search(problem.sizes, problem.settings, seed=problem.seed, **problem.bounds)
