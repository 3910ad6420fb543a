"""What a run evaluates before it searches: the baselines, the pipeline recommended, and every option alone.

All of it is told to the strategy, and may win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ragsmith.errors import SpaceError
from ragsmith.evaluation.baselines import BASELINES, baseline, probes_of
from ragsmith.evaluation.racing import Raced, Races
from ragsmith.pipelines.differences import difference
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space
from ragsmith.records.record import ProbeRecord
from ragsmith.strategies.strategy import Genome
from ragsmith.types import Example

if TYPE_CHECKING:  # how evaluations are come by is no part of where a search goes, nor of its fingerprint
    from ragsmith.evaluation.evaluator import Evaluator


@dataclass(frozen=True, slots=True)
class WarmStart:
    """What was found: ``baselines`` and ``recommended`` by key of their evaluation, and all that was ``raced``."""

    baselines: Mapping[str, str]
    recommended: str | None
    probes: tuple[ProbeRecord, ...]
    raced: Sequence[tuple[Candidate, Raced]]

    def within(self, space: Space) -> dict[Genome, Raced]:
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
    races.enter(evaluations)
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
            *zip(rivals, map(Raced.through, evaluations), strict=True),
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
