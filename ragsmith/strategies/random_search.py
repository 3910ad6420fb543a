"""Random search (Bergstra and Bengio 2012): distinct feasible genomes, each equally likely; the baseline to beat."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from ragsmith.strategies.strategy import Genome, Population, Repair, Sizes, SteppedSearch, batches, identity


class RandomSearch(SteppedSearch):
    """Draws feasible genomes without replacement, until the space is used up (a `Strategy`)."""

    name = "random"

    def __init__(
        self,
        sizes: Sizes,
        *,
        seed: int = 42,
        batch: int = 16,
        repair: Repair = identity,
        max_evaluations: int | None = None,
    ) -> None:
        super().__init__(sizes, repair=repair, max_evaluations=max_evaluations)
        self._rng = Random(seed)
        self._size = batch

    def steps(self) -> Iterator[Population]:
        """``batch`` genomes of a random order of the feasible space at a time."""
        return batches(shuffled_space(self.sizes, self.repair, self._rng), self._size)


def shuffled_space(sizes: Sizes, repair: Repair, rng: Random) -> Iterator[Genome]:
    """All feasible genomes in random order, each order equally likely.

    Repaired draws would favour the genomes that many infeasible ones are repaired to; so infeasible ones are skipped.
    """
    for index in permutation(math.prod(sizes), rng):
        genome = decode(index, sizes)
        if repair(genome) == genome:
            yield genome


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
