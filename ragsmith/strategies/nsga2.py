"""NSGA-II (Deb et al. 2002): a genetic algorithm that looks for the best trade of a score for what it costs.

DEAP's ``selNSGA2`` makes the population of each generation from all that is known: by non-dominated
fronts, and within the last front by crowding distance. Its ``selTournamentDCD`` draws from the
global ``random``, so a tournament by the same rule is here.

As in the genetic search, more children may be bred than are scored (``screening``): models of the score and of each
cost then take those with the highest expected improvement, averaged over budgets.
With one cost that is the expected gain in hypervolume.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from random import Random

import numpy as np

from ragsmith.strategies.genetic import BreedingSearch
from ragsmith.strategies.genomes import shuffled_space
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.selection import Individual
from ragsmith.strategies.strategy import Genome, Population
from ragsmith.strategies.surrogate import expected_improvement, fit

BUDGETS = 16
"""How many amounts of each cost are looked at, from the least to the most that anything known costs."""

EQUAL = 1e-3
"""Costs that differ by less than this share of their range are the same: those of a model are never quite exact."""


class NSGA2Search(BreedingSearch):
    """Breeds from genomes on or near the Pareto front of score and costs."""

    name = "nsga2"

    def steps(self) -> Iterator[Population]:
        """Genomes drawn uniformly, to fill a population, and more where none has a score; then children, all new."""
        from deap import tools  # noqa: PLC0415  as in `selection.elite`

        drawn = shuffled_space(self.sizes, self.feasible, self._rng)
        settings = self.settings
        made, stagnant, best = 0, 0, frozenset[tuple[float, ...]]()
        while settings.generations is None or made <= settings.generations:
            members, rate = self._members(), None
            if not made or not members:
                unknown = (genome for genome in drawn if genome not in self.told)
                genomes = tuple(islice(unknown, max(settings.population - len(self.told), self._children_at_once)))
            else:
                front = frozenset(one.fitness.values for one in tools.sortNondominated(members, 1, True)[0])
                stagnant, best = stagnant + 1 if front == best else 0, front
                rate = self._mutation_rate(1.0, stagnant)
                genomes = self._children(members, rate)
            if not genomes:
                return
            yield Population(genomes, rate)
            made += 1

    def _members(self) -> list[Individual]:
        """All that have a score; of those that are equal in everything the first found."""
        found: dict[tuple[float, ...], Individual] = {}
        for genome in self.told:
            if (score := self.score(genome)) is not None:
                costs = self.costs.get(genome, ())
                found.setdefault((score, *costs), Individual.of(genome, score, costs))
        return list(found.values())

    def _children(self, members: Sequence[Individual], rate: float) -> tuple[Genome, ...]:
        from deap import tools  # noqa: PLC0415  as above

        settings = self.settings
        population = tools.selNSGA2(members, settings.population)
        parents = [tournament(population, self._rng).genome for _ in range(self._children_at_once)]
        children = self._offspring.new_children(parents * settings.screening, rate, self.told)
        return self._screened(children) if settings.screening > 1 else tuple(children)

    def _screened(self, children: Sequence[Genome]) -> tuple[Genome, ...]:
        """Those of ``children`` that may improve most on what can be had, chosen one by one.

        What was taken counts as known, with what is expected of it.
        """
        known = [genome for genome in self.told if self.score(genome) is not None]
        scores = np.array([self.score(genome) for genome in known])
        costs = np.array([self.costs.get(genome, ()) for genome in known])
        if not children:
            return ()
        mean, sd = fit(known, scores).posterior(children)
        expected = np.array([fit(known, column).posterior(children)[0] for column in costs.T])
        expected = expected.T.reshape(len(children), costs.shape[1])
        ends = zip(costs.min(axis=0), costs.max(axis=0), strict=True)
        budgets = np.array(list(product(*(np.linspace(low, high, BUDGETS) for low, high in ends))))
        slack = EQUAL * np.ptp(costs, axis=0)
        affordable = (expected[:, None, :] <= budgets + slack).all(axis=2)  # children × budgets
        taken: list[int] = []
        for _ in range(min(self._children_at_once, len(children))):
            had = (costs[:, None, :] <= budgets + slack).all(axis=2)
            best = [scores.max(where=able, initial=scores.min()) for able in had.T]
            above = {level: expected_improvement(mean, sd, level) for level in set(best)}
            gain = np.array([above[level] for level in best]).T * affordable
            gain = np.round(gain.mean(axis=1), 12)  # so that the last bits of sums decide nothing
            gain[taken] = -1.0
            i = int(gain.argmax())
            taken.append(i)
            scores, costs = np.append(scores, mean[i]), np.vstack([costs, expected[i]])
        return tuple(children[i] for i in taken)


def tournament(population: Sequence[Individual], rng: Random) -> Individual:
    """The better of two random members: the dominating one, or else the less crowded one, or else either."""
    one, other = rng.sample(population, 2) if len(population) > 1 else [*population, *population]
    if one.fitness.dominates(other.fitness):
        return one
    if other.fitness.dominates(one.fitness):
        return other
    if one.fitness.crowding_dist == other.fitness.crowding_dist:
        return rng.choice((one, other))
    return max(one, other, key=lambda member: float(member.fitness.crowding_dist))


@strategy(
    "nsga2",
    reads=(
        *("population", "generations", "elitism", "crossover", "crossover_rate", "mutation", "mutation_rate"),
        *("mutation_min", "mutation_max", "screening", "budget"),
    ),
    weighs=True,
    paper="https://doi.org/10.1109/4235.996017",
)
def nsga2(problem: SearchProblem) -> NSGA2Search:
    """NSGA-II, which weighs quality against costs."""
    return NSGA2Search(problem.sizes, problem.settings, seed=problem.seed, **problem.bounds)
