"""Genomes of a space: drawn at random, each equally likely, and the neighbours of the best known ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from random import Random

from ragsmith.strategies.strategy import Feasible, Genome, Pruned, Sizes, Told

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


def best_known(told: Mapping[Genome, Told]) -> dict[Genome, float]:
    """The scores of the genomes that have one, the best first, and of equals the first reported."""
    scores = {genome: one for genome, one in told.items() if one is not None and not isinstance(one, Pruned)}
    return dict(sorted(scores.items(), key=lambda item: -item[1]))


def neighbours(genome: Genome, sizes: Sizes, feasible: Feasible) -> Iterator[Genome]:
    """The feasible genomes that differ from ``genome`` in one gene."""
    for gene, size in enumerate(sizes):
        for option in range(size):
            other = (*genome[:gene], option, *genome[gene + 1 :])
            if option != genome[gene] and feasible(other):
                yield other


def unknown_neighbours(told: Mapping[Genome, Told], sizes: Sizes, feasible: Feasible, least: int) -> list[Genome]:
    """Those of the best known genome that are unknown; and those of the next best, until there are ``least``."""
    found: dict[Genome, None] = {}
    for genome in best_known(told):
        found.update(dict.fromkeys(other for other in neighbours(genome, sizes, feasible) if other not in told))
        if len(found) >= least:
            break
    return list(found)
