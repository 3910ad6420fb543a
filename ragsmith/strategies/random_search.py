"""Random search (Bergstra and Bengio 2012): uniform sampling without replacement, the baseline of other strategies."""

from collections.abc import Iterator

from ragsmith.strategies.genomes import shuffle_space
from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.strategy import Feasible, Population, Sizes, SteppedSearch, always_feasible


class RandomSearch(SteppedSearch):
    """Random search without replacement until the space is exhausted."""

    name = "random"

    def __init__(
        self,
        sizes: Sizes,
        *,
        seed: int = 42,
        batch: int = 16,
        feasible: Feasible = always_feasible,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, seed=seed, feasible=feasible, max_evaluations=max_evaluations)
        self._batch_size = batch

    def steps(self) -> Iterator[Population]:
        """Yield batches of ``batch`` genomes from a random permutation of the feasible space."""
        return self.in_batches(shuffle_space(self.sizes, self.feasible, self._rng), self._batch_size)


@strategy("random", reads=("population",), multi_objective=True, paper="https://jmlr.org/papers/v13/bergstra12a.html")
def random_search(problem: SearchProblem) -> RandomSearch:
    """Uniform sampling of feasible pipelines without replacement."""
    return RandomSearch(problem.sizes, seed=problem.seed, batch=problem.settings.population, **problem.bounds)
