"""Breeding: selection of parents and generation of feasible children.

An infeasible child is repaired by reverting changed genes to those of the parent. Changing other genes instead would
bias the search towards the options that make a genome feasible.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from ragsmith.strategies.genomes import shuffle_space
from ragsmith.strategies.selection import Individual, Parents, Selection, elite
from ragsmith.strategies.strategy import Feasible, Genome, Sizes
from ragsmith.strategies.variation import Crossover, Mutation, per_gene

Breeding = Callable[[Sequence[Individual], Parents, int, Selection, Random], Parents]
"""A function (members, elites, number of parents, selection, generator) that selects parents."""


def select_from_elites(
    members: Sequence[Individual], elites: Parents, n: int, select: Selection, rng: Random
) -> Parents:
    """Select parents from the elites (Algorithm 1 of the paper); elite selection draws pairs of distinct elites."""
    if select is not elite:
        return select(elites, n, rng)
    pairs = [rng.sample(elites, 2) if len(elites) > 1 else [*elites, *elites] for _ in range(0, n, 2)]
    return tuple(parent for pair in pairs for parent in pair)[:n]


def select_from_members(
    members: Sequence[Individual], elites: Parents, n: int, select: Selection, rng: Random
) -> Parents:
    """Select parents from all members, as the code of the paper does."""
    return select(members, n, rng)


MAX_ATTEMPTS = 10
"""Maximum number of breeding attempts of a pair, and then of successive mutations of a parent."""

BREEDINGS: Mapping[str, Breeding] = MappingProxyType(
    {"elites": select_from_elites, "best": select_from_members, "known": select_from_members}
)


@dataclass(frozen=True, slots=True)
class OffspringGenerator:
    """Generator of feasible children by crossover and mutation."""

    sizes: Sizes
    feasible: Feasible
    cross: Crossover
    crossover_rate: float
    mutate: Mutation
    rng: Random

    def children(self, parents: Sequence[Genome], rate: float) -> list[Genome]:
        """Return as many children as parents: consecutive parents are paired, an odd last one is only mutated."""
        genomes, feasible = list(parents), self.feasible
        for i in range(0, len(genomes) - 1, 2):
            if self.rng.random() < self.crossover_rate:
                first, second = genomes[i : i + 2]
                first_child, second_child = self.cross(first, second, self.rng)
                pairs = (first, first_child), (second, second_child)
                genomes[i : i + 2] = [revert_infeasible(parent, child, feasible, self.rng) for parent, child in pairs]
        mutants = ((genome, self.mutate(genome, self.sizes, rate, self.rng)) for genome in genomes)
        return [revert_infeasible(genome, mutant, feasible, self.rng) for genome, mutant in mutants]

    def new_children(self, parents: Sequence[Genome], rate: float, known: Container[Genome]) -> list[Genome]:
        """Return as many distinct children as parents, none of them in ``known``; fewer if the space is exhausted.

        A pair is bred again until its children are new. After `MAX_ATTEMPTS`, a parent is mutated repeatedly, and
        finally a new genome is drawn uniformly.
        """
        children: dict[Genome, None] = {}
        for i in range(0, len(parents), 2):
            pair = parents[i : i + 2]
            candidates = (child for _ in range(MAX_ATTEMPTS) for child in self.children(pair, rate))
            new = (child for child in candidates if child not in known and child not in children)
            for _ in pair:
                child = next(new, None) or self._mutate_until_new(pair[0], known, children)
                if child is None:
                    return list(children)
                children[child] = None
        return list(children)

    def _mutate_until_new(self, parent: Genome, known: Container[Genome], children: Container[Genome]) -> Genome | None:
        genome, rate = parent, 1.0 / len(self.sizes)
        for _ in range(MAX_ATTEMPTS):
            mutant = per_gene(genome, self.sizes, rate, self.rng)
            genome = revert_infeasible(genome, mutant, self.feasible, self.rng)
            if genome not in known and genome not in children:
                return genome
        shuffled = shuffle_space(self.sizes, self.feasible, self.rng)
        return next((genome for genome in shuffled if genome not in known and genome not in children), None)


def revert_infeasible(parent: Genome, child: Genome, feasible: Feasible, rng: Random) -> Genome:
    """Return ``child`` if feasible, otherwise the feasible ``parent`` with as many of the child's genes as possible.

    Genes are applied in random order; a gene that is infeasible so far is tried again after the others.
    """
    if feasible(child):
        return child
    pending = [i for i, (old, new) in enumerate(zip(parent, child, strict=True)) if old != new]
    rng.shuffle(pending)
    genome, tried = parent, 0
    while tried < len(pending):
        i = pending.pop(0)
        changed = (*genome[:i], child[i], *genome[i + 1 :])
        if feasible(changed):
            genome, tried = changed, 0
        else:
            pending.append(i)
            tried += 1
    return genome
