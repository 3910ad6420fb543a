"""Crossover: two parents to two children, which at each position hold the parents' two genes.

DEAP's own operators (``deap.tools.cx*``) draw from the global ``random`` and change the parents in place; these draw
from the generator they are given and return new genomes, so that a run can be repeated whatever else the process does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from random import Random
from types import MappingProxyType

from ragsmith.strategies.strategy import Genome

Children = tuple[Genome, Genome]
Crossover = Callable[[Genome, Genome, Random], Children]

SWAP_PROBABILITY = 0.5
POINTS = (2, 3)
SEGMENT = 3


def exchange(first: Genome, second: Genome, positions: Collection[int]) -> Children:
    """The parents with the genes at ``positions`` exchanged."""
    genes = [(b, a) if i in positions else (a, b) for i, (a, b) in enumerate(zip(first, second, strict=True))]
    return tuple(a for a, _ in genes), tuple(b for _, b in genes)


def single_point(first: Genome, second: Genome, rng: Random) -> Children:
    """Exchange everything behind one inner cut; a genome of one gene has none and is returned as it is."""
    n = len(first)
    return exchange(first, second, range(rng.randrange(1, n), n)) if n > 1 else (first, second)


def multi_point(first: Genome, second: Genome, rng: Random) -> Children:
    """Exchange every other piece between two or three inner cuts: three alone would always part first and last gene."""
    n = len(first)
    cuts = rng.sample(range(1, n), min(rng.choice(POINTS), n - 1))
    return exchange(first, second, [i for i in range(n) if sum(cut <= i for cut in cuts) % 2])


def uniform(first: Genome, second: Genome, rng: Random) -> Children:
    """Exchange each gene with probability 1/2 (Syswerda 1989)."""
    return exchange(first, second, [i for i in range(len(first)) if rng.random() < SWAP_PROBABILITY])


def order(first: Genome, second: Genome, rng: Random) -> Children:
    """Exchange the genes between two cuts, either of which may be an end, so the last gene can be exchanged too."""
    start, stop = sorted(rng.sample(range(len(first) + 1), 2))
    return exchange(first, second, range(start, stop))


def segment(first: Genome, second: Genome, rng: Random) -> Children:
    """Exchange a run of three neighbouring genes; shorter where that would be the whole genome."""
    n = len(first)
    length = max(1, min(SEGMENT, n - 1))
    start = rng.randrange(n - length + 1)
    return exchange(first, second, range(start, start + length))


CROSSOVERS: Mapping[str, Crossover] = MappingProxyType(
    {"single_point": single_point, "multi_point": multi_point, "uniform": uniform, "order": order, "segment": segment}
)
