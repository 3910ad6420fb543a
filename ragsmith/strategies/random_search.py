"""Random search (Bergstra and Bengio 2012): distinct feasible genomes, each equally likely; the baseline to beat."""

from __future__ import annotations

from collections.abc import Iterator

from ragsmith.strategies.genomes import shuffled_space
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.strategy import Feasible, Population, Sizes, SteppedSearch, anything


class RandomSearch(SteppedSearch):
    """Draws feasible genomes without replacement, until the space is used up."""

    name = "random"

    def __init__(
        self,
        sizes: Sizes,
        *,
        seed: int = 42,
        batch: int = 16,
        feasible: Feasible = anything,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self._size = batch

    def steps(self) -> Iterator[Population]:
        """``batch`` genomes of a random order of the feasible space at a time."""
        return self.in_batches(shuffled_space(self.sizes, self.feasible, self._rng), self._size)


@strategy("random", reads=("population",), weighs=True, paper="https://jmlr.org/papers/v13/bergstra12a.html")
def random_search(problem: SearchProblem) -> RandomSearch:
    """Every feasible pipeline equally likely, each once."""
    return RandomSearch(problem.sizes, seed=problem.seed, batch=problem.settings.population, **problem.bounds)
