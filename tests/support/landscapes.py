"""Score functions with a known optimum, and the loop that searches them."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import combinations

from ragsmith.strategies import Genome, Sizes, SteppedSearch

PAPER_SIZES: Sizes = (4, 8, 5, 4, 2, 3, 3, 2, 2)  # 46,080 genomes
Score = Callable[[Genome], float | None]


def additive(sizes: Sizes, seed: int) -> Score:
    """Every option of every gene is worth a random amount; the best genome scores 1."""
    rng = random.Random(f"landscape {seed}")
    worth = [[rng.random() for _ in range(size)] for size in sizes]
    optimum = sum(map(max, worth))
    return lambda genome: sum(options[gene] for options, gene in zip(worth, genome, strict=True)) / optimum


def rugged(sizes: Sizes, seed: int) -> Score:
    """Options and pairs of options are worth random amounts, and every genome a little of its own; about 0 to 1."""
    rng = random.Random(f"rugged {seed}")
    spread = [rng.uniform(0.3, 1.0) for _ in sizes]
    single = [[rng.gauss(0, spread[i]) for _ in range(size)] for i, size in enumerate(sizes)]
    pairs = {
        (i, j): [[rng.gauss(0, 0.4 * spread[i] * spread[j]) for _ in range(sizes[j])] for _ in range(sizes[i])]
        for i, j in combinations(range(len(sizes)), 2)
    }

    def score(genome: Genome) -> float:
        effects = sum(worth[gene] for worth, gene in zip(single, genome, strict=True))
        together = sum(worth[genome[i]][genome[j]] for (i, j), worth in pairs.items())
        own = random.Random(f"{seed} {genome}").gauss(0, 0.1)
        return 1 / (1 + math.exp(-(effects + together + own) / 2))

    return score


def run(strategy: SteppedSearch, score: Score) -> list[Genome]:
    """Search to the end; all genomes that were proposed, in order."""
    proposed: list[Genome] = []
    while batch := strategy.propose():
        proposed.extend(batch)
        strategy.tell({genome: score(genome) for genome in batch})
    return proposed


def even(genome: Genome) -> bool:
    """A rule of feasibility: the sum of a genome is even."""
    return sum(genome) % 2 == 0


CHAIN_SIZES: Sizes = (3, 6, 5, 2)


def chained(genome: Genome) -> bool:
    """A rule like that of ``nr_survival``, which needs ``nest``: the last option of gene 2 needs the last of gene 1."""
    return genome[2] != 4 or genome[1] == 5
