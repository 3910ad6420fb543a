"""The warm start of a search, and the loop that races the proposals of a strategy.

The warm start is the baselines, the recommended pipeline, and every option alone; the strategy observes
all of them, and any of them may win. All scores of a run are on common terms: a question that failed for every pipeline
is excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ragsmith.errors import SpaceError
from ragsmith.evaluation.baselines import BASELINES, baseline, list_probes
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.racing import RaceResult, Races
from ragsmith.evaluation.ranking import Terms
from ragsmith.pipelines.genes import Candidate, describe_changes
from ragsmith.pipelines.space import Space
from ragsmith.records.record import ProbeRecord
from ragsmith.strategies.strategy import Costs, Genome, Observation, Pruned, SteppedSearch
from ragsmith.types import Example

if TYPE_CHECKING:  # the evaluator does not affect decisions, and is in no fingerprint
    from ragsmith.evaluation.evaluation import Evaluation
    from ragsmith.evaluation.evaluator import Evaluator


CostsOf: TypeAlias = "Callable[[Evaluation], Costs | None]"
"""Function that returns the costs of a pipeline by objective; None if unknown."""

MIN_QUESTIONS_FOR_REPEATS = 10
"""Minimum number of search questions for which pipelines with equal results count as repeats."""


class SeenCandidates:
    """The candidates that a run has evaluated on the search questions, and by key those that were pruned."""

    def __init__(self, fitness: Fitness, max_failure_rate: float) -> None:
        self.evaluations: list[Evaluation] = []
        self.dropped: dict[str, Pruned] = {}
        self._finished: set[str] = set()
        self._rules = fitness, max_failure_rate

    @property
    def terms(self) -> Terms:
        """The terms of the comparison of all candidates seen so far."""
        return self.terms_of(self.evaluations)

    def terms_of(self, evaluations: Sequence[Evaluation]) -> Terms:
        """Return the terms of the comparison of ``evaluations``."""
        return Terms.from_evaluations(evaluations, *self._rules)

    def add(self, raced: Sequence[RaceResult]) -> None:
        """Add race results; a candidate that finishes in another race was not pruned."""
        self.evaluations += [one.evaluation for one in raced]
        self._finished |= {one.evaluation.key for one in raced if not one.dropped}
        dropped = self.dropped | {one.evaluation.key: one.dropped for one in raced if one.dropped}
        self.dropped = {key: one for key, one in dropped.items() if key not in self._finished}

    def observe(self, raced: Mapping[Genome, RaceResult]) -> dict[Genome, Observation]:
        """Return the observations of candidates for a strategy, on the current terms."""
        terms = self.terms
        return {genome: result.dropped or terms.score(result.evaluation) for genome, result in raced.items()}


@dataclass(frozen=True, slots=True)
class ProposalBatch:
    """The proposals of one step of a strategy, with their race results and observations."""

    step: int
    genomes: Sequence[Genome]
    raced: Sequence[RaceResult]
    observations: Sequence[Observation]


def run_batches(
    strategy: SteppedSearch,
    races: Races,
    candidate_of: Callable[[Genome], Candidate],
    known: Mapping[Genome, RaceResult],
    seen: SeenCandidates,
    costs_of: CostsOf | None = None,
) -> Iterator[ProposalBatch]:
    """Race the proposals of ``strategy``, batch by batch, until it is done; it observes the ``known`` candidates first.

    With several objectives, ``costs_of`` gives the costs of a pipeline that finished any question.

    Raises:
        BudgetExhausted: in the middle of a batch, which the strategy does not observe.
    """
    races.add_finished(finished_evaluations(known.values()))
    _observe(strategy, seen.observe(known), (), known, costs_of)
    behaviours = {one.behaviour for one in known.values()}
    while genomes := strategy.propose():
        step = len(strategy.history)
        raced = races.run([candidate_of(genome) for genome in genomes])
        seen.add(raced)
        results = dict(zip(genomes, raced, strict=True))
        observations = seen.observe(results)
        repeats = _find_repeats(zip(genomes, raced, strict=True), behaviours)
        _observe(
            strategy, observations, repeats if races.questions >= MIN_QUESTIONS_FOR_REPEATS else (), results, costs_of
        )
        yield ProposalBatch(step, genomes, raced, list(observations.values()))


def _observe(
    strategy: SteppedSearch,
    observations: Mapping[Genome, Observation],
    repeats: Collection[Genome],
    results: Mapping[Genome, RaceResult],
    costs_of: CostsOf | None,
) -> None:
    """Pass observations to a strategy; a candidate with unknown costs has no score."""
    if costs_of is None:
        strategy.tell(observations, repeats)
        return
    computed = {genome: costs_of(one.evaluation) for genome, one in results.items() if one.evaluation.records}
    costs = {genome: known for genome, known in computed.items() if known is not None}
    scored = {
        genome: None if genome in computed and genome not in costs else one for genome, one in observations.items()
    }
    strategy.tell(scored, repeats, costs)


def _find_repeats(batch: Iterable[tuple[Genome, RaceResult]], behaviours: set[str]) -> list[Genome]:
    """Return the genomes of ``batch`` whose behaviour is in ``behaviours``; new behaviours are added."""
    repeats = []
    for genome, result in batch:
        if result.behaviour in behaviours and (result.dropped or result.evaluation.complete):
            repeats.append(genome)
        behaviours.add(result.behaviour)
    return repeats


def finished_evaluations(raced: Iterable[RaceResult]) -> list[Evaluation]:
    """Return the evaluations of the candidates that were not pruned."""
    return [result.evaluation for result in raced if not result.dropped]


@dataclass(frozen=True, slots=True)
class WarmStart:
    """The keys of the ``baselines`` and of the ``recommended`` pipeline, and all race results."""

    baselines: Mapping[str, str]
    recommended: str | None
    probes: tuple[ProbeRecord, ...]
    raced: Sequence[tuple[Candidate, RaceResult]]

    def within(self, space: Space) -> dict[Genome, RaceResult]:
        """Return the race results of candidates in ``space``, by genome."""
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
    """Evaluate the baselines and the ``recommended`` pipeline, and race the ``probes``, each option in naive RAG.

    Combinations of parameters of another system race among themselves: the best is wanted even if it is behind ours.
    """
    rivals = [space.with_default_settings(baseline(name)) for name in BASELINES] + (
        [recommended] if recommended else []
    )
    evaluations = evaluator.evaluate(rivals, questions)
    if not space.system:
        races.add_finished(evaluations)
    single = list_probes(space) if probes else []
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
                describe_changes(probe.candidate, probe.reference),
            )
            for probe in single
        ),
        [
            *zip(rivals, map(RaceResult.from_evaluation, evaluations), strict=True),
            *zip(distinct.values(), raced.values(), strict=True),
        ],
    )


def _identity(candidate: Candidate) -> tuple[str, ...]:
    return tuple(gene.identity for gene in candidate)


def _genome(candidate: Candidate, space: Space) -> Genome | None:
    """Return the genome of ``candidate``, or None if the space lacks one of its options, or forbids it."""
    try:
        genome = space.genome(candidate)
    except SpaceError:
        return None
    return genome if space.is_feasible(genome) else None
