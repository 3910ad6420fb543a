"""The callbacks of a run, and the state that its phases share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.racing import RaceResult
from ragsmith.gateway.budget import Spent
from ragsmith.models.served.provider import ProviderActivity
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space
from ragsmith.records.objectives import LatencyOf
from ragsmith.records.record import RunRecord, RunSettings
from ragsmith.runs.search_loop import SeenCandidates
from ragsmith.store.store import ProposalRow, Store
from ragsmith.types import Example

Pulse = Callable[[], tuple[ProviderActivity, Spent]]
"""Returns the current activity of providers and the spending so far."""


@dataclass(frozen=True, slots=True)
class Start:
    """The beginning of a run; ``steps`` is the largest number of steps, None if unknown."""

    setup: Experiment
    space: Space
    steps: int | None
    pulse: Pulse


@dataclass(frozen=True, slots=True)
class Step:
    """A completed step of a run."""

    phase: str
    number: int
    evaluated: int
    best: float | None = None
    best_candidate: Candidate | None = None


@dataclass(frozen=True)
class Callbacks:
    """Functions called at the start, after each step, and with the number of answers done and due in a step."""

    on_start: Callable[[Start], None] | None = None
    on_step: Callable[[Step], None] | None = None
    on_progress: Callable[[int, int], None] | None = None


TIME_LIMIT_REACHED = "the time limit is reached: the same command goes on"


@dataclass
class RunContext:
    """The inputs of a run, the candidates seen so far, and the record of its findings.

    ``stopped`` says at which limit the run stopped, "" if at none. ``stores_proposals`` is whether proposals are stored
    as they come, which they are not while a finished run is repeated. ``within`` is the key of the run that this one is
    part of. ``tested`` are the evaluations on the test questions.
    """

    key: str
    setup: Experiment
    space: Space
    store: Store
    settings: RunSettings
    evaluator: Evaluator
    record: RunRecord
    latency_of: LatencyOf
    callbacks: Callbacks
    now: Callable[[], float]
    within: str = ""
    stopped: str = ""
    stores_proposals: bool = True
    proposals: list[ProposalRow] = field(default_factory=list)
    tested: list[Evaluation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.seen = SeenCandidates(self.settings.fitness, self.settings.may_miss)
        self.started = self.now()

    @cached_property
    def search_order(self) -> list[Example]:
        """The search questions in the order of the race."""
        searched = {example.id for example in self.setup.split.search}
        return [self.setup.examples[question] for question in self.setup.order if question in searched]

    def update(self, **fields: Any) -> None:
        """Set fields of the record."""
        self.record = replace(self.record, **fields)

    def evaluate(self, candidates: Sequence[Candidate]) -> list[Evaluation]:
        """Evaluate candidates on all search questions, outside a race."""
        found = self.evaluator.evaluate(candidates, self.setup.split.search)
        self.seen.add([RaceResult.of_finished(evaluation) for evaluation in found])
        return found

    def report(self, step: Step) -> None:
        """Call the callback for steps."""
        if self.callbacks.on_step:
            self.callbacks.on_step(step)

    def is_late(self) -> bool:
        """Whether the time limit is reached.

        Replaying stored results does not count: with a limit shorter than the replay, a run would never end.
        """
        limit = self.settings.time_limit
        has_computed = self.evaluator.computed + self.evaluator.timings > 0
        return limit is not None and self.now() - self.started >= limit and has_computed


def timestamp(seconds: float) -> str:
    """Seconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
