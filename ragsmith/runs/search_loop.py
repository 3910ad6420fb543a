"""An arm of a run: a strategy proposes, its candidates race, and it is told what came of them, until it is done.

What the arms of one run have met is kept together: a question that failed for every pipeline of the run counts for
none, so everybody's scores are on the terms of all.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.racing import Raced, Races
from ragsmith.evaluation.ranking import Terms
from ragsmith.pipelines.genes import Candidate
from ragsmith.strategies.strategy import Costs, Dropped, Genome, Strategy, Told

if TYPE_CHECKING:  # how evaluations are come by is no part of where a search goes, nor of its fingerprint
    from ragsmith.evaluation.evaluation import Evaluation

CostsOf: TypeAlias = "Callable[[Evaluation], Costs | None]"
"""What a pipeline costs by each objective beside quality; None where that is not known."""

FEWEST_TO_TELL = 10
"""Search questions below which two pipelines that do the same may well differ on others, and both count."""


class SeenCandidates:
    """What a run has met on the search questions: everybody's evaluation, and who was dropped by key."""

    def __init__(self, fitness: Fitness, may_miss: float) -> None:
        """Nobody yet."""
        self.evaluations: list[Evaluation] = []
        self.dropped: dict[str, Dropped] = {}
        self._finished: set[str] = set()
        self._on = fitness, may_miss

    @property
    def terms(self) -> Terms:
        """On what terms everybody is compared at the moment."""
        return self.terms_of(self.evaluations)

    def terms_of(self, evaluations: Sequence[Evaluation]) -> Terms:
        """On what terms these are compared."""
        return Terms.of(evaluations, *self._on)

    def add(self, raced: Sequence[Raced]) -> None:
        """Note what came of candidates; one whom another arm lets finish was not dropped."""
        self.evaluations += [one.evaluation for one in raced]
        self._finished |= {one.evaluation.key for one in raced if not one.dropped}
        dropped = self.dropped | {one.evaluation.key: one.dropped for one in raced if one.dropped}
        self.dropped = {key: one for key, one in dropped.items() if key not in self._finished}

    def told(self, raced: Mapping[Genome, Raced]) -> dict[Genome, Told]:
        """What a strategy is told of candidates, on the terms of the moment."""
        terms = self.terms
        return {genome: one.dropped or terms.score(one.evaluation) for genome, one in raced.items()}


@dataclass(frozen=True, slots=True)
class Batch:
    """What a strategy proposed in one step, and what it was told of it."""

    step: int
    genomes: Sequence[Genome]
    raced: Sequence[Raced]
    told: Sequence[Told]


def batches(
    strategy: Strategy,
    races: Races,
    candidate_of: Callable[[Genome], Candidate],
    known: Mapping[Genome, Raced],
    met: SeenCandidates,
    costs_of: CostsOf | None = None,
) -> Iterator[Batch]:
    """Race what ``strategy`` proposes, batch by batch, until it is done; it is told of those ``known`` first.

    Where there are several objectives, ``costs_of`` says what a pipeline costs that finished anything.

    Raises:
        BudgetExhausted: in the middle of a batch, of which nothing is told then.
    """
    races.enter(finishers(known.values()))
    _tell(strategy, met.told(known), (), known, costs_of)
    behaviours = {one.behaviour for one in known.values()}
    while genomes := strategy.propose():
        step = len(strategy.history)
        raced = races.run([candidate_of(genome) for genome in genomes])
        met.add(raced)
        found = dict(zip(genomes, raced, strict=True))
        told = met.told(found)
        repeats = _repeats(zip(genomes, raced, strict=True), behaviours)
        _tell(strategy, told, repeats if races.questions >= FEWEST_TO_TELL else (), found, costs_of)
        yield Batch(step, genomes, raced, list(told.values()))


def _tell(
    strategy: Strategy,
    told: Mapping[Genome, Told],
    repeats: Collection[Genome],
    found: Mapping[Genome, Raced],
    costs_of: CostsOf | None,
) -> None:
    """Tell a strategy of candidates; one whose costs are not known cannot be weighed, and has no score for it."""
    if costs_of is None:
        strategy.tell(told, repeats)
        return
    asked = {genome: costs_of(one.evaluation) for genome, one in found.items() if one.evaluation.records}
    costs = {genome: known for genome, known in asked.items() if known is not None}
    weighed = {genome: None if genome in asked and genome not in costs else one for genome, one in told.items()}
    strategy.tell(weighed, repeats, costs)


def _repeats(batch: Iterable[tuple[Genome, Raced]], behaviours: set[str]) -> list[Genome]:
    """Those of ``batch`` that did what one of ``behaviours`` is; the others are added to them."""
    repeats = []
    for genome, one in batch:
        if one.behaviour in behaviours and (one.dropped or one.evaluation.complete):
            repeats.append(genome)
        behaviours.add(one.behaviour)
    return repeats


def finishers(raced: Iterable[Raced]) -> list[Evaluation]:
    """The evaluations of those that met all questions."""
    return [one.evaluation for one in raced if not one.dropped]
