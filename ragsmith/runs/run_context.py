"""The callbacks of a run, and the state that its phases share."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Literal

from ragsmith.comparison.questions import HoldoutUse
from ragsmith.digest import digest, fingerprint
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.latency import select_timed_questions
from ragsmith.evaluation.racing import RaceResult
from ragsmith.gateway.budget import Spent
from ragsmith.models.served.provider import ProviderActivity
from ragsmith.pipelines.genes import Candidate
from ragsmith.pipelines.space import Space
from ragsmith.records.objectives import LatencyOf, median_seconds
from ragsmith.records.record import HELD_OUT, RunRecord, RunSettings
from ragsmith.runs.recommended import knowledge_digest
from ragsmith.runs.search_loop import SeenCandidates
from ragsmith.store.store import LatencyRow, ProposalRow, Store
from ragsmith.strategies import STRATEGIES
from ragsmith.types import Example

StatusReader = Callable[[], tuple[ProviderActivity, Spent]]
"""Function that returns the current activity of providers and the spending so far."""


@dataclass(frozen=True, slots=True)
class Start:
    """The start of a run; ``steps`` is the maximum number of steps, None if unknown.

    ``look`` is the use of the test questions that a requested test will be, unless it repeats an earlier comparison.
    """

    setup: Experiment
    space: Space
    steps: int | None
    read_status: StatusReader
    look: HoldoutUse | None = None


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
    """Functions called at the start, after each step, and with the completed and total answers of a step.

    ``stop`` is called between answers, or several times a second: the run is paused if it returns True.
    """

    on_start: Callable[[Start], None] | None = None
    on_step: Callable[[Step], None] | None = None
    on_progress: Callable[[int, int], None] | None = None
    stop: Callable[[], bool] = lambda: False


TIME_LIMIT_REACHED = "the time limit is reached: the same command resumes the search"
"""The reason for stopping at the time limit."""


@dataclass
class RunContext:
    """The inputs of a run, the candidates seen so far, and the record of its findings.

    ``stopped`` names the limit at which the run stopped, "" if none. ``stores_proposals`` is False while a finished
    run is repeated: proposals are then stored at the end. ``within`` is the key of the run that this one is part of.
    ``tested`` are the evaluations on the test questions.
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
        self.forget_seen()
        self.started = self.now()

    def forget_seen(self) -> None:
        """Forget the candidates seen, so that the search is repeated from the results of the evaluator."""
        self.seen = SeenCandidates(self.settings.fitness, self.settings.max_failure_rate)
        self.proposals = []

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
        evaluations = self.evaluator.evaluate(candidates, self.setup.split.search)
        self.seen.add([RaceResult.from_evaluation(evaluation) for evaluation in evaluations])
        return evaluations

    def report(self, step: Step) -> None:
        """Report a completed step to the callback."""
        if self.callbacks.on_step:
            self.callbacks.on_step(step)

    def is_late(self) -> bool:
        """Whether the time limit is reached.

        Replaying stored results does not count: with a limit shorter than the replay, a run would never end.
        """
        limit = self.settings.time_limit
        evaluator = self.evaluator
        has_computed = evaluator.computed + evaluator.computed_rankings + evaluator.timings > 0
        return limit is not None and self.now() - self.started >= limit and has_computed


def timestamp(seconds: float) -> str:
    """Format seconds since 1970 as ISO 8601, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")


DECIDING_CODE = (
    ("ragsmith.strategies.strategy", "SteppedSearch"),
    ("ragsmith.strategies.strategy", "has_at_most"),
    ("ragsmith.evaluation.racing", "Races"),
    ("ragsmith.evaluation.ranking", "Terms"),
    ("ragsmith.evaluation.ranking", "rank_evaluations"),
    ("ragsmith.evaluation.ranking", "find_significantly_better"),
    ("ragsmith.evaluation.baselines", "list_probes"),
    ("ragsmith.runs.search_loop", "run_batches"),
    ("ragsmith.runs.search_loop", "warm_start"),
    ("ragsmith.runs.choice", "choose"),
    ("ragsmith.runs.choice", "simplify"),
    ("ragsmith.records.objectives", "compute_evaluation_costs"),
    ("ragsmith.records.front", "find_cheapest"),
    ("ragsmith.effects.recommending", "recommend_pipeline"),
    ("ragsmith.effects.recommending", "prior_for"),
    ("ragsmith.effects.corpus", "profile_corpus"),
    ("ragsmith.datasets.splits", "split"),
    ("ragsmith.datasets.splits", "stratify"),
)
"""Module and name of the code that decides the course of a run; keys of evaluations cover the code of answers."""


def run_key(setup: Experiment, space: Space, settings: RunSettings) -> str:
    """Return the key of a run."""
    # the time limit decides when a run pauses, test and noise what is said at its end, trust_judge whether it begins
    decided = {**asdict(replace(settings, time_limit=None)), "fitness": settings.fitness.identity}
    del decided["test"], decided["noise"], decided["trust_judge"]
    if settings.verdict == HELD_OUT:
        del decided["verdict"], decided["folds"]
    if settings.max_risk is None:
        del decided["max_risk"], decided["confidence"]
    if not settings.rankings_first:
        del decided["rankings_first"]
    fixed_split = setup.fixed_split
    parts = [sorted(e.id for e in part) for part in (fixed_split.search, fixed_split.test)] if fixed_split else []
    chosen = [settings.strategy, "exhaustive", *(["random"] if settings.control == "random" else [])]
    code = [*(fingerprint(*part) for part in DECIDING_CODE), *(STRATEGIES.parse(name).code for name in chosen)]
    if settings.max_risk is not None:
        code.append(fingerprint("ragsmith.runs.calibration", "calibrate_winner"))
    if settings.rankings_first:
        code.append(fingerprint("ragsmith.runs.rankings", "build_answer_search"))
    code.append(str(settings.genetic.evaluations))  # a property, which asdict omits
    knowledge = knowledge_digest() if settings.warm_start or settings.choose == "estimate" else ""
    models = [(variant.chunking_key, variant.loaded_models.ids()) for variant in setup.variants]
    scoring = models, [measure.identity for measure in setup.measures]
    signals = {gene.technique.identity: gene for genes in space.options for gene in genes if gene.technique.signals}
    weights = {
        name: setup.general_weights(gene).plain()
        for name, gene in sorted(signals.items())
        if not setup.lacks_weights(gene)
    }
    return digest(
        "run",
        setup.data_digest(gene for genes in space.options for gene in genes),
        *scoring,
        space.digest,
        decided,
        code,
        knowledge,
        *([weights] if weights else []),
        *parts,
    )


class Latencies:
    """Measured seconds per question of pipelines on one kind of machine."""

    def __init__(self, evaluator: Evaluator, store: Store, machine: str, order: Sequence[str]) -> None:
        """``order`` has the questions in the order of the race."""
        self._evaluator = evaluator
        self._store = store
        self._machine = machine
        self._order = order
        self._failed: dict[tuple[str, str], LatencyRow] = {}

    def get_median(self, evaluation: Evaluation) -> float | None:
        """Return the median over the questions of `select_timed_questions`, or None if one fails.

        A question that failed in an earlier run is tried again, one that failed in this run is not.
        """
        key = evaluation.key
        rows = self._store.latencies([key], self._machine)[key]
        questions = select_timed_questions(self._order, evaluation.records)
        for question in questions:
            if question not in rows or rows[question].state == "failed":
                rows[question] = self._failed.get((key, question)) or self._measure(evaluation, question)
            if rows[question].state == "failed":
                return None
        return median_seconds(rows, questions)

    def _measure(self, evaluation: Evaluation, question: str) -> LatencyRow:
        timing = self._evaluator.measure_seconds(evaluation.candidate, question)
        state: Literal["ok", "failed"] = "failed" if isinstance(timing, dict) else "ok"
        row = self._store.put_latency(LatencyRow(evaluation.key, self._machine, question, state, timing))
        if row.state == "failed":
            self._failed[evaluation.key, question] = row
        return row
