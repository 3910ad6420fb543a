"""Score functions with a known optimum, and the loop that searches them."""

from __future__ import annotations

import random
from collections.abc import Callable

from ragsmith.strategies import Genome, Sizes, Strategy

PAPER_SIZES: Sizes = (4, 8, 5, 4, 2, 3, 3, 2, 2)  # 46,080 genomes
Score = Callable[[Genome], float | None]


def additive(sizes: Sizes, seed: int) -> Score:
    """Every option of every gene is worth a random amount; the best genome scores 1."""
    rng = random.Random(f"landscape {seed}")
    worth = [[rng.random() for _ in range(size)] for size in sizes]
    optimum = sum(map(max, worth))
    return lambda genome: sum(options[gene] for options, gene in zip(worth, genome, strict=True)) / optimum


def run(strategy: Strategy, score: Score) -> list[Genome]:
    """Search to the end; all genomes that were proposed, in order."""
    proposed: list[Genome] = []
    while batch := strategy.propose():
        proposed.extend(batch)
        strategy.tell({genome: score(genome) for genome in batch})
    return proposed


def even(genome: Genome) -> Genome:
    """A repair: only genomes with an even sum are feasible; the first gene steps down, or up from 0."""
    if sum(genome) % 2 == 0:
        return genome
    return (genome[0] - 1 if genome[0] else 1, *genome[1:])
