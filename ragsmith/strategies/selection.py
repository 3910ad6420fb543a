"""Selection of parents from a population.

DEAP's ``selTournament`` and ``selRoulette`` draw from the global ``random``, and the latter needs positive fitness.
Only its ``selBest`` is used, which is deterministic and stable. An individual without a score has DEAP's empty,
"invalid" fitness, which compares below every other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from deap import base

from ragsmith.strategies.strategy import Genome


class IndividualFitness(base.Fitness):  # type: ignore[misc]  # DEAP is untyped
    """A score to maximise and costs to minimise; a class, as ``deap.creator`` would register one globally."""

    def __init__(self, score: float | None, costs: Sequence[float] = ()) -> None:
        self.weights = (1.0, *(-1.0 for _ in costs))
        super().__init__(() if score is None else (score, *costs))


@dataclass(frozen=True, slots=True, eq=False)
class Individual:
    """A member of a population: a genome and its fitness."""

    genome: Genome
    fitness: IndividualFitness

    @classmethod
    def from_score(cls, genome: Genome, score: float | None, costs: Sequence[float] = ()) -> Individual:
        """Create an individual from a score and costs; a score of None leaves the fitness invalid."""
        return cls(genome, IndividualFitness(score, costs))

    @property
    def score(self) -> float | None:
        """The score, or None."""
        return self.fitness.values[0] if self.fitness.valid else None


Members = Sequence[Individual]
Parents = tuple[Individual, ...]
Selection = Callable[[Members, int, Random], Parents]


def elite(population: Members, n: int, rng: Random | None = None) -> Parents:
    """Return the ``n`` best members, best first, ties in the order of the population; deterministic."""
    from deap import tools  # noqa: PLC0415  slow import, not needed to read a finished search

    return tuple(tools.selBest(population, n))


def tournament(population: Members, n: int, rng: Random, *, size: int = 3) -> Parents:
    """Run ``n`` tournaments among ``size`` distinct members each, or among the whole population if it is smaller."""

    def winner() -> Individual:
        drawn = sorted(rng.sample(range(len(population)), min(size, len(population))))
        return elite([population[i] for i in drawn], 1)[0]

    return tuple(winner() for _ in range(n))


def roulette(population: Members, n: int, rng: Random) -> Parents:
    """Draw ``n`` members with replacement, with probabilities proportional to their scores."""
    weights = compute_roulette_weights([member.score for member in population])
    return tuple(rng.choices(population, weights, k=n))


def rank(population: Members, n: int, rng: Random) -> Parents:
    """Draw ``n`` members with replacement, with probabilities proportional to their rank from the worst."""
    ordered = elite(population, len(population))
    return tuple(rng.choices(ordered, compute_rank_probabilities(len(ordered))[::-1], k=n))


def compute_roulette_weights(scores: Sequence[float | None]) -> list[float]:
    """Return the scores, shifted to a minimum of 0 if any is negative; members without a score have weight 0.

    If all weights are 0, scored members have equal weights; if no member has a score, all members have equal weights.
    """
    valid = [score for score in scores if score is not None]
    shift = min([0.0, *valid])
    weights = [0.0 if score is None else score - shift for score in scores]
    if any(weights):
        return weights
    return [1.0 if score is not None or not valid else 0.0 for score in scores]


def compute_rank_probabilities(n: int) -> list[float]:
    """Return the probabilities of linear ranking, worst first: p_r = r / (1 + 2 + ... + n) for r = 1 .. n."""
    return [2.0 * r / (n * (n + 1)) for r in range(1, n + 1)]


SELECTIONS: Mapping[str, Selection] = MappingProxyType(
    {"elite": elite, "tournament": tournament, "roulette": roulette, "rank": rank}
)
