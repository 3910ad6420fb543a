"""The settings of a run, and its record in the store (`RunRecord`) with that of its data set (`DatasetRecord`)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ragsmith.argument_types import check_fields
from ragsmith.cells import is_in_cell
from ragsmith.comparison.questions import Clusters, HoldoutUse
from ragsmith.datasets import splits
from ragsmith.datasets.groups import MAX_GAP
from ragsmith.datasets.splits import Leaks, Split, count_leaks, make_folds, stratify
from ragsmith.diagnosis.causes import MIN_GOOD_JUDGE_SCORE, good_score_threshold
from ragsmith.digest import not_fingerprinted, program_digest
from ragsmith.errors import WrongOption
from ragsmith.evaluation.experiment import FITTING_FOLDS, Experiment
from ragsmith.evaluation.fitness import OBJECTIVES, RETRIEVAL, Fitness
from ragsmith.evaluation.racing import Racing
from ragsmith.evaluation.ranking import MAX_FAILURE_RATE
from ragsmith.evaluation.selective import AnswerCounts
from ragsmith.evaluation.threads import ComputedWork
from ragsmith.gateway.budget import NOTHING_SPENT, Price, Spent
from ragsmith.gateway.call_context import CallCounts
from ragsmith.gateway.leases import is_gone
from ragsmith.measures.planted_answers import PlantedCheck
from ragsmith.models.vector_stores import AUTO, to_relative_address
from ragsmith.pipelines.genes import sort_names
from ragsmith.pipelines.space import Space
from ragsmith.store.rows import RunRow, RunState
from ragsmith.strategies import PRESETS, STRATEGIES, Generation, GeneticSettings
from ragsmith.strategies.settings import check_choice, check_minimum
from ragsmith.strategies.strategy import Pruned
from ragsmith.techniques.user_code import FILESYSTEM_ROOT, ImportRecord, record_imports
from ragsmith.text.restoring import restore, stored_by_other_code

if TYPE_CHECKING:
    from ragsmith.store.store import Store


HELD_OUT, CROSSFIT = "held-out", splits.CROSSFIT
VERDICTS = {HELD_OUT: "on questions held out of the search", CROSSFIT: "on all, each held out of one of several"}
"""The questions that a verdict may be based on, with descriptions for messages."""

SEARCH_OBJECTIVES = ("quality", "calls", "latency", "money")
"""The objectives of a search; all but quality are costs."""

WINNER_SOURCES = ("leader", "estimate", "calibrated")
"""Roles in the test of a run that are not compared with the winner: one of the two was derived from the other."""


def check_objective(name: str) -> None:
    """Raise `WrongOption` unless ``name`` can be tuned; the message suggests --objectives for several objectives."""
    if name in OBJECTIVES:
        return
    weighed = ",".join(
        known for known in SEARCH_OBJECTIVES if known in re.split(r"\W+", f"{SEARCH_OBJECTIVES[0]},{name}")
    )
    meant = f"; to weigh quality against costs, give --objectives {weighed}" if "," in weighed else ""
    raise WrongOption("objective", f"is {name!r}: give {' or '.join(OBJECTIVES)}{meant}")


@dataclass(frozen=True)
class RunSettings:
    """The settings that decide the course of a run, besides data, models and space."""

    strategy: str = "genetic"
    genetic: GeneticSettings = PRESETS["default"]
    seed: int = 42
    """The seed of every random choice of the search."""
    max_evaluations: int | None = None
    time_limit: float | None = None
    """Seconds after which the run pauses; it does not change the course of the run, and is not recorded."""
    fitness: Fitness = field(default_factory=Fitness)
    racing: Racing | None = field(default_factory=Racing)
    """How candidates race on the search questions (``race`` of `search`); None evaluates each on all of them."""
    warm_start: bool = True
    """Whether to begin with the pipeline recommended by effects on other data sets, and to compare with it."""
    probes: bool = True
    """Whether to evaluate every option alone in naive RAG first; not if ``rankings_first``."""
    rankings_first: bool | None = None
    """Whether rankings are searched first, and few pipelines answered; None if answers cost money."""
    choose: str = "mean"
    """Whether the winner has the highest ``mean``, or the highest ``estimate``."""
    simplify: bool = True
    """Whether to leave out genes of the chosen pipeline that are not worth their cost."""
    max_loss: float = 0.01
    """The loss of fitness, by the upper end of its interval, that simplification accepts."""
    control: str = "none"
    """``random`` to race as many random candidates for comparison; ``none`` for no such control."""
    max_failure_rate: float = MAX_FAILURE_RATE
    """The share of questions that a candidate may fail on, not counting those that fail for every candidate."""
    objectives: tuple[str, ...] = SEARCH_OBJECTIVES[:1]
    """The objectives in the order of `SEARCH_OBJECTIVES`: quality decides the winner, all of them the Pareto front."""
    price: Price | None = None
    """The price of the chat model, if money is an objective."""
    machine: str | None = None
    """The kind of machine that latency is measured on, if that is an objective."""
    measuring: str = ""
    """The digest of the options of models and of the measuring code, which latency depends on, too."""
    margin: float = 0.02
    """The non-inferiority margin, in fitness, of the cheapest pipeline in the final comparison."""
    verdict: str = HELD_OUT
    """Whether the winner is tested on ``held-out`` questions, or the search on all of them by ``crossfit``."""
    folds: int = 5
    """The number of folds of a crossfit, each with its own search."""
    test: bool | None = None
    """Whether to test: None only if none of the questions was looked at before, as the presets but quick have it. It
    does not change the course of the run, and is not recorded."""
    max_risk: float | None = None
    """The largest share of wrong answers among those given, to which the winner is calibrated; None for no limit."""
    confidence: float = 0.9
    """The confidence of the calibration to ``max_risk``."""
    noise: int = 20
    """The maximum number of test questions that the winner answers again if a chat model takes part; 0 for none."""
    trust_judge: bool = False
    """Whether to search with a judge that fails the check on planted answers; it does not change the course of the run,
    and is not recorded."""

    @not_fingerprinted
    def __post_init__(self) -> None:
        check_fields(self)
        check_minimum("seed", self.seed, 0)
        if self.max_evaluations is not None:
            check_minimum("max_evaluations", self.max_evaluations, 1)
        if self.time_limit is not None and not self.time_limit > 0:
            raise WrongOption("time_limit", f"is {self.time_limit}: give seconds above 0")
        check_choice("rule to choose by", self.choose, {"estimate": None, "mean": None})
        check_choice("verdict", self.verdict, VERDICTS)
        check_minimum("folds", self.folds, 2)
        check_minimum("noise", self.noise, 0)
        check_choice("control", self.control, {"none": None, "random": None})
        if not 0 <= self.max_failure_rate < 1:
            raise WrongOption("max_failure_rate", f"is {self.max_failure_rate}: give a share of at least 0 and below 1")
        most = math.inf if self.fitness.file else 1.0  # a user's fitness may have any range
        if not 0 < self.margin < most:
            below = "" if self.fitness.file else " and below 1"
            raise WrongOption("margin", f"is {self.margin}: give a difference of fitness above 0{below}")
        if not 0 <= self.max_loss < math.inf:
            raise WrongOption("max_loss", f"is {self.max_loss}: give a difference of fitness of at least 0")
        for name, share in (("max_risk", self.max_risk), ("confidence", self.confidence)):
            if share is not None and not 0 < share < 1:
                raise WrongOption(name, f"is {share}: give a share above 0 and below 1")
        if self.rankings_first and (
            self.is_multiobjective or self.fitness.ranking_only or not self.fitness.is_additive
        ):
            raise WrongOption("rankings_first", "needs a fitness that weighs R and G, and no further objectives")
        if self.max_risk is not None and self.fitness.ranking_only:
            raise WrongOption("max_risk", f"limits wrong answers, and --objective {RETRIEVAL} generates none: drop one")
        self._check_objectives()

    def _check_objectives(self) -> None:
        named = ",".join(self.objectives)
        if self.objectives != tuple(name for name in SEARCH_OBJECTIVES if name in ("quality", *self.objectives)):
            meant = f"; to tune {RETRIEVAL} alone, give --objective {RETRIEVAL}" if RETRIEVAL in self.objectives else ""
            raise WrongOption(
                "objectives", f"are {named}: give quality, and after it any of calls, latency, money{meant}"
            )
        name = self.strategy_name
        # a record of a search by a user's own strategy can be read without its file: a search refuses unknown names
        if self.is_multiobjective and name in STRATEGIES and not STRATEGIES[name].multi_objective:
            able = ", ".join(known.name for known in STRATEGIES if known.multi_objective)
            raise WrongOption(
                "strategy", f"is {self.strategy}, which optimises quality alone: with {named} give one of {able}"
            )
        if self.is_multiobjective and self.racing:
            raise WrongOption("race", f"prunes by quality alone, which is wrong with {named}: leave it out")
        if name == "nsga2" and not self.is_multiobjective:
            raise WrongOption("strategy", "is nsga2, which weighs several objectives: give objectives, too")

    @property
    def timed(self) -> bool:
        """Whether latency is an objective."""
        return "latency" in self.objectives

    @property
    def measured_on(self) -> str:
        """The key of stored latencies; "" if latency is no objective."""
        return f"{self.machine}, {self.measuring}" if self.machine else ""

    @classmethod
    def preset(cls, name: str) -> RunSettings:
        """Return the settings of a preset; the paper's has no races and no warm start, and quick no test."""
        if name == "paper":
            return cls(
                genetic=PRESETS[name],
                racing=None,
                warm_start=False,
                probes=False,
                choose="mean",
                simplify=False,
            )
        return cls(genetic=PRESETS[name], test=False if name == "quick" else None)

    @property
    def is_multiobjective(self) -> bool:
        """Whether there are objectives besides quality."""
        return len(self.objectives) > 1

    @property
    def strategy_name(self) -> str:
        """The name of the strategy, without its options."""
        return self.strategy.partition("(")[0].strip()

    @property
    def steps(self) -> int | None:
        """The largest number of steps of the strategy; None if it is not known in advance."""
        bred = self.genetic.generations if self.strategy_name in ("genetic", "nsga2") else None
        return None if bred is None or self.max_evaluations is not None else bred + 1


@dataclass(frozen=True, slots=True)
class SearchedSpace:
    """The space of a run: its number of pipelines, of feasible ones, and the options by family."""

    name: str
    digest: str
    size: int
    feasible: int
    options: Mapping[str, tuple[str, ...]]

    def includes(self, genome: Sequence[int]) -> bool:
        """Whether ``genome`` is of this space."""
        counts = [len(self.options[name]) for name in sort_names(self.options)]
        return len(genome) == len(counts) and all(0 <= n < count for n, count in zip(genome, counts, strict=True))


@dataclass(frozen=True, slots=True)
class Division:
    """The ids of the search and test questions of a run, and the rule that split them.

    ``unused`` are in neither part. ``order`` has the search questions in the order of the race, ``gap`` is the least
    distance in characters between gold of the two parts. ``groups`` and ``search_groups`` are clusters of test and
    search questions, and ``folds`` those of the search questions for estimates without a test.
    """

    rule: str
    search: tuple[str, ...]
    test: tuple[str, ...]
    unused: tuple[str, ...] = ()
    leaks: Leaks | None = None
    order: tuple[str, ...] = ()
    gap: int = MAX_GAP
    groups: Clusters | None = None
    search_groups: Clusters | None = None
    folds: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def from_split(cls, setup: Experiment, divided: Split) -> Division:
        """Create the record from the split ``divided`` of the data set of ``setup``."""
        parts = divided.search, divided.test, divided.unused
        search, test, unused = (tuple(sorted(example.id for example in part)) for part in parts)
        order = tuple(example.id for example in stratify(divided.search))
        searched: Any = {"cuts": setup.chunkings, "gap": setup.gap} if setup.searched else {}
        found = count_leaks(setup.dataset, divided, **searched)
        tested, searched_on = (Clusters.from_examples(setup.dataset, part) for part in (divided.test, divided.search))
        parted = make_folds(setup.dataset, divided.search, FITTING_FOLDS) if divided.search else []
        folds = tuple(tuple(sorted(example.id for example in part)) for part in parted)
        return cls(divided.rule, search, test, unused, found, order, setup.gap, tested, searched_on, folds)


@dataclass(frozen=True, slots=True)
class ProbeRecord:
    """An option alone: the keys of its evaluation and of the reference."""

    family: str
    option: str
    key: str
    reference: str
    difference: str = ""


@dataclass(frozen=True, slots=True)
class ExcludedQuestion:
    """A question that failed for every pipeline: stage, class and message of the first failure."""

    stage: str
    kind: str
    error: str

    @classmethod
    def from_failure(cls, failure: Mapping[str, Any]) -> ExcludedQuestion:
        """Create the record from the stored failure of a question."""
        return cls(failure["stage"], failure.get("kind", ""), failure["error"])

    def __str__(self) -> str:
        description = f"{self.stage}: {self.error}"
        return f"{self.kind}, {description}" if self.kind else description


@dataclass(frozen=True, slots=True)
class AblationStep:
    """A step of the simplification: the ``key`` of the evaluation of the pipeline without one of its genes.

    ``loss`` is the mean loss of fitness against the chosen pipeline on the search questions with gold, ``error`` its
    standard error by group, and ``bound`` the upper end of its one-sided interval, None with too few groups; ``calls``
    are those saved a question. ``left_out`` is whether the step was taken. If only parameters were reset, ``instead``
    is the new gene.
    """

    family: str
    option: str
    key: str
    loss: float
    error: float
    calls: float
    bound: float | None = None
    left_out: bool = False
    instead: str = ""

    def taken(self, left_out: bool) -> AblationStep:
        """Return the step with ``left_out`` set."""
        return replace(self, left_out=left_out)


@dataclass(frozen=True, slots=True)
class Fold:
    """One search of a crossfit: the key of its run, its numbers of search and unused questions, and its test.

    ``entrants`` has the keys of the evaluations on the ``test`` questions by role.
    """

    run: str
    searched: int
    unused: int
    test: tuple[str, ...]
    entrants: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RiskCalibration:
    """The calibration of the winner to a stated ``risk``, with a ``confidence``, on the search questions.

    ``whole`` counts the answers to these without declining, and ``calibrated`` those of the pipeline with the
    evaluation ``key``, which declines below a score of ``least``; ``tested`` counts its answers to the test questions.
    If no threshold keeps the risk, there is no such pipeline, and ``attainable`` is the least risk, in whole percent,
    that a threshold keeps.
    """

    risk: float
    confidence: float
    whole: AnswerCounts
    key: str = ""
    least: float | None = None
    calibrated: AnswerCounts | None = None
    tested: AnswerCounts | None = None
    attainable: float | None = None


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """The work of the last command of a run; ``computed`` and ``reused`` count answers (pipelines × questions).

    ``calls`` are by kind of model. ``spent`` is the spending of all commands of the run.
    """

    computed: int = 0
    reused: int = 0
    stages_requested: int = 0
    stages_computed: int = 0
    calls: Mapping[str, CallCounts] = field(default_factory=dict)
    spent: Spent = NOTHING_SPENT

    @classmethod
    def from_work(cls, computed: int, reused: int, work: ComputedWork | None, spent: Spent) -> RunStatistics:
        """Create statistics from counts of answers and the ``work``, None if no stage had to run."""
        stages = (work.stages_requested, work.stages_computed, work.calls) if work else ()
        return replace(cls(computed, reused, *stages), spent=spent)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The inputs of a run and its results so far; evaluations are named by their keys.

    - ``models``: ids by role; ``model_names``: the requested models; of the first option, if settings are searched
    - ``source``: the data set, as in `Dataset`; ``command``: the command line that started the search, if one did
    - ``in_memory``: whether it has functions that only the process that searched knows, as those of notebook cells
    - ``imports``: the user's files that it needs; ``vector_store``: the address of vectors; ``program``: its digest
    - ``process``: the process of a running search; ``within``: the run that the search of a fold belongs to
    - ``told``: the warm start that the strategy observed; ``recommended``: the recommended pipeline of that
    - ``dropped``: pruned candidates; ``random``: the random control, in order
    - ``leader``, ``estimated``: the highest mean, and the highest estimate if there is a prior
    - ``removals``: the steps from the chosen one of these to ``winner``; ``no_winner``: why there is none
    - ``test``: evaluations on the test questions by role; ``look``: their use; ``folds``: the searches of a crossfit
    - ``rankings``: the number of rankings that were searched before the answers
    - ``expected``: the spending in total that was last expected while the run sent requests
    - ``untested``: the look that was not taken, as there were earlier ones at its questions
    - ``excluded``: the failures of questions that failed for every pipeline; ``failed``: the number of failed answers
    - ``unfinished``: evaluations that an error interrupted
    - ``remarks``: sentences about models that cannot do their tasks, and the options that are left out for it
    - ``whole``: the key that the run has with all options
    - ``declining``: the calibration of the winner to a stated risk
    - ``noise``: the changes of F on test questions that the winner answered again
    - ``planted``: the check of the judge of search questions on planted answers, if it is a chat model
    - ``threshold``, ``test_threshold``: the least good score of the judge, and of that of test questions; 0: the same
    - ``test_keys``: with a test judge, the keys of the results on test questions by those of tested evaluations
    """

    space: SearchedSpace
    settings: RunSettings
    models: Mapping[str, str]
    model_names: Mapping[str, Any]
    chunk_size: int
    split: Division
    baselines: Mapping[str, str] = field(default_factory=dict)
    probes: tuple[ProbeRecord, ...] = ()
    history: tuple[Generation, ...] = ()
    random: tuple[str, ...] = ()
    winner: str | None = None
    test: Mapping[str, str] = field(default_factory=dict)
    account: RunStatistics = RunStatistics()
    process: str = ""
    imports: tuple[ImportRecord, ...] = ()
    vector_store: str = AUTO
    no_winner: str = ""
    excluded: Mapping[str, ExcludedQuestion] = field(default_factory=dict)
    failed: int = 0
    unfinished: tuple[str, ...] = ()
    dropped: Mapping[str, Pruned] = field(default_factory=dict)
    told: tuple[str, ...] = ()
    leader: str | None = None
    removals: tuple[AblationStep, ...] = ()
    recommended: str | None = None
    estimated: str | None = None
    chunk_overlap: int = 0
    program: str = ""
    look: HoldoutUse | None = None
    folds: tuple[Fold, ...] = ()
    within: str = ""
    untested: HoldoutUse | None = None
    declining: RiskCalibration | None = None
    threshold: float = MIN_GOOD_JUDGE_SCORE
    rankings: int = 0
    test_threshold: float = 0.0
    test_keys: Mapping[str, str] = field(default_factory=dict)
    expected: Spent = NOTHING_SPENT
    remarks: tuple[str, ...] = ()
    whole: str = ""
    noise: tuple[float, ...] = ()
    planted: PlantedCheck | None = None
    source: str = ""
    command: str = ""
    in_memory: bool = False

    @classmethod
    def create(cls, setup: Experiment, space: Space, settings: RunSettings, split: Split) -> RunRecord:
        """Return the record of a run at its start."""
        options = zip(space.names, space.options, strict=True)
        techniques = [gene.technique.fn for genes in space.options for gene in genes]
        needed = [
            *techniques,
            *(measure.fn for measure in setup.measures),
            *setup.models.factories(),
            STRATEGIES.parse(settings.strategy).fn,
        ]
        return cls(
            SearchedSpace(
                space.name,
                space.digest,
                space.size,
                space.feasible_size,
                {name: tuple(str(gene) for gene in genes) for name, genes in options},
            ),
            replace(settings, time_limit=None, test=None, trust_judge=False),
            setup.loaded_models.ids(),
            setup.models.to_dict(),
            setup.chunk_size,
            Division.from_split(setup, split),
            imports=tuple(record_imports(needed, FILESYSTEM_ROOT)),
            vector_store=to_relative_address(FILESYSTEM_ROOT, setup.models.vector_store_address),
            chunk_overlap=setup.chunk_overlap,
            program=program_digest(),
            source=setup.dataset.source,
            in_memory=any(map(is_in_cell, needed)) or bool(settings.fitness.digest and not settings.fitness.file),
            threshold=good_score_threshold(setup),
            test_threshold=good_score_threshold(setup, tested=True),
        )

    def key_on_test(self, key: str) -> str:
        """Return the key of the results of an evaluation on test questions; "" if a test judge scored none."""
        return self.test_keys.get(key, "") if "test_judge" in self.models else key

    @property
    def tested(self) -> tuple[str, ...]:
        """The questions of the verdict: those of the test, or of all folds."""
        return tuple(sorted(question for fold in self.folds for question in fold.test)) or self.split.test

    @property
    def tested_groups(self) -> Clusters | None:
        """The clusters of `tested`; None if they are not recorded."""
        if not self.folds or self.split.search_groups is None:
            return self.split.groups
        tested, searched = set(self.tested), self.split.search_groups
        groups = (tuple(question for question in group if question in tested) for group in searched.groups)
        return replace(searched, groups=tuple(group for group in groups if group))

    @property
    def strategy(self) -> str:
        """The strategy that searched: the requested one, or the exhaustive one if the budget sufficed."""
        exhaustive = bool(self.history) and self.history[0].by == "exhaustive"
        return "exhaustive" if exhaustive else self.settings.strategy

    @property
    def strategy_note(self) -> str:
        """A sentence that exhaustive search took the place of the requested strategy, or ""."""
        if self.strategy != "exhaustive" or self.settings.strategy_name == "exhaustive":
            return ""
        return (
            f"the strategy {self.settings.strategy} was replaced by exhaustive search, as the maximum number of "
            "evaluations suffices for all pipelines of the space: lower --max-evaluations, or give a larger --space"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the record for the store."""
        settings = {**asdict(self.settings), "fitness": self.settings.fitness.to_dict()}
        return {**asdict(self), "settings": settings}

    @classmethod
    def from_dict(cls, stored: Any, key: str = "") -> RunRecord:
        """Restore the record of the run ``key`` from the result of `to_dict`.

        Raises:
            UsageError: ``stored`` is no record of a run.
        """
        with stored_by_other_code("the record of a search", key and f"run:{key}"):
            return restore(cls, stored, {Fitness: Fitness.from_dict})

    def state(self, stored: RunState) -> RunState:
        """Return the state of the run, given the ``stored`` one; a run whose process was killed is interrupted."""
        return "interrupted" if stored == "running" and is_gone(self.process) else stored


def load_record(store: Store, run_key: str) -> RunRecord | None:
    """Return the record of a run, or None if it is not in the store."""
    row = store.run(run_key)
    return RunRecord.from_dict(row.value, row.key) if row else None


def list_searches(store: Store) -> list[RunRow]:
    """Return the runs of a store that are not the fold of another."""
    return [row for row in store.runs() if not (isinstance(row.value, dict) and row.value.get("within"))]


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """A data set for reports. By the id of a question, ``questions`` has its type, ``modalities`` the kind of text of
    its evidence, ``asked`` its text, and ``references`` its reference answer, if any.

    ``coarse`` counts the questions whose gold is whole documents or sections; ``drafted`` are the ids of those that a
    machine wrote.
    """

    title: str
    description: str
    documents: int
    chunks: int
    questions: Mapping[str, str]
    modalities: Mapping[str, str] = field(default_factory=dict)
    coarse: int = 0
    drafted: tuple[str, ...] = ()
    asked: Mapping[str, str] = field(default_factory=dict)
    references: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_experiment(cls, setup: Experiment) -> DatasetRecord:
        """Create the record of the data set of ``setup``."""
        data = setup.dataset
        return cls(
            data.title,
            data.description,
            len(data.documents),
            len(setup.corpus.chunks),
            {example.id: example.type for example in data.examples},
            {example.id: setup.modality(example) for example in data.examples},
            sum(bool(relevance.coarse) for relevance in setup.relevance.values()),
            tuple(example.id for example in data.examples if example.drafted),
            {example.id: example.question for example in data.examples},
            {example.id: example.answer for example in data.examples if example.answer},
        )

    @classmethod
    def from_dict(cls, stored: Any, digest: str = "") -> DatasetRecord:
        """Restore the record of the data set with this ``digest`` from the result of `to_dict`.

        Raises:
            UsageError: ``stored`` is no record of a data set.
        """
        with stored_by_other_code("the record of a data set", digest and f"dataset:{digest}"):
            return restore(cls, stored)

    def to_dict(self) -> dict[str, Any]:
        """Return the record for the store."""
        return asdict(self)
