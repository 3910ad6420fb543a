"""Crossover and mutation: from two parents to two children, and from a genome to a slightly different one.

DEAP's own operators (``deap.tools.cx*``, ``mutUniformInt``) draw from the global ``random``, change parents in place
and may draw the old value; these draw from the generator they are given and return new genomes, so that a run can be
repeated whatever else the process does.

The ``rate`` of a mutation is the chance that a gene mutates. Operators that change several genes at once act on the
whole genome with the chance that per-gene mutation would have changed it, 1 - (1 - rate)^n over the n genes with a
choice, so that one rate means the same for all. A gene that mutates never keeps its option.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from types import MappingProxyType

from ragsmith.strategies.strategy import Genome, Sizes

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


Mutation = Callable[[Genome, Sizes, float, Random], Genome]

PATIENCE = 10
"""Generations without improvement after which stagnation counts in full."""

SEVERAL_AT_ONCE = 0.3
"""Share of categorical mutations that change several genes at once."""


def adaptive_rate(base: float, low: float, high: float, diversity: float, stagnant: int) -> float:
    """The rate to breed the next generation with: higher where the population is uniform or stuck.

    ``diversity`` D is distinct genomes / population; ``stagnant`` counts generations since the best score rose.
    """
    stagnation = min(stagnant / PATIENCE, 1.0)  # S
    rate = base + (high - base) * ((1.0 - diversity) + stagnation) / 2.0  # base + (max - base) ((1 - D) + S) / 2
    return min(max(rate, low), high)


def per_gene(genome: Genome, sizes: Sizes, rate: float, rng: Random) -> Genome:
    """Each gene with a choice mutates with probability ``rate``."""
    return redraw(genome, sizes, [i for i in choosable(sizes) if rng.random() < rate], rng)


def swap(genome: Genome, sizes: Sizes, rate: float, rng: Random) -> Genome:
    """Redraw two or three genes anywhere."""
    genes = choosable(sizes)
    if not strikes(len(genes), rate, rng):
        return genome
    return redraw(genome, sizes, sorted(rng.sample(genes, min(rng.randint(2, 3), len(genes)))), rng)


def inversion(genome: Genome, sizes: Sizes, rate: float, rng: Random) -> Genome:
    """Redraw two to four neighbouring genes; genes without a choice are passed over."""
    genes = choosable(sizes)
    if not strikes(len(genes), rate, rng):
        return genome
    length = min(rng.randint(2, 4), len(genes))
    start = rng.randrange(len(genes) - length + 1)
    return redraw(genome, sizes, genes[start : start + length], rng)


def categorical(genome: Genome, sizes: Sizes, rate: float, rng: Random) -> Genome:
    """Like `swap` in 30 % of the calls and `per_gene` otherwise."""
    operator = swap if rng.random() < SEVERAL_AT_ONCE else per_gene
    return operator(genome, sizes, rate, rng)


def composite(genome: Genome, sizes: Sizes, rate: float, rng: Random) -> Genome:
    """One of the other operators, drawn anew for each genome."""
    return rng.choice((per_gene, categorical, swap, inversion))(genome, sizes, rate, rng)


def choosable(sizes: Sizes) -> list[int]:
    """Positions of the genes with more than one option."""
    return [i for i, size in enumerate(sizes) if size > 1]


def strikes(genes: int, rate: float, rng: Random) -> bool:
    """Whether a genome with this many choosable genes is changed."""
    return rng.random() < 1.0 - (1.0 - rate) ** genes


def redraw(genome: Genome, sizes: Sizes, positions: Iterable[int], rng: Random) -> Genome:
    """The genome with another option, uniformly drawn, at each of ``positions``."""
    genes = list(genome)
    for i in positions:
        option = rng.randrange(sizes[i] - 1)
        genes[i] = option + (option >= genes[i])  # skips the old option
    return tuple(genes)


MUTATIONS: Mapping[str, Mutation] = MappingProxyType(
    {
        "random": per_gene,
        "adaptive": per_gene,  # with the rate of `adaptive_rate`
        "categorical": categorical,
        "swap": swap,
        "inversion": inversion,
        "composite": composite,
    }
)
