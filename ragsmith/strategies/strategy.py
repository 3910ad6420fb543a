"""What a search strategy is: it proposes genomes, is told their scores, and remembers both.

A strategy decides and never evaluates. The whole loop outside is

    while batch := strategy.propose():
        strategy.tell(evaluate(batch))

Given the same scores it makes the same decisions, in whatever order or portions the scores arrive, so that a killed
search is resumed by replaying it on stored results.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Protocol

from ragsmith.errors import UsageError

Genome = tuple[int, ...]
"""The index of the chosen option for each gene, 0-based."""

Sizes = tuple[int, ...]
"""How many options each gene has, at least 1."""

Repair = Callable[[Genome], Genome]
"""Turns any genome into a feasible one and leaves a feasible one as it is: ``repair(repair(g)) == repair(g)``."""


def identity(genome: Genome) -> Genome:
    """The repair of a space in which every genome is feasible."""
    return genome


@dataclass(frozen=True, slots=True)
class Generation:
    """One step of a search after its scores were told. ``dataclasses.asdict`` of it is JSON-able.

    ``best`` and ``best_genome`` are of the whole search so far; ``mean`` is over the scored members of the population,
    each as often as it occurs; the three are None while nothing has a score. ``diversity`` is distinct genomes /
    population. ``mutation_rate`` is the rate the population was bred with: None where nothing was bred.
    ``evaluations`` counts the genomes this step proposed; ``stagnant`` the steps since ``best`` last rose.
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


class Strategy(Protocol):
    """Decides which genomes are evaluated next. It knows nothing about pipelines."""

    name: str
    history: list[Generation]

    def propose(self) -> tuple[Genome, ...]:
        """The next genomes to evaluate, distinct and in a fixed order; ``()`` when the search is over.

        None of them was told yet. Until all of a batch are told, the rest of it is proposed again.
        """
        ...

    def tell(self, scores: Mapping[Genome, float | None]) -> None:
        """Report scores (higher is better). None is a failed or incomplete evaluation: kept, and never a winner.

        A genome that was not proposed may be told too: it is then known and will not be proposed.
        """
        ...

    def best(self) -> tuple[Genome, float] | None:
        """The genome with the highest score, the first found of equals; None while nothing has a score."""
        ...


@dataclass(frozen=True, slots=True)
class Population:
    """Genomes a strategy wants scores for before it goes on; repeats and known ones cost nothing."""

    genomes: tuple[Genome, ...]
    mutation_rate: float | None = None


class SteppedSearch(ABC):
    """A `Strategy` written as a generator: ``steps`` yields a population and continues once its scores are known.

    What all strategies share is here: scores, the order of discovery, the history and the limit. A search is over when
    ``steps`` ends or ``max_evaluations`` distinct genomes were proposed; the last batch is cut to that limit.
    """

    name: str
    history: list[Generation]

    def __init__(self, sizes: Sizes, *, repair: Repair = identity, max_evaluations: int | None = None) -> None:
        if not sizes or min(sizes) < 1:
            raise UsageError(f"sizes {sizes} describe no search space: give every gene at least one option")
        if max_evaluations is not None and max_evaluations < 1:
            raise UsageError(f"max_evaluations is {max_evaluations}: give at least 1, or None for no limit")
        self.sizes = tuple(sizes)
        self.repair = repair
        self.max_evaluations = max_evaluations
        self.history = []
        self.scores: dict[Genome, float | None] = {}
        self._found: dict[Genome, int] = {}  # genome -> its place in the order of discovery, which breaks ties
        self._best: tuple[Genome, float] | None = None
        self._proposed = 0
        self._step: Population | None = None
        self._batch: tuple[Genome, ...] = ()

    @cached_property
    def _plan(self) -> Iterator[Population]:
        return self.steps()

    @abstractmethod
    def steps(self) -> Iterator[Population]:
        """Yield populations. On return from a yield, ``scores`` and ``history[-1]`` cover the population."""

    def propose(self) -> tuple[Genome, ...]:
        """See `Strategy.propose`."""
        while not (waiting := self._waiting()):
            self._record()
            if self._remaining() == 0 or (step := next(self._plan, None)) is None:
                return ()
            self._open(step)
        return waiting

    def tell(self, scores: Mapping[Genome, float | None]) -> None:
        """See `Strategy.tell`. Raises `UsageError` for a genome outside the space, NaN or a contradicting score."""
        for genome, score in scores.items():
            self._check(genome)
            self._check_score(genome, score)
        for genome in sorted(scores):  # not in the mapping's order: with several workers that is a matter of chance
            self._found.setdefault(genome, len(self._found))
            self._remember(genome, scores[genome])
        if self._step is not None and not self._waiting():
            self._record()

    def best(self) -> tuple[Genome, float] | None:
        """See `Strategy.best`."""
        return self._best

    def _open(self, step: Population) -> None:
        for genome in step.genomes:
            self._check(genome)
        fresh = tuple(genome for genome in dict.fromkeys(step.genomes) if genome not in self.scores)
        self._step, self._batch = step, fresh[: self._remaining()]
        self._proposed += len(self._batch)
        for genome in self._batch:
            self._found.setdefault(genome, len(self._found))

    def _waiting(self) -> tuple[Genome, ...]:
        return tuple(genome for genome in self._batch if genome not in self.scores)

    def _remaining(self) -> int | None:
        return None if self.max_evaluations is None else self.max_evaluations - self._proposed

    def _remember(self, genome: Genome, score: float | None) -> None:
        self.scores[genome] = score
        if score is None:
            return
        if self._best is None or (score, -self._found[genome]) > (self._best[1], -self._found[self._best[0]]):
            self._best = (genome, score)

    def _record(self) -> None:
        """Close the open step, if any: its scores are complete."""
        if (step := self._step) is None:
            return
        scored = [score for genome in step.genomes if (score := self.scores.get(genome)) is not None]
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
            )
        )
        self._step, self._batch = None, ()

    def _check(self, genome: Genome) -> None:
        options = zip(genome, self.sizes, strict=False)
        if len(genome) != len(self.sizes) or not all(0 <= gene < size for gene, size in options):
            raise UsageError(f"genome {genome} is outside the space {self.sizes}: give one option index per gene")

    def _check_score(self, genome: Genome, score: float | None) -> None:
        if score is not None and not math.isfinite(score):
            raise UsageError(f"the score of genome {genome} is {score}: tell a finite number, or None for a failure")
        known = self.scores.get(genome)
        if known is not None and score != known:
            raise UsageError(f"genome {genome} was told {known} and now {score}: a score is told once")


def random_genome(sizes: Sizes, rng: Random) -> Genome:
    """A genome drawn uniformly from the space."""
    return tuple(rng.randrange(size) for size in sizes)


def batches(genomes: Iterable[Genome], size: int) -> Iterator[Population]:
    """Cut a stream of genomes into steps of ``size``."""
    batch: list[Genome] = []
    for genome in genomes:
        batch.append(genome)
        if len(batch) == size:
            yield Population(tuple(batch))
            batch = []
    if batch:
        yield Population(tuple(batch))
