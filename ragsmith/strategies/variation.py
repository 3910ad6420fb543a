"""Crossover and mutation operators.

DEAP's own operators (``deap.tools.cx*``, ``mutUniformInt``) draw from the global ``random``, change parents in place
and may draw the old value. These operators draw from the given generator and return new genomes, so that runs are
reproducible.

The ``rate`` of a mutation is the probability that a gene mutates. Operators that change several genes at once mutate a
genome with the probability that per-gene mutation would have changed it, 1 - (1 - rate)^n for the n variable genes, so
that rates are comparable between operators. A mutated gene always changes its option.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from random import Random
from types import MappingProxyType

from ragsmith.strategies.strategy import Genome, Sizes

Children = tuple[Genome, Genome]
Crossover = Callable[[Genome, Genome, Random], Children]

EXCHANGE_PROBABILITY = 0.5
"""Probability of exchanging a gene in uniform crossover."""
N_CUTS = (2, 3)
"""Numbers of cuts of multi-point crossover."""
SEGMENT_LENGTH = 3
"""Number of neighbouring genes exchanged by segment crossover."""


def exchange(first: Genome, second: Genome, positions: Collection[int]) -> Children:
    """Exchange the genes of the parents at ``positions``."""
    genes = [(b, a) if i in positions else (a, b) for i, (a, b) in enumerate(zip(first, second, strict=True))]
    return tuple(a for a, _ in genes), tuple(b for _, b in genes)


def single_point(first: Genome, second: Genome, rng: Random) -> Children:
    """Exchange the genes after one inner cut; genomes of a single gene are returned unchanged."""
    n = len(first)
    return exchange(first, second, range(rng.randrange(1, n), n)) if n > 1 else (first, second)


def multi_point(first: Genome, second: Genome, rng: Random) -> Children:
    """Exchange alternate segments between 2 or 3 inner cuts; 3 alone would always separate the first and last gene."""
    n = len(first)
    cuts = rng.sample(range(1, n), min(rng.choice(N_CUTS), n - 1))
    return exchange(first, second, [i for i in range(n) if sum(cut <= i for cut in cuts) % 2])


def uniform(first: Genome, second: Genome, rng: Random) -> Children:
    """Exchange each gene with probability 1/2 (Syswerda 1989)."""
    return exchange(first, second, [i for i in range(len(first)) if rng.random() < EXCHANGE_PROBABILITY])


def order(first: Genome, second: Genome, rng: Random) -> Children:
    """Exchange the genes between two cuts, which may be at the ends of the genome."""
    start, stop = sorted(rng.sample(range(len(first) + 1), 2))
    return exchange(first, second, range(start, stop))


def segment(first: Genome, second: Genome, rng: Random) -> Children:
    """Exchange `SEGMENT_LENGTH` neighbouring genes, fewer if that would be the whole genome."""
    n = len(first)
    length = max(1, min(SEGMENT_LENGTH, n - 1))
    start = rng.randrange(n - length + 1)
    return exchange(first, second, range(start, start + length))


CROSSOVERS: Mapping[str, Crossover] = MappingProxyType(
    {"single_point": single_point, "multi_point": multi_point, "uniform": uniform, "order": order, "segment": segment}
)


Mutation = Callable[[Genome, Sizes, float, Random], Genome]

STAGNATION_GENERATIONS = 10
"""Generations without improvement at which the stagnation term reaches 1."""

SWAP_OPERATOR_PROBABILITY = 0.3
"""Share of categorical mutations that use `swap`."""


def adaptive_rate(base: float, low: float, high: float, diversity: float, stagnant: int) -> float:
    """Return the adaptive mutation rate, which rises with stagnation and falls with diversity.

    ``diversity`` D is the share of distinct genomes in the population; ``stagnant`` is the number of generations since
    the best score rose.
    """
    stagnation = min(stagnant / STAGNATION_GENERATIONS, 1.0)  # S
    rate = base + (high - base) * ((1.0 - diversity) + stagnation) / 2.0  # base + (max - base) ((1 - D) + S) / 2
    return min(max(rate, low), high)


def per_gene(genome: Genome, sizes: Sizes, rate: float, rng: Random) -> Genome:
    """Mutate each variable gene with probability ``rate``."""
    return redraw(genome, sizes, [i for i in variable_genes(sizes) if rng.random() < rate], rng)


def swap(genome: Genome, sizes: Sizes, rate: float, rng: Random) -> Genome:
    """Redraw two or three random genes."""
    genes = variable_genes(sizes)
    if not draw_mutation(len(genes), rate, rng):
        return genome
    return redraw(genome, sizes, sorted(rng.sample(genes, min(rng.randint(2, 3), len(genes)))), rng)


def inversion(genome: Genome, sizes: Sizes, rate: float, rng: Random) -> Genome:
    """Redraw two to four neighbouring genes among the variable ones."""
    genes = variable_genes(sizes)
    if not draw_mutation(len(genes), rate, rng):
        return genome
    length = min(rng.randint(2, 4), len(genes))
    start = rng.randrange(len(genes) - length + 1)
    return redraw(genome, sizes, genes[start : start + length], rng)


def categorical(genome: Genome, sizes: Sizes, rate: float, rng: Random) -> Genome:
    """Apply `swap` with probability `SWAP_OPERATOR_PROBABILITY` and `per_gene` otherwise."""
    operator = swap if rng.random() < SWAP_OPERATOR_PROBABILITY else per_gene
    return operator(genome, sizes, rate, rng)


def composite(genome: Genome, sizes: Sizes, rate: float, rng: Random) -> Genome:
    """Apply a random operator."""
    return rng.choice((per_gene, categorical, swap, inversion))(genome, sizes, rate, rng)


def variable_genes(sizes: Sizes) -> list[int]:
    """Return the positions of the genes with more than one option."""
    return [i for i, size in enumerate(sizes) if size > 1]


def draw_mutation(genes: int, rate: float, rng: Random) -> bool:
    """Draw whether a genome with ``genes`` variable genes mutates."""
    return rng.random() < 1.0 - (1.0 - rate) ** genes


def redraw(genome: Genome, sizes: Sizes, positions: Iterable[int], rng: Random) -> Genome:
    """Replace the option at each of ``positions`` by another one, drawn uniformly."""
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
