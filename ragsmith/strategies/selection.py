"""Selection: which members of a population become parents.

DEAP's ``selTournament`` and ``selRoulette`` draw from the global ``random``, and the latter needs positive fitness.
Only its ``selBest`` is used, which draws nothing and keeps the first of equals first. An individual without a score has
DEAP's empty, "invalid" fitness, which compares below every other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from deap import base

from ragsmith.strategies.strategy import Genome


class Worth(base.Fitness):  # type: ignore[misc]  # DEAP is untyped
    """A score, to be maximised, and costs, to be minimised. A class of our own: ``deap.creator`` registers globally."""

    def __init__(self, score: float | None, costs: Sequence[float] = ()) -> None:
        self.weights = (1.0, *(-1.0 for _ in costs))
        super().__init__(() if score is None else (score, *costs))


@dataclass(frozen=True, slots=True, eq=False)
class Individual:
    """A member of a population: a genome and what it is worth."""

    genome: Genome
    fitness: Worth

    @classmethod
    def of(cls, genome: Genome, score: float | None, costs: Sequence[float] = ()) -> Individual:
        """``genome`` with its score and costs; None leaves the fitness empty."""
        return cls(genome, Worth(score, costs))

    @property
    def score(self) -> float | None:
        """The score, None when it has none."""
        return self.fitness.values[0] if self.fitness.valid else None


Population = Sequence[Individual]
Parents = tuple[Individual, ...]
Selection = Callable[[Population, int, Random], Parents]


def elite(population: Population, n: int, rng: Random | None = None) -> Parents:
    """The n best, best first; of equals the earlier in the population. Nothing is drawn."""
    from deap import tools  # noqa: PLC0415  takes longer to import than a search that has ended takes to be read

    return tuple(tools.selBest(population, n))


def tournament(population: Population, n: int, rng: Random, *, size: int = 3) -> Parents:
    """n times the best of ``size`` distinct members; the whole population when it is smaller."""

    def winner() -> Individual:
        drawn = sorted(rng.sample(range(len(population)), min(size, len(population))))
        return elite([population[i] for i in drawn], 1)[0]

    return tuple(winner() for _ in range(n))


def roulette(population: Population, n: int, rng: Random) -> Parents:
    """n draws with replacement, in proportion to the score."""
    weights = roulette_weights([member.score for member in population])
    return tuple(rng.choices(population, weights, k=n))


def rank(population: Population, n: int, rng: Random) -> Parents:
    """n draws with replacement, in proportion to the rank counted from the worst."""
    ordered = elite(population, len(population))
    return tuple(rng.choices(ordered, rank_probabilities(len(ordered))[::-1], k=n))


def roulette_weights(scores: Sequence[float | None]) -> list[float]:
    """The scores, shifted to start at 0 when one is negative. Members without a score weigh nothing.

    Where that leaves no weight at all, scored members weigh the same; where none is scored, all do.
    """
    known = [score for score in scores if score is not None]
    shift = min([0.0, *known])
    weights = [0.0 if score is None else score - shift for score in scores]
    if any(weights):
        return weights
    return [1.0 if score is not None or not known else 0.0 for score in scores]


def rank_probabilities(n: int) -> list[float]:
    """Linear ranking, worst first: p_r = r / (1 + 2 + ... + n) for r = 1 .. n."""
    return [2.0 * r / (n * (n + 1)) for r in range(1, n + 1)]


SELECTIONS: Mapping[str, Selection] = MappingProxyType(
    {"elite": elite, "tournament": tournament, "roulette": roulette, "rank": rank}
)
