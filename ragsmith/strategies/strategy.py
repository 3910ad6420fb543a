"""The base class of search strategies, and what they know of a space.

A strategy decides and never evaluates. The whole loop outside is

    while batch := strategy.propose():
        strategy.tell(evaluate(batch))

Given the same scores it makes the same decisions, in whatever order or portions the scores arrive, so that a killed
search is resumed by replaying it on stored results.
"""

from __future__ import annotations

import math
import warnings
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

from ragsmith.errors import Notice, UsageError

Genome = tuple[int, ...]
"""The index of the chosen option for each gene, 0-based."""

Sizes = tuple[int, ...]
"""How many options each gene has, at least 1."""

Feasible = Callable[[Genome], bool]
"""Whether a genome may be evaluated at all."""

Prior = Callable[[Sequence[Genome]], tuple[NDArray[np.float64], NDArray[np.float64]]]
"""A prior over genomes: the expected fitness of each, up to a common constant, and its standard deviation."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """The observation of a candidate that a race pruned after so many questions.

    ``estimate`` is a rough fitness, with its standard ``error``, and never a score: the candidate can neither win nor
    be an elite.
    """

    questions: int
    estimate: float
    error: float


Told = float | Pruned | None
"""The observation of a genome: a score (higher is better), or that it was pruned; None if it failed."""


IDLE_STEPS = 1000
"""Populations in a row in which every genome is known, after which a search ends."""

Costs = tuple[float, ...]
"""What a genome costs, lower is better: a number for each further objective."""

NO_COSTS: Mapping[Genome, Costs] = MappingProxyType({})


def anything(genome: Genome) -> bool:
    """The rule of a space in which nothing is forbidden."""
    return True


def has_at_most(n: int, sizes: Sizes, feasible: Feasible) -> bool:
    """Whether a space has no more than ``n`` feasible genomes."""
    return sum(1 for _ in islice(filter(feasible, product(*map(range, sizes))), n + 1)) <= n


@dataclass(frozen=True, slots=True)
class Generation:
    """One step of a search after its scores were reported. ``dataclasses.asdict`` of it is JSON-able.

    ``best`` and ``best_genome`` are of the whole search so far; ``mean`` is over the scored members of the population,
    each as often as it occurs; the three are None while nothing has a score. ``diversity`` is distinct genomes /
    population. ``mutation_rate`` is the rate the population was bred with: None where nothing was bred.
    ``evaluations`` counts the genomes this step proposed; ``stagnant`` the steps since ``best`` last rose. ``by`` names
    the strategy that proposed it, or its part.
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
    """Genomes a strategy wants scores for before it goes on; repeats and known ones cost nothing."""

    genomes: tuple[Genome, ...]
    mutation_rate: float | None = None
    by: str = ""


class SteppedSearch(ABC):
    """A search written as a generator: ``steps`` yields a population and continues once its scores are known.

    What all strategies share is here: scores, the order of discovery, the history and the limit. A search is over when
    ``steps`` ends or ``max_evaluations`` genomes were proposed, repeats left out; the last batch is cut to that limit.
    It knows nothing about pipelines.
    """

    name: str = "search"
    named_errors: Callable[[], AbstractContextManager[None]] = nullcontext
    """Names the file of a user's own strategy in errors of its steps."""
    history: list[Generation]

    def __init__(
        self, sizes: Sizes, *, seed: int = 42, feasible: Feasible = anything, max_evaluations: int | None = None
    ) -> None:
        if not sizes or min(sizes) < 1:
            raise UsageError(f"sizes {sizes} describe no search space: give every gene at least one option")
        if max_evaluations is not None and max_evaluations < 1:
            raise UsageError(f"max_evaluations is {max_evaluations}: give at least 1, or None for no limit")
        self.sizes = tuple(sizes)
        self.feasible = feasible
        self.max_evaluations = max_evaluations
        self._rng = Random(seed)
        self.history = []
        self.told: dict[Genome, Told] = {}
        self.costs: dict[Genome, Costs] = {}
        self._found: dict[Genome, int] = {}  # genome -> its place in the order of discovery, which breaks ties
        self._best: tuple[Genome, float] | None = None
        self._proposed: set[Genome] = set()
        self._repeats: set[Genome] = set()
        self._step: Population | None = None
        self._batch: tuple[Genome, ...] = ()

    @cached_property
    def _plan(self) -> Iterator[Population]:
        return self.steps()

    @abstractmethod
    def steps(self) -> Iterator[Population]:
        """Yield populations of feasible genomes. On return from a yield, ``told`` and ``history[-1]`` cover them."""

    def propose(self) -> tuple[Genome, ...]:
        """The next genomes to evaluate, distinct and in a fixed order; ``()`` when the search is over.

        None has an observation yet. Until all of a batch have one, the rest of it is proposed again. The search ends
        after `IDLE_STEPS` populations in a row of known genomes.
        """
        for _ in range(IDLE_STEPS):
            if waiting := self._waiting():
                return waiting
            self._record()
            if self.remaining == 0:
                return ()
            with self.named_errors():
                step = next(self._plan, None)
            if step is None:
                return ()
            for genome in step.genomes:
                if len(genome) != len(self.sizes) or not all(
                    0 <= gene < size for gene, size in zip(genome, self.sizes, strict=True)
                ):
                    raise UsageError(f"the strategy {self.name} proposed {genome}, which is not in the space")
            self._open(step)
        words = f"the strategy {self.name} proposed nothing new {IDLE_STEPS:,} times in a row: the search ends here"
        warnings.warn(words, Notice, stacklevel=2)
        return ()

    def tell(
        self,
        scores: Mapping[Genome, Told],
        repeats: Collection[Genome] = (),
        costs: Mapping[Genome, Costs] = NO_COSTS,
    ) -> None:
        """Report observations. What failed or was pruned is remembered, and never wins.

        A genome that was not proposed may be reported, too: it is then known, may win, and will not be proposed. What
        is reported of a genome that is not feasible is passed over. ``repeats`` are proposed genomes that behave
        exactly as a known one: they do not count against the limit on evaluations. ``costs`` has those of every genome
        with a score, where there are several objectives; most strategies use the score alone.

        Raises:
            UsageError: a genome is outside the space, a number is not finite, or a score contradicts an earlier one.
        """
        for genome, told in scores.items():
            self._check(genome)
            self._check_told(genome, told)
        self.costs.update(costs)
        self._repeats.update(genome for genome in repeats if genome in self._proposed)
        for genome in sorted(scores):  # not in the mapping's order: with several workers that is a matter of chance
            if self.feasible(genome):
                self._found.setdefault(genome, len(self._found))
                self._remember(genome, scores[genome])
        if self._step is not None and not self._waiting():
            self._record()

    def best(self) -> tuple[Genome, float] | None:
        """The genome with the highest score, the first found of equals; None while nothing has a score."""
        return self._best

    def score(self, genome: Genome) -> float | None:
        """The score of a genome; None where it has none: unknown, failed or dropped."""
        told = self.told.get(genome)
        return None if isinstance(told, Pruned) else told

    @property
    def remaining(self) -> int | None:
        """How many genomes may still be proposed; None where there is no limit."""
        if self.max_evaluations is None:
            return None
        return self.max_evaluations - len(self._proposed) + len(self._repeats)

    def batch_of(self, size: int) -> int:
        """``size``, or as many genomes as may still be proposed."""
        return size if self.remaining is None else min(size, self.remaining)

    def in_batches(self, genomes: Iterable[Genome], size: int) -> Iterator[Population]:
        """Cut a stream of genomes into populations of ``size``, of what is not known and may still be proposed."""
        unknown = (genome for genome in genomes if genome not in self.told)
        while batch := tuple(islice(unknown, self.batch_of(size))):
            yield Population(batch)

    def _open(self, step: Population) -> None:
        fresh = tuple(genome for genome in dict.fromkeys(step.genomes) if genome not in self.told)
        self._step, self._batch = step, fresh[: self.remaining]
        self._proposed.update(self._batch)
        for genome in self._batch:
            self._found.setdefault(genome, len(self._found))

    def _waiting(self) -> tuple[Genome, ...]:
        return tuple(genome for genome in self._batch if genome not in self.told)

    def _remember(self, genome: Genome, told: Told) -> None:
        self.told[genome] = told
        if (score := self.score(genome)) is None:
            return
        if self._best is None or (score, -self._found[genome]) > (self._best[1], -self._found[self._best[0]]):
            self._best = (genome, score)

    def _record(self) -> None:
        """Close the open step, if any: its scores are complete."""
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

    def _check(self, genome: Genome) -> None:
        options = zip(genome, self.sizes, strict=False)
        if len(genome) != len(self.sizes) or not all(0 <= gene < size for gene, size in options):
            raise UsageError(f"genome {genome} is outside the space {self.sizes}: give one option index per gene")

    def _check_told(self, genome: Genome, told: Told) -> None:
        number = told.estimate if isinstance(told, Pruned) else told
        if number is not None and not math.isfinite(number):
            raise UsageError(f"the score of genome {genome} is {number}: tell a finite number, or None for a failure")
        known = self.score(genome)
        if known is not None and told != known:
            raise UsageError(f"genome {genome} was told {known} and now {told}: a score is told once")
