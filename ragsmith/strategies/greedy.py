"""Greedy search: coordinate ascent over the genes, repeated until a pass changes nothing.

This corresponds to tuning a pipeline module by module. The result is optimal with respect to changes of a single gene;
it is the global optimum only if the genes do not interact.
"""

import math
from collections.abc import Iterator
from itertools import product

from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.strategy import Genome, Population, SteppedSearch


class GreedySearch(SteppedSearch):
    """Coordinate ascent from the best observed genome, or from the first feasible one if none has a score."""

    name = "greedy"

    def steps(self) -> Iterator[Population]:
        """Yield the variants of the current genome for each gene; only a strictly better variant replaces it."""
        space = product(*map(range, self.sizes))
        current = best[0] if (best := self.best()) else next(filter(self.feasible, space))
        changed = True
        while changed:
            changed = False
            for gene in range(len(self.sizes)):
                variants = self._variants(current, gene)
                yield Population(variants)
                better = max(variants, key=self._score)  # ties go to the current genome, which is first
                changed |= self._score(better) > self._score(current)
                current = better

    def _variants(self, current: Genome, gene: int) -> tuple[Genome, ...]:
        options = ((*current[:gene], option, *current[gene + 1 :]) for option in range(self.sizes[gene]))
        return (current, *(genome for genome in options if genome != current and self.feasible(genome)))

    def _score(self, genome: Genome) -> float:
        score = self.score(genome)
        return -math.inf if score is None else score


@strategy("greedy")
def greedy(problem: SearchProblem) -> GreedySearch:
    """Coordinate ascent: the best option of one family at a time, until a pass changes nothing."""
    return GreedySearch(problem.sizes, **problem.bounds)
