"""Greedy search: one gene at a time in order, keeping its best option; passes repeat until one changes nothing.

What tuning a pipeline module by module does (coordinate ascent). It ends in a genome that no change of a single gene
improves, which is the best of all only where the genes do not interact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.strategy import Genome, Population, SteppedSearch


class GreedySearch(SteppedSearch):
    """Coordinate-wise ascent from the best known genome, or else from the first feasible one."""

    name = "greedy"

    def steps(self) -> Iterator[Population]:
        """For each gene the current genome and its variants; only a strictly better one replaces it."""
        every = product(*map(range, self.sizes))
        current = best[0] if (best := self.best()) else next(filter(self.feasible, every))
        changed = True
        while changed:
            changed = False
            for gene in range(len(self.sizes)):
                variants = self._variants(current, gene)
                yield Population(variants)
                better = max(variants, key=self._worth)  # the first of equals, and the current genome is first
                changed |= self._worth(better) > self._worth(current)
                current = better

    def _variants(self, current: Genome, gene: int) -> tuple[Genome, ...]:
        options = ((*current[:gene], option, *current[gene + 1 :]) for option in range(self.sizes[gene]))
        return (current, *(genome for genome in options if genome != current and self.feasible(genome)))

    def _worth(self, genome: Genome) -> float:
        score = self.score(genome)
        return -math.inf if score is None else score


@strategy("greedy")
def greedy(problem: SearchProblem) -> GreedySearch:
    """One family at a time, keeping its best option, until a pass changes nothing."""
    return GreedySearch(problem.sizes, **problem.bounds)
