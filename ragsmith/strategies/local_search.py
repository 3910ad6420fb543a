"""Local search: what differs from the best known genomes in a single gene."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ragsmith.strategies.strategy import Feasible, Genome, Pruned, Sizes, Told


def best_known(told: Mapping[Genome, Told]) -> dict[Genome, float]:
    """The scores of the genomes that have one, the best first, and of equals the first told."""
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
