"""Random search (Bergstra and Bengio 2012): distinct feasible genomes, each equally likely; the baseline to beat."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from ragsmith.strategies.registry import SearchProblem, strategy
from ragsmith.strategies.strategy import Feasible, Genome, Population, Sizes, SteppedSearch, anything

REJECTIONS = 1000
"""Draws in a row that may be infeasible before genomes are looked for among all."""


class RandomSearch(SteppedSearch):
    """Draws feasible genomes without replacement, until the space is used up (a `Strategy`)."""

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
        super().__init__(sizes, feasible=feasible, max_evaluations=max_evaluations)
        self._rng = Random(seed)
        self._size = batch

    def steps(self) -> Iterator[Population]:
        """``batch`` genomes of a random order of the feasible space at a time."""
        return self.in_batches(shuffled_space(self.sizes, self.feasible, self._rng), self._size)


def shuffled_space(sizes: Sizes, feasible: Feasible, rng: Random) -> Iterator[Genome]:
    """All feasible genomes in random order, each order equally likely; infeasible ones are skipped, never mended."""
    every = (decode(index, sizes) for index in permutation(math.prod(sizes), rng))
    return filter(feasible, every)


def drawn(sizes: Sizes, feasible: Feasible, rng: Random) -> Genome:
    """A feasible genome, each equally likely; there must be one."""
    for _ in range(REJECTIONS):
        genome = tuple(rng.randrange(size) for size in sizes)
        if feasible(genome):
            return genome
    return next(shuffled_space(sizes, feasible, rng))


def permutation(n: int, rng: Random) -> Iterator[int]:
    """0 .. n - 1 in random order: a Fisher-Yates shuffle whose memory grows with what was taken, not with n."""
    moved: dict[int, int] = {}
    for i in range(n):
        j = rng.randrange(i, n)
        yield moved.get(j, j)
        moved[j] = moved.pop(i, i)


def decode(index: int, sizes: Sizes) -> Genome:
    """The genome at ``index`` of the lexicographic order."""
    genes: list[int] = []
    for size in reversed(sizes):
        index, gene = divmod(index, size)
        genes.append(gene)
    return tuple(reversed(genes))


@strategy("random", reads=("population",), weighs=True, paper="https://jmlr.org/papers/v13/bergstra12a.html")
def random_search(problem: SearchProblem) -> RandomSearch:
    """Every feasible pipeline equally likely, each once."""
    return RandomSearch(problem.sizes, seed=problem.seed, batch=problem.settings.population, **problem.bounds)
