"""Exhaustive search of the feasible space in lexicographic order."""

from collections.abc import Iterator
from itertools import product

from ragsmith.plugins import Count
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.strategy import Feasible, Population, Sizes, SteppedSearch, always_feasible


class ExhaustiveSearch(SteppedSearch):
    """Exhaustive search of the feasible space in batches of ``batch`` genomes."""

    name = "exhaustive"

    def __init__(
        self, sizes: Sizes, *, batch: int = 64, feasible: Feasible = always_feasible, max_evaluations: int | None = None
    ) -> None:
        super().__init__(sizes, feasible=feasible, max_evaluations=max_evaluations)
        self._batch_size = batch

    def steps(self) -> Iterator[Population]:
        """Yield the feasible genomes in lexicographic order."""
        return self.in_batches(filter(self.feasible, product(*map(range, self.sizes))), self._batch_size)


@strategy("exhaustive", multi_objective=True)
def exhaustive(problem: SearchProblem, *, batch: Count = 64) -> ExhaustiveSearch:
    """Every feasible pipeline; replaces any other strategy if the budget covers the space."""
    return ExhaustiveSearch(problem.sizes, batch=batch, **problem.bounds)
