"""The base class of search strategies.

A strategy proposes genomes and does not evaluate them. The search loop is

    while batch := strategy.propose():
        strategy.tell(evaluate(batch))

Proposals depend on the scores and not on the order in which they are reported, so that an interrupted search is resumed
by replaying stored results.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, product
from random import Random
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from ragsmith.errors import UsageError, warn_caller

Genome = tuple[int, ...]
"""The 0-based index of an option for each gene."""

Sizes = tuple[int, ...]
"""The number of options of each gene, at least 1."""

Feasible = Callable[[Genome], bool]
"""Whether a genome satisfies the constraints of the space."""

Prior = Callable[[Sequence[Genome]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""A prior over genomes: the expected fitness of each, up to a common constant, and its standard deviation."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """The observation of a candidate that a race pruned after ``questions`` questions.

    ``estimate`` is an estimate of the fitness with its standard ``error``. It is not a score: a pruned candidate can
    neither win nor be an elite.
    """

    questions: int
    estimate: float
    error: float


Observation = float | Pruned | None
"""The observation of a genome: a score (higher is better), `Pruned`, or None for a failure."""


MAX_IDLE_STEPS = 1000
"""Consecutive populations without a new genome after which a search ends."""

Costs = tuple[float, ...]
"""The value of each further objective of a genome; lower is better."""

NO_COSTS: Mapping[Genome, Costs] = MappingProxyType({})


def always_feasible(genome: Genome) -> bool:
    """Return True; the default for spaces without constraints."""
    return True


def has_at_most(n: int, sizes: Sizes, feasible: Feasible) -> bool:
    """Return whether a space has at most ``n`` feasible genomes."""
    return sum(1 for _ in islice(filter(feasible, product(*map(range, sizes))), n + 1)) <= n


@dataclass(frozen=True, slots=True)
class Generation:
    """Statistics of a step of a search; ``dataclasses.asdict`` returns a JSON-serialisable dict.

    ``best`` and ``best_genome`` cover the whole search so far; ``mean`` is over the scored members of the population,
    with repeats. All three are None while no genome has a score. ``diversity`` is the share of distinct genomes in the
    population. ``mutation_rate`` is None if the population was not bred. ``evaluations`` is the number of genomes
    proposed in this step, ``stagnant`` the number of steps since ``best`` last rose. ``by`` names the strategy, or its
    phase, that proposed the population.
    """

    number: int
    population: tuple[Genome, ...]
    best: float | None
    best_genome: Genome | None
    mean: float | None
    diversity: float
    mutation_rate: float | None
    evaluations: int
    stagnant: int
    by: str = ""


@dataclass(frozen=True, slots=True)
class Population:
    """Genomes whose scores a strategy needs for its next step; observed ones and repeats are not evaluated again."""

    genomes: tuple[Genome, ...]
    mutation_rate: float | None = None
    by: str = ""


class SteppedSearch(ABC):
    """Base class of searches written as generators: ``steps`` yields a population and continues after its evaluation.

    This class records the observations, the order of discovery and the history. A search ends when ``steps`` ends or
    when ``max_evaluations`` genomes were proposed, not counting repeats; the last batch is truncated to that limit.
    """

    name: str = "search"
    named_errors: Callable[[], AbstractContextManager[None]] = nullcontext
    """Context manager that adds the file of a user-defined strategy to errors in its steps."""
    history: list[Generation]

    def __init__(
        self, sizes: Sizes, *, seed: int = 42, feasible: Feasible = always_feasible, max_evaluations: int | None = None
    ) -> None:
        if not sizes or min(sizes) < 1:
            raise UsageError(f"sizes {sizes} are not a search space: give every gene at least one option")
        if max_evaluations is not None and max_evaluations < 1:
            raise UsageError(f"max_evaluations is {max_evaluations}: give at least 1, or None for no limit")
        self.sizes = tuple(sizes)
        self.feasible = feasible
        self.max_evaluations = max_evaluations
        self._rng = Random(seed)
        self.history = []
        self.observations: dict[Genome, Observation] = {}
        self.costs: dict[Genome, Costs] = {}
        self._discovery: dict[Genome, int] = {}  # rank in the order of discovery, for ties
        self._best: tuple[Genome, float] | None = None
        self._proposed: set[Genome] = set()
        self._repeats: set[Genome] = set()
        self._step: Population | None = None
        self._batch: tuple[Genome, ...] = ()

    @cached_property
    def _populations(self) -> Iterator[Population]:
        return self.steps()

    @abstractmethod
    def steps(self) -> Iterator[Population]:
        """Yield populations of feasible genomes; after a yield, ``observations`` and ``history[-1]`` cover them."""

    def propose(self) -> tuple[Genome, ...]:
        """Return the next genomes to evaluate, distinct and in a fixed order; ``()`` at the end of the search.

        Genomes of a batch without an observation are proposed again. The search ends after `MAX_IDLE_STEPS` consecutive
        populations without a new genome.
        """
        for _ in range(MAX_IDLE_STEPS):
            if unobserved := self._unobserved():
                return unobserved
            self._record()
            if self.remaining == 0:
                return ()
            with self.named_errors():
                step = next(self._populations, None)
            if step is None:
                return ()
            for genome in step.genomes:
                if len(genome) != len(self.sizes) or not all(
                    0 <= gene < size for gene, size in zip(genome, self.sizes, strict=True)
                ):
                    raise UsageError(f"the strategy {self.name} proposed {genome}, which is not in the space")
            self._open(step)
        message = (
            f"the strategy {self.name} proposed no new genome {MAX_IDLE_STEPS:,} times in a row: the search ends here"
        )
        warn_caller(message)
        return ()

    def tell(
        self,
        scores: Mapping[Genome, Observation],
        repeats: Collection[Genome] = (),
        costs: Mapping[Genome, Costs] = NO_COSTS,
    ) -> None:
        """Report observations.

        Genomes that were not proposed may be reported, too; they may win and will not be proposed. Observations of
        infeasible genomes are ignored. ``repeats`` are proposed genomes that are equivalent to an observed one: they
        do not count against the limit on evaluations. ``costs`` has the costs of every scored genome if there are
        several objectives.

        Raises:
            UsageError: a genome is outside the space, a number is not finite, or a score contradicts an earlier one.
        """
        for genome, observation in scores.items():
            self._check_genome(genome)
            self._check_observation(genome, observation)
        self.costs.update(costs)
        self._repeats.update(genome for genome in repeats if genome in self._proposed)
        for genome in sorted(scores):  # the order of the mapping may depend on the workers
            if self.feasible(genome):
                self._discovery.setdefault(genome, len(self._discovery))
                self._observe(genome, scores[genome])
        if self._step is not None and not self._unobserved():
            self._record()

    def best(self) -> tuple[Genome, float] | None:
        """Return the genome with the highest score, the first discovered of equals, or None without a score."""
        return self._best

    def score(self, genome: Genome) -> float | None:
        """Return the score of a genome; None if it is unobserved, failed or pruned."""
        observation = self.observations.get(genome)
        return None if isinstance(observation, Pruned) else observation

    @property
    def remaining(self) -> int | None:
        """The number of genomes that may still be proposed; None without a limit."""
        if self.max_evaluations is None:
            return None
        return self.max_evaluations - len(self._proposed) + len(self._repeats)

    def limit_batch_size(self, size: int) -> int:
        """Return ``size``, limited to the number of genomes that may still be proposed."""
        return size if self.remaining is None else min(size, self.remaining)

    def in_batches(self, genomes: Iterable[Genome], size: int) -> Iterator[Population]:
        """Yield the unobserved genomes in populations of ``size`` until the limit on evaluations."""
        unobserved = (genome for genome in genomes if genome not in self.observations)
        while batch := tuple(islice(unobserved, self.limit_batch_size(size))):
            yield Population(batch)

    def _open(self, step: Population) -> None:
        new = tuple(genome for genome in dict.fromkeys(step.genomes) if genome not in self.observations)
        self._step, self._batch = step, new[: self.remaining]
        self._proposed.update(self._batch)
        for genome in self._batch:
            self._discovery.setdefault(genome, len(self._discovery))

    def _unobserved(self) -> tuple[Genome, ...]:
        return tuple(genome for genome in self._batch if genome not in self.observations)

    def _observe(self, genome: Genome, observation: Observation) -> None:
        self.observations[genome] = observation
        if (score := self.score(genome)) is None:
            return
        if self._best is None or (score, -self._discovery[genome]) > (self._best[1], -self._discovery[self._best[0]]):
            self._best = (genome, score)

    def _record(self) -> None:
        """Append the current step, if any, to the history."""
        if (step := self._step) is None:
            return
        scored = [score for genome in step.genomes if (score := self.score(genome)) is not None]
        best_genome, best = self._best or (None, None)
        last = self.history[-1] if self.history else None
        self.history.append(
            Generation(
                number=len(self.history),
                population=step.genomes,
                best=best,
                best_genome=best_genome,
                mean=math.fsum(scored) / len(scored) if scored else None,
                diversity=len(set(step.genomes)) / len(step.genomes),
                mutation_rate=step.mutation_rate,
                evaluations=len(self._batch),
                stagnant=0 if last is None or best != last.best else last.stagnant + 1,
                by=step.by or self.name,
            )
        )
        self._step, self._batch = None, ()

    def _check_genome(self, genome: Genome) -> None:
        options = zip(genome, self.sizes, strict=False)
        if len(genome) != len(self.sizes) or not all(0 <= gene < size for gene, size in options):
            raise UsageError(f"genome {genome} is outside the space {self.sizes}: give one option index per gene")

    def _check_observation(self, genome: Genome, observation: Observation) -> None:
        number = observation.estimate if isinstance(observation, Pruned) else observation
        if number is not None and not math.isfinite(number):
            raise UsageError(f"the score of genome {genome} is {number}: report a finite number, or None for a failure")
        earlier = self.score(genome)
        if earlier is not None and observation != earlier:
            raise UsageError(
                f"genome {genome} has the score {earlier} and was reported with {observation}: report a score once"
            )
