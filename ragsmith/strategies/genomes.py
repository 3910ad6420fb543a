"""Sampling and enumeration of genomes: uniform draws, random permutations and neighbours."""

import math
from collections.abc import Iterator, Mapping
from random import Random

from ragsmith.strategies.strategy import Feasible, Genome, Observation, Pruned, Sizes

MAX_REJECTIONS = 1000
"""Consecutive infeasible draws after which a genome is taken from a random permutation of the space."""


def shuffle_space(sizes: Sizes, feasible: Feasible, rng: Random) -> Iterator[Genome]:
    """Yield all feasible genomes in a uniformly random order; infeasible genomes are skipped, not repaired."""
    genomes = (genome_at(index, sizes) for index in random_permutation(math.prod(sizes), rng))
    return filter(feasible, genomes)


def draw_genome(sizes: Sizes, feasible: Feasible, rng: Random) -> Genome:
    """Draw a feasible genome uniformly; at least one must exist."""
    for _ in range(MAX_REJECTIONS):
        genome = tuple(rng.randrange(size) for size in sizes)
        if feasible(genome):
            return genome
    return next(shuffle_space(sizes, feasible, rng))


def random_permutation(n: int, rng: Random) -> Iterator[int]:
    """Yield 0 .. n - 1 in random order: a lazy Fisher-Yates shuffle with memory proportional to the values consumed."""
    moved: dict[int, int] = {}
    for i in range(n):
        j = rng.randrange(i, n)
        yield moved.get(j, j)
        moved[j] = moved.pop(i, i)


def genome_at(index: int, sizes: Sizes) -> Genome:
    """Return the genome at ``index`` in lexicographic order."""
    genes: list[int] = []
    for size in reversed(sizes):
        index, gene = divmod(index, size)
        genes.append(gene)
    return tuple(reversed(genes))


def sort_by_score(observations: Mapping[Genome, Observation]) -> dict[Genome, float]:
    """Return the scores of the scored genomes, best first, ties in the order of observation."""
    scores = {
        genome: score for genome, score in observations.items() if score is not None and not isinstance(score, Pruned)
    }
    return dict(sorted(scores.items(), key=lambda item: -item[1]))


def iterate_neighbours(genome: Genome, sizes: Sizes, feasible: Feasible) -> Iterator[Genome]:
    """Yield the feasible genomes that differ from ``genome`` in one gene."""
    for gene, size in enumerate(sizes):
        for option in range(size):
            other = (*genome[:gene], option, *genome[gene + 1 :])
            if option != genome[gene] and feasible(other):
                yield other


def find_new_neighbours(
    observations: Mapping[Genome, Observation], sizes: Sizes, feasible: Feasible, least: int
) -> list[Genome]:
    """Return unobserved neighbours of the best genome, then of the next best, until there are at least ``least``."""
    new: dict[Genome, None] = {}
    for genome in sort_by_score(observations):
        new.update(
            dict.fromkeys(other for other in iterate_neighbours(genome, sizes, feasible) if other not in observations)
        )
        if len(new) >= least:
            break
    return list(new)
