"""Breeding: choose parents, and make feasible children of them.

Of an infeasible child the genes that were just changed go back, and nothing else is ever changed: if other genes were
changed to fit, the options that they were changed to would be had more often than the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from ragsmith.strategies.genomes import shuffled_space
from ragsmith.strategies.selection import Individual, Parents, Selection, elite
from ragsmith.strategies.strategy import Feasible, Genome, Sizes
from ragsmith.strategies.variation import Crossover, Mutation, per_gene

Breeding = Callable[[Sequence[Individual], Parents, int, Selection, Random], Parents]
"""From the members of a population, its elites, the number of parents, and how they are selected: the parents."""


def from_elites(members: Sequence[Individual], elites: Parents, n: int, select: Selection, rng: Random) -> Parents:
    """Elites alone (Algorithm 1 of the paper); where the best are selected, two that differ at a time, at random."""
    if select is not elite:
        return select(elites, n, rng)
    pairs = [rng.sample(elites, 2) if len(elites) > 1 else [*elites, *elites] for _ in range(0, n, 2)]
    return tuple(parent for pair in pairs for parent in pair)[:n]


def from_members(members: Sequence[Individual], elites: Parents, n: int, select: Selection, rng: Random) -> Parents:
    """All members, elites or not (the paper's code)."""
    return select(members, n, rng)


ATTEMPTS = 10
"""How often a pair is bred for children that are new, and how far a parent is mutated on then."""

BREEDINGS: Mapping[str, Breeding] = MappingProxyType(
    {"elites": from_elites, "best": from_members, "known": from_members}
)


@dataclass(frozen=True, slots=True)
class OffspringGenerator:
    """Makes children of pairs of parents."""

    sizes: Sizes
    feasible: Feasible
    cross: Crossover
    crossover_rate: float
    mutate: Mutation
    rng: Random

    def children(self, parents: Sequence[Genome], rate: float) -> list[Genome]:
        """As many children as parents: neighbours are paired, and an odd last parent is mutated alone."""
        genomes, feasible = list(parents), self.feasible
        for i in range(0, len(genomes) - 1, 2):
            if self.rng.random() < self.crossover_rate:
                first, second = genomes[i : i + 2]
                one, other = self.cross(first, second, self.rng)
                pairs = (first, one), (second, other)
                genomes[i : i + 2] = [towards(parent, child, feasible, self.rng) for parent, child in pairs]
        mutants = ((genome, self.mutate(genome, self.sizes, rate, self.rng)) for genome in genomes)
        return [towards(genome, mutant, feasible, self.rng) for genome, mutant in mutants]

    def new_children(self, parents: Sequence[Genome], rate: float, known: Container[Genome]) -> list[Genome]:
        """As many children as parents, none of them known and each once; fewer if the space is used up.

        A pair is bred again for what is known; then a parent is mutated on until it is something new; and where that
        does not help either, any new genome will do, each equally likely.
        """
        found: dict[Genome, None] = {}
        for i in range(0, len(parents), 2):
            pair = parents[i : i + 2]
            bred = (child for _ in range(ATTEMPTS) for child in self.children(pair, rate))
            new = (child for child in bred if child not in known and child not in found)
            for _ in pair:
                child = next(new, None) or self._anything_new(pair[0], known, found)
                if child is None:
                    return list(found)
                found[child] = None
        return list(found)

    def _anything_new(self, parent: Genome, known: Container[Genome], found: Container[Genome]) -> Genome | None:
        genome, rate = parent, 1.0 / len(self.sizes)
        for _ in range(ATTEMPTS):
            mutant = per_gene(genome, self.sizes, rate, self.rng)
            genome = towards(genome, mutant, self.feasible, self.rng)
            if genome not in known and genome not in found:
                return genome
        every = shuffled_space(self.sizes, self.feasible, self.rng)
        return next((genome for genome in every if genome not in known and genome not in found), None)


def towards(parent: Genome, child: Genome, feasible: Feasible, rng: Random) -> Genome:
    """``child`` if it is feasible; or else ``parent``, which is, with all genes of the child's that it can take.

    They are taken in random order, and what cannot be taken yet is tried again after the others.
    """
    if feasible(child):
        return child
    waiting = [i for i, (old, new) in enumerate(zip(parent, child, strict=True)) if old != new]
    rng.shuffle(waiting)
    genome, tried = parent, 0
    while tried < len(waiting):
        i = waiting.pop(0)
        changed = (*genome[:i], child[i], *genome[i + 1 :])
        if feasible(changed):
            genome, tried = changed, 0
        else:
            waiting.append(i)
            tried += 1
    return genome
