"""What is asked of a run, and what is kept of it besides results.

`RunRecord` is what the store has of a run, and `DatasetRecord` what it has of a data set. Both are written by ``plain``
and read by ``read``, here and nowhere else; everybody else uses their fields.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from ragsmith.comparison.clusters import Clusters
from ragsmith.comparison.looks import HoldoutUse
from ragsmith.datasets import splits
from ragsmith.datasets.groups import GAP
from ragsmith.datasets.splits import Leaks, Split, leaks, stratified
from ragsmith.digest import program
from ragsmith.errors import UsageError, WrongOption
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import OBJECTIVES, RETRIEVAL, Fitness
from ragsmith.evaluation.racing import Racing
from ragsmith.evaluation.ranking import MAY_MISS
from ragsmith.evaluation.threads import ComputedWork
from ragsmith.gateway.budget import NOTHING_SPENT, Price, Spent
from ragsmith.gateway.call_context import CallCounts
from ragsmith.gateway.leases import is_gone
from ragsmith.models.vector_address import AUTO, to_relative_address
from ragsmith.pipelines.space import Space
from ragsmith.records.reading import from_dict
from ragsmith.store.rows import RunRow, RunState
from ragsmith.strategies import PRESETS, STRATEGIES, Generation, GeneticSettings
from ragsmith.strategies.settings import check_choice, check_least
from ragsmith.strategies.strategy import Pruned
from ragsmith.techniques.user_code import ANYWHERE, Recorded, recorded

if TYPE_CHECKING:
    from ragsmith.store.store import Store


HELD_OUT, CROSSFIT = "held-out", splits.CROSSFIT
VERDICTS = {HELD_OUT: "on questions held out of the search", CROSSFIT: "on all, each held out of one of several"}
"""On which questions a verdict is based."""

WEIGHABLE = ("quality", "calls", "latency", "money")
"""What a search may weigh; all but quality are costs."""

MADE_OF = ("leader", "estimate")
"""Parts in the test of a run that nobody is compared with: what its winner was made of."""


def check_objective(name: str) -> None:
    """Raise `WrongOption` unless ``name`` is what may be tuned; what may be weighed is another option.

    Those who take one for the other are told which they want.
    """
    if name in OBJECTIVES:
        return
    weighed = ",".join(known for known in WEIGHABLE if known in re.split(r"\W+", f"{WEIGHABLE[0]},{name}"))
    meant = f"; what weighs quality against costs is --objectives {weighed}" if "," in weighed else ""
    raise WrongOption("objective", f"is {name!r}: give {' or '.join(OBJECTIVES)}{meant}")


@dataclass(frozen=True)
class RunSettings:
    """Everything that decides how a run goes, besides data, models and space."""

    strategy: str = "genetic"
    genetic: GeneticSettings = PRESETS["default"]
    seed: int = 42
    """Of every random choice of the search, whatever the strategy."""
    max_evaluations: int | None = None
    time_limit: float | None = None
    """Seconds after which the run pauses; it decides when a run pauses, not where it goes, and is not recorded."""
    fitness: Fitness = field(default_factory=Fitness)
    racing: Racing | None = field(default_factory=Racing)
    """How candidates are raced on the search questions; None lets each meet all of them."""
    warm_start: bool = True
    """Whether what other data sets taught names a pipeline to begin with, and to beat."""
    probes: bool = True
    """Whether to try, first, every option alone in naive RAG."""
    choose: str = "mean"
    """By what the winner is chosen: the highest ``mean``, or an ``estimate`` of what pipelines are worth."""
    simplify: bool = True
    """Whether to leave out of the pipeline that was chosen what does not pay."""
    control: str = "none"
    """``random`` for as many random candidates to compare with, raced alike; ``none`` for no such control."""
    may_miss: float = MAY_MISS
    """The share of questions that a candidate may fail on; those that fail for every candidate are not counted."""
    objectives: tuple[str, ...] = WEIGHABLE[:1]
    """What is weighed, in the order of `WEIGHABLE`. Beside others quality names the winner, and the rest a front."""
    price: Price | None = None
    """Of the model that is asked, where money is an objective."""
    machine: str | None = None
    """What kind of machine latency is measured on, where that is an objective."""
    measuring: str = ""
    """Digest of what else seconds depend on there: how models are asked, and the code that measures."""
    margin: float = 0.02
    """The fitness by which the cheapest pipeline that is compared with the winner may be behind it, and is not."""
    verdict: str = HELD_OUT
    """What is tested: the winner, on questions ``held-out``; or by ``crossfit`` the search itself, on all of them."""
    folds: int = 5
    """The searches of a crossfit, beside the one that names the winner."""

    def __post_init__(self) -> None:
        check_least("seed", self.seed, 0)
        if self.max_evaluations is not None:
            check_least("max_evaluations", self.max_evaluations, 1)
        if self.time_limit is not None and not self.time_limit > 0:
            raise WrongOption("time_limit", f"is {self.time_limit}: give seconds above 0")
        check_choice("rule to choose by", self.choose, {"estimate": None, "mean": None})
        check_choice("verdict", self.verdict, VERDICTS)
        check_least("folds", self.folds, 2)
        check_choice("control", self.control, {"none": None, "random": None})
        if not 0 <= self.may_miss < 1:
            raise WrongOption("may_miss", f"is {self.may_miss}: give a share from 0 up to, but not, 1")
        most = math.inf if self.fitness.file else 1.0  # a function of one's own may give any numbers
        if not 0 < self.margin < most:
            below = "" if self.fitness.file else " and below 1"
            raise WrongOption("margin", f"is {self.margin}: give a difference of fitness above 0{below}")
        self._check_objectives()

    def _check_objectives(self) -> None:
        named = ",".join(self.objectives)
        if self.objectives != tuple(name for name in WEIGHABLE if name in ("quality", *self.objectives)):
            meant = f"; what tunes {RETRIEVAL} alone is --objective {RETRIEVAL}" if RETRIEVAL in self.objectives else ""
            raise WrongOption(
                "objectives", f"are {named}: give quality, and after it any of calls, latency, money{meant}"
            )
        name = self.strategy_name
        # a record of a search by a user's own strategy can be read without its file: a search refuses unknown names
        if self.weighs and name in STRATEGIES and not STRATEGIES[name].weighs:
            able = ", ".join(known.name for known in STRATEGIES if known.weighs)
            raise WrongOption(
                "strategy", f"is {self.strategy}, which goes by quality alone: with {named} give one of {able}"
            )
        if self.weighs and self.racing:
            raise WrongOption(
                "race", f"drops what is behind in quality, which with {named} may be worth it: leave it out"
            )
        if name == "nsga2" and not self.weighs:
            raise WrongOption("strategy", "is nsga2, which weighs several objectives: give objectives, too")

    @property
    def timed(self) -> bool:
        """Whether pipelines are timed."""
        return "latency" in self.objectives

    @property
    def measured_on(self) -> str:
        """What latency is kept by; "" where it is no objective."""
        return f"{self.machine}, {self.measuring}" if self.machine else ""

    @classmethod
    def preset(cls, name: str) -> RunSettings:
        """The settings of a preset: the paper's search is neither raced nor begun with single options."""
        if name == "paper":
            return cls(
                genetic=PRESETS[name],
                racing=None,
                warm_start=False,
                probes=False,
                choose="mean",
                simplify=False,
            )
        return cls(genetic=PRESETS[name])

    @property
    def weighs(self) -> bool:
        """Whether there are other objectives beside quality."""
        return len(self.objectives) > 1

    @property
    def strategy_name(self) -> str:
        """The strategy without its options."""
        return self.strategy.partition("(")[0].strip()

    @property
    def steps(self) -> int | None:
        """How many steps the strategy takes at most; None if that is not known before."""
        bred = self.genetic.generations if self.strategy_name in ("genetic", "nsga2") else None
        return None if bred is None or self.max_evaluations is not None else bred + 1


@dataclass(frozen=True, slots=True)
class SearchedSpace:
    """The space of a run: how many pipelines it has, how many of them are feasible, and the options by family."""

    name: str
    digest: str
    size: int
    feasible: int
    options: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Division:
    """The ids of the questions that a run searched on and tested on, and the rule that told them apart.

    ``unused`` are in neither part. ``order`` has the search questions in the order in which candidates
    met them, ``gap`` is how many characters apart gold of the two parts was to be. ``groups`` are the test questions,
    and ``search_groups`` the search questions, by what links them.
    """

    rule: str
    search: tuple[str, ...]
    test: tuple[str, ...]
    unused: tuple[str, ...] = ()
    leaks: Leaks | None = None
    order: tuple[str, ...] = ()
    gap: int = GAP
    groups: Clusters | None = None
    search_groups: Clusters | None = None

    @classmethod
    def of(cls, setup: Experiment, divided: Split) -> Division:
        """What is kept of the split of the data set of ``setup``."""
        parts = divided.search, divided.test, divided.unused
        search, test, unused = (tuple(sorted(example.id for example in part)) for part in parts)
        order = tuple(example.id for example in stratified(divided.search))
        searched: Any = {"cuts": setup.cuts, "gap": setup.gap} if setup.searched else {}
        found = leaks(setup.dataset, divided, **searched)
        linked = [Clusters.of(setup.dataset, part) for part in (divided.test, divided.search)]
        return cls(divided.rule, search, test, unused, found, order, setup.gap, *linked)


@dataclass(frozen=True, slots=True)
class ProbeRecord:
    """An option that was switched on alone: the keys of that evaluation and of the one it is compared with."""

    family: str
    option: str
    key: str
    reference: str
    difference: str = ""


@dataclass(frozen=True, slots=True)
class ExcludedQuestion:
    """Why a question failed for every pipeline: the stage, the class and the words of the first failure."""

    stage: str
    kind: str
    error: str

    @classmethod
    def of(cls, failure: Mapping[str, Any]) -> ExcludedQuestion:
        """From the stored failure of a question."""
        return cls(failure["stage"], failure.get("kind", ""), failure["error"])

    def __str__(self) -> str:
        said = f"{self.stage}: {self.error}"
        return f"{self.kind}, {said}" if self.kind else said


@dataclass(frozen=True, slots=True)
class AblationStep:
    """The pipeline that was chosen without one of its genes, or one of what was left of it: the key of that evaluation.

    ``loss`` is what it is behind the chosen one, the mean over questions, and ``error`` the standard error of that;
    ``calls`` is what it saves a question. ``left_out`` says whether that was for good. Where only parameters
    went back to their defaults, ``instead`` is what the gene became.
    """

    family: str
    option: str
    key: str
    loss: float
    error: float
    calls: float
    left_out: bool = False
    instead: str = ""

    def taken(self, left_out: bool) -> AblationStep:
        """The same, with what became of it."""
        return replace(self, left_out=left_out)


@dataclass(frozen=True, slots=True)
class Fold:
    """One search of a crossfit: the key of its run, how many questions it searched on and left out, and its test.

    ``entrants`` has, by part in the comparison, the keys of what was evaluated on the ``test`` questions.
    """

    run: str
    searched: int
    unused: int
    test: tuple[str, ...]
    entrants: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class RunStatistics:
    """What the last command of a run did; ``computed`` and ``reused`` count answers (pipelines × questions).

    ``calls`` are those of each kind of model. ``spent`` is what all commands of the run sent to servers.
    """

    computed: int = 0
    reused: int = 0
    stages_requested: int = 0
    stages_computed: int = 0
    calls: Mapping[str, CallCounts] = field(default_factory=dict)
    spent: Spent = NOTHING_SPENT

    @classmethod
    def of(cls, computed: int, reused: int, work: ComputedWork | None, spent: Spent) -> RunStatistics:
        """From counts of answers, and the ``work``, None if no stage had to run."""
        stages = (work.stages_requested, work.stages_computed, work.calls) if work else ()
        return replace(cls(computed, reused, *stages), spent=spent)


@dataclass(frozen=True, slots=True)
class RunRecord:
    """What a run was asked to do and, as far as it got, what it found. Evaluations are named by their keys.

    ``models`` has the id of each role's model, ``model_names`` what was asked for. ``random`` are the random candidates
    in the order drawn; ``test`` has what was evaluated on the test questions, by its part in the comparison.
    ``imports`` are the files of one's own that it needs. ``process`` names the process that runs it, while it runs;
    ``vector_store`` is where vectors lay. ``no_winner`` says why there is none; ``aside`` has the failure of each
    question that failed for every pipeline, ``failed`` counts the answers that failed, and ``unfinished`` are the
    evaluations that an error cut off. ``dropped`` says where candidates left a race, and
    ``told`` are those that the strategy was told of before it began: they may win, too. ``leader`` has the highest
    mean of all, ``estimated`` the highest estimate, where something was expected, and ``removals`` are the genes that
    were left out of what was chosen of the two to see what they are worth: what is left of it is the winner. Where
    settings were searched over, chunks and models are those of the first option of each.
    ``recommended`` was named by what other data sets taught, before anything was evaluated. ``program`` is the digest
    of the program that ran. ``look`` is the look at the test questions that this was.
    ``folds`` are the searches of a crossfit, and ``within`` is,
    of each of them, the key of the run that they are part of.
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
    imports: tuple[Recorded, ...] = ()
    vector_store: str = AUTO
    no_winner: str = ""
    aside: Mapping[str, ExcludedQuestion] = field(default_factory=dict)
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

    @classmethod
    def begun(cls, setup: Experiment, space: Space, settings: RunSettings, split: Split) -> RunRecord:
        """The record of a run that has been asked for and has done nothing yet."""
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
            replace(settings, time_limit=None),
            setup.loaded_models.ids(),
            setup.models.to_dict(),
            setup.chunk_size,
            Division.of(setup, split),
            imports=tuple(recorded(needed, ANYWHERE)),
            vector_store=to_relative_address(ANYWHERE, setup.models.vectors_at),
            chunk_overlap=setup.chunk_overlap,
            program=program(),
        )

    @property
    def tested(self) -> tuple[str, ...]:
        """The questions that the verdict is on: those of the test, or of all folds."""
        return tuple(sorted(question for fold in self.folds for question in fold.test)) or self.split.test

    @property
    def tested_groups(self) -> Clusters | None:
        """The same by what links them; None where nobody kept that."""
        if not self.folds or self.split.search_groups is None:
            return self.split.groups
        tested, searched = set(self.tested), self.split.search_groups
        groups = (tuple(question for question in group if question in tested) for group in searched.groups)
        return replace(searched, groups=tuple(group for group in groups if group))

    @property
    def strategy(self) -> str:
        """The strategy that searched: the one asked for, or the exhaustive one where the budget sufficed for that."""
        exhaustive = bool(self.history) and self.history[0].by == "exhaustive"
        return "exhaustive" if exhaustive else self.settings.strategy

    def plain(self) -> dict[str, Any]:
        """The record as the store keeps it."""
        kept = asdict(self)
        kept["settings"]["fitness"] = self.settings.fitness.plain()
        return kept

    @classmethod
    def read(cls, stored: Any) -> RunRecord:
        """The inverse of ``plain``.

        Raises:
            UsageError: it is no record of a run.
        """
        try:
            return from_dict(cls, stored, {Fitness: Fitness.read})
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise UsageError(
                f"a search in this cache has a record that cannot be read ({error}): give another cache with --cache"
            ) from error

    def state(self, stored: RunState) -> RunState:
        """The state of the run, which the store has as ``stored``; one whose process was killed is interrupted."""
        return "interrupted" if stored == "running" and is_gone(self.process) else stored


def searches(store: Store) -> list[RunRow]:
    """The runs of a store that are searches by themselves, and not part of one."""
    return [row for row in store.runs() if not (isinstance(row.value, dict) and row.value.get("within"))]


@dataclass(frozen=True, slots=True)
class DatasetRecord:
    """What the report says of a data set. ``questions`` has the type of each question, by its id.

    ``modalities`` has the kind of text that holds its evidence. ``coarse`` counts
    the questions whose gold is ranked as documents or sections. ``drafted`` are the ids of those that a machine wrote.
    ``asked`` has the text of each question, and ``references`` those reference answers that are there.
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
    def of(cls, setup: Experiment) -> DatasetRecord:
        """The record of the data set that ``setup`` searches on."""
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
    def read(cls, stored: Any) -> DatasetRecord:
        """The inverse of ``plain``."""
        return from_dict(cls, stored)

    def plain(self) -> dict[str, Any]:
        """The record as the store keeps it."""
        return asdict(self)
