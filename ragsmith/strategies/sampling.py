"""Feasible genomes at random, each equally likely."""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from ragsmith.strategies.strategy import Feasible, Genome, Sizes

REJECTIONS = 1000
"""Draws in a row that may be infeasible before genomes are looked for among all."""


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
