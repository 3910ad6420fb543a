"""Greedy search: one gene at a time in order, keeping its best option; passes repeat until one changes nothing.

What tuning a pipeline module by module does (coordinate ascent). It ends in a genome that no change of a single gene
improves, which is the best of all only where the genes do not interact.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ragsmith.strategies.strategy import Genome, Population, Repair, Sizes, SteppedSearch, identity


class GreedySearch(SteppedSearch):
    """Coordinate-wise ascent from ``start``, by default the first option of every gene (a `Strategy`)."""

    name = "greedy"

    def __init__(
        self,
        sizes: Sizes,
        *,
        start: Genome | None = None,
        repair: Repair = identity,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, repair=repair, max_evaluations=max_evaluations)
        self._start = start if start is not None else (0,) * len(self.sizes)
        self._check(self._start)

    def steps(self) -> Iterator[Population]:
        """For each gene the current genome and its variants; only a strictly better one replaces it."""
        current = self.repair(self._start)
        changed = True
        while changed:
            changed = False
            for gene in range(len(self.sizes)):
                candidates = self._variants(current, gene)
                yield Population(candidates)
                best = max(candidates, key=self._worth)  # the first of equals, and the current genome is first
                changed |= self._worth(best) > self._worth(current)
                current = best

    def _variants(self, current: Genome, gene: int) -> tuple[Genome, ...]:
        options = ((*current[:gene], option, *current[gene + 1 :]) for option in range(self.sizes[gene]))
        return tuple(dict.fromkeys((current, *map(self.repair, options))))

    def _worth(self, genome: Genome) -> float:
        score = self.scores.get(genome)
        return -math.inf if score is None else score
