"""Exhaustive search: every feasible genome once, the last gene varying fastest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from ragsmith.strategies.strategy import Population, Repair, Sizes, SteppedSearch, batches, identity


class ExhaustiveSearch(SteppedSearch):
    """Evaluates the whole space, ``batch`` genomes at a time (a `Strategy`)."""

    name = "exhaustive"

    def __init__(
        self, sizes: Sizes, *, batch: int = 64, repair: Repair = identity, max_evaluations: int | None = None
    ) -> None:
        super().__init__(sizes, repair=repair, max_evaluations=max_evaluations)
        self._size = batch

    def steps(self) -> Iterator[Population]:
        """The genomes that repair leaves alone, in lexicographic order."""
        every = product(*map(range, self.sizes))
        return batches((genome for genome in every if self.repair(genome) == genome), self._size)
