"""What a run evaluates: first the warm start, then what a strategy proposes, until that is done.

The warm start is the baselines, the pipeline recommended, and every option alone; the strategy observes all of it, and
any of it may win. All scores of a run are on common terms: a question that failed for every pipeline is excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ragsmith.errors import SpaceError
from ragsmith.evaluation.baselines import BASELINES, baseline, probes_of
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.racing import RaceResult, Races
from ragsmith.evaluation.ranking import Terms
from ragsmith.pipelines.differences import difference
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space
from ragsmith.records.record import ProbeRecord
from ragsmith.strategies.strategy import Costs, Genome, Pruned, Strategy, Told
from ragsmith.types import Example

if TYPE_CHECKING:  # how evaluations are come by decides nothing, and is in no fingerprint
    from ragsmith.evaluation.evaluation import Evaluation
    from ragsmith.evaluation.evaluator import Evaluator


CostsOf: TypeAlias = "Callable[[Evaluation], Costs | None]"
"""What a pipeline costs by each objective beside quality; None where that is not known."""

FEWEST_TO_TELL = 10
"""Search questions below which two pipelines that do the same may well differ on others, and both count."""


class SeenCandidates:
    """The candidates that a run has evaluated on the search questions, and by key those that were pruned."""

    def __init__(self, fitness: Fitness, may_miss: float) -> None:
        self.evaluations: list[Evaluation] = []
        self.dropped: dict[str, Pruned] = {}
        self._finished: set[str] = set()
        self._on = fitness, may_miss

    @property
    def terms(self) -> Terms:
        """The terms on which all candidates seen so far are compared."""
        return self.terms_of(self.evaluations)

    def terms_of(self, evaluations: Sequence[Evaluation]) -> Terms:
        """The terms on which these are compared."""
        return Terms.of(evaluations, *self._on)

    def add(self, raced: Sequence[RaceResult]) -> None:
        """Record race results; a candidate that another search loop lets finish was not pruned."""
        self.evaluations += [one.evaluation for one in raced]
        self._finished |= {one.evaluation.key for one in raced if not one.dropped}
        dropped = self.dropped | {one.evaluation.key: one.dropped for one in raced if one.dropped}
        self.dropped = {key: one for key, one in dropped.items() if key not in self._finished}

    def told(self, raced: Mapping[Genome, RaceResult]) -> dict[Genome, Told]:
        """The observations that a strategy gets of candidates, on the terms of the moment."""
        terms = self.terms
        return {genome: one.dropped or terms.score(one.evaluation) for genome, one in raced.items()}


@dataclass(frozen=True, slots=True)
class ProposalBatch:
    """What a strategy proposed in one step, and what it was told of it."""

    step: int
    genomes: Sequence[Genome]
    raced: Sequence[RaceResult]
    told: Sequence[Told]


def batches(
    strategy: Strategy,
    races: Races,
    candidate_of: Callable[[Genome], Candidate],
    known: Mapping[Genome, RaceResult],
    met: SeenCandidates,
    costs_of: CostsOf | None = None,
) -> Iterator[ProposalBatch]:
    """Race what ``strategy`` proposes, batch by batch, until it is done; it is told of those ``known`` first.

    Where there are several objectives, ``costs_of`` says what a pipeline costs that finished anything.

    Raises:
        BudgetExhausted: in the middle of a batch, of which nothing is told then.
    """
    races.add_finished(finishers(known.values()))
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
        yield ProposalBatch(step, genomes, raced, list(told.values()))


def _tell(
    strategy: Strategy,
    told: Mapping[Genome, Told],
    repeats: Collection[Genome],
    found: Mapping[Genome, RaceResult],
    costs_of: CostsOf | None,
) -> None:
    """Give a strategy its observations; a candidate whose costs are not known has no score."""
    if costs_of is None:
        strategy.tell(told, repeats)
        return
    asked = {genome: costs_of(one.evaluation) for genome, one in found.items() if one.evaluation.records}
    costs = {genome: known for genome, known in asked.items() if known is not None}
    weighed = {genome: None if genome in asked and genome not in costs else one for genome, one in told.items()}
    strategy.tell(weighed, repeats, costs)


def _repeats(batch: Iterable[tuple[Genome, RaceResult]], behaviours: set[str]) -> list[Genome]:
    """Those of ``batch`` that did what one of ``behaviours`` is; the others are added to them."""
    repeats = []
    for genome, one in batch:
        if one.behaviour in behaviours and (one.dropped or one.evaluation.complete):
            repeats.append(genome)
        behaviours.add(one.behaviour)
    return repeats


def finishers(raced: Iterable[RaceResult]) -> list[Evaluation]:
    """The evaluations of those that met all questions."""
    return [one.evaluation for one in raced if not one.dropped]


@dataclass(frozen=True, slots=True)
class WarmStart:
    """What was found: ``baselines`` and ``recommended`` by key of their evaluation, and all that was ``raced``."""

    baselines: Mapping[str, str]
    recommended: str | None
    probes: tuple[ProbeRecord, ...]
    raced: Sequence[tuple[Candidate, RaceResult]]

    def within(self, space: Space) -> dict[Genome, RaceResult]:
        """Those that are in ``space``, by genome."""
        found = ((_genome(candidate, space), one) for candidate, one in self.raced)
        return {genome: one for genome, one in found if genome is not None}


def warm_start(
    evaluator: Evaluator,
    races: Races,
    questions: Sequence[Example],
    space: Space,
    recommended: Candidate | None,
    *,
    probes: bool,
) -> WarmStart:
    """Evaluate the baselines and what is ``recommended``, and race the ``probes``: each option alone in naive RAG."""
    rivals = [space.settled(baseline(name)) for name in BASELINES] + ([recommended] if recommended else [])
    evaluations = evaluator.evaluate(rivals, questions)
    races.add_finished(evaluations)
    single = probes_of(space) if probes else []
    pairs = [candidate for probe in single for candidate in (probe.candidate, probe.reference)]
    distinct = {_identity(candidate): candidate for candidate in pairs}
    raced = dict(zip(distinct, races.run(list(distinct.values()), answering=True), strict=True))

    def key_of(candidate: Candidate) -> str:
        return raced[_identity(candidate)].evaluation.key

    return WarmStart(
        {name: evaluation.key for name, evaluation in zip(BASELINES, evaluations, strict=False)},
        evaluations[-1].key if recommended else None,
        tuple(
            ProbeRecord(
                probe.gene.technique.family,
                str(probe.gene),
                key_of(probe.candidate),
                key_of(probe.reference),
                difference(probe.candidate, probe.reference),
            )
            for probe in single
        ),
        [
            *zip(rivals, map(RaceResult.of_finished, evaluations), strict=True),
            *zip(distinct.values(), raced.values(), strict=True),
        ],
    )


def _identity(candidate: Candidate) -> tuple[str, ...]:
    return tuple(gene.identity for gene in candidate)


def _genome(candidate: Candidate, space: Space) -> Genome | None:
    """The genome of ``candidate``; None where the space lacks one of its options, or forbids it."""
    try:
        genome = space.genome(candidate)
    except SpaceError:
        return None
    return genome if space.is_feasible(genome) else None
