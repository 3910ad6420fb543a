"""The data model of reports: frozen dataclasses of scores, comparisons and run metadata.

Scores are in [0, 1] unless a field says otherwise; intervals are 95 % bootstrap intervals over questions.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from ragsmith.comparison.advice import NextStep, role_to_take
from ragsmith.comparison.difference import Difference
from ragsmith.comparison.marked_answers import MarkedAnswers
from ragsmith.comparison.verdicts import Comparison
from ragsmith.diagnosis.ablation import Ablation
from ragsmith.diagnosis.diagnosed import GoldPassage, ReadPassage
from ragsmith.diagnosis.estimates import OptionEffect
from ragsmith.diagnosis.interventions import Ceiling
from ragsmith.display import short_repr
from ragsmith.evaluation.statistics import Verdict
from ragsmith.measures.judge_check import JudgeAccuracy
from ragsmith.records.record import DatasetRecord, ExcludedQuestion, RunRecord

RUN_CHARACTERS = 8
"""Number of characters of the key of a run that identify it in a command."""

_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def folder_of(dataset: str) -> str:
    """Return the name of the folder of a data set's report, which is a safe file name."""
    return dataset if _FOLDER.fullmatch(dataset) else "_" + _UNSAFE.sub("_", dataset)


@dataclass(frozen=True, slots=True)
class RunHeader:
    """The reported run and its data set; ``run`` is the key of the run, times are strings as stored.

    ``given`` is the data set as commands take it, a folder or a name, and ``cache`` the cache, "" for the default one.
    """

    dataset: str
    digest: str
    data: DatasetRecord
    run: str
    state: str
    started: str
    finished: str
    record: RunRecord
    given: str
    cache: str

    def command(self, verb: str, *options: str) -> str:
        """Return a command line on this run, for the folder in which the report was written."""
        place = ("--cache", self.cache) if self.cache else ()
        return shlex.join(["ragsmith", *verb.split(), "--dataset", self.given, *options, *place])

    def export(self, pick: str, output: str | None = None) -> str:
        """Return what exports the pipeline of this run with the role ``pick``, also after other runs.

        It is a command line, or a call for the session that the run needs; ``output`` is the file, `taken_file` if it
        is None, and "" for the default one.
        """
        file = self.taken_file if output is None else output
        calibrated = self.record.declining and self.record.declining.key  # it is exported by default
        named = {"pick": "" if pick == "winner" and not calibrated else pick, "run": self.run[:RUN_CHARACTERS]}
        named |= {"output": file, "cache": self.cache}
        if self.record.in_memory:
            return f"ragsmith.export({', '.join([repr(self.given), *(f'{k}={v!r}' for k, v in named.items() if v)])})"
        flags = zip(("--pick", "--run", "-o", "--cache"), named.values(), strict=True)
        return shlex.join(["ragsmith", "export", self.given, *(part for k, v in flags if v for part in (k, v))])

    def use(self, verb: str, file: str, *arguments: str) -> str:
        """Return what runs ``verb`` on the ``file`` of a pipeline, in the same folder: a command line or a call."""
        if not self.record.in_memory:
            return shlex.join(["ragsmith", verb, file, *arguments, *(("--cache", self.cache) if self.cache else ())])
        named = [
            f"{one[2:].partition('=')[0]}={one.partition('=')[2] or True!r}" if one.startswith("--") else repr(one)
            for one in (file, *arguments)
        ]
        called = "diagnose" if verb == "explain" and not arguments else verb
        return f"ragsmith.{called}({', '.join([*named, *([f'cache={self.cache!r}'] if self.cache else [])])})"

    @property
    def taken_file(self) -> str:
        """The file of the pipeline to take, as the commands of a report write and read it."""
        return f"take-{self.folder}.yaml"

    @property
    def winner_file(self) -> str:
        """The file of the winner that the search writes, from the folder in which it was started."""
        given = [part for one in shlex.split(self.record.command) for part in one.split("=", 1)]
        return f"{given[given.index('--reports') + 1] if '--reports' in given else 'reports'}/{self.folder}/winner.yaml"

    def repeat(self, *options: str, without: Sequence[str] = ()) -> str:
        """Return the command that repeats the search with ``options`` in a sentence; words if none started it.

        The values of ``options`` replace those of the search, whose options ``without`` are left out with their values.
        """
        if not self.record.command:
            return " ".join(["the same search", *(options and ("with", *options))])
        dropped = {*without, *(one.partition("=")[0] for one in options if "=" in one)}
        given = shlex.split(self.record.command)
        kept = [
            one
            for before, one in zip(["", *given], given, strict=False)  # a value may be an argument after its option
            if before not in dropped and one.partition("=")[0] not in dropped
        ]
        return f"`{shlex.join([*kept, *(one for one in options if one not in kept)])}`"

    @property
    def folder(self) -> str:
        """The name of the data set as a safe folder name without path separators."""
        return folder_of(self.dataset)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The failures of one stage with one type of exception; ``example`` is the first message.

    ``kind`` is the class of the failure, such as ``refused content``; records of early versions have none.
    """

    stage: str
    kind: str
    exception: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class ExcludedRow:
    """A question that is excluded because every pipeline failed on it."""

    question: str
    split: Literal["search", "test"]
    why: ExcludedQuestion


@dataclass(frozen=True, slots=True)
class ModelUsed:
    """A model of the run, with its role."""

    role: str
    id: str
    description: str


@dataclass(frozen=True, slots=True)
class Score:
    """A mean over questions, with an optional interval.

    ``n`` is the number of questions that have a value; None if all of them have.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Share:
    """How many ``of`` some questions are ``right``."""

    right: int
    of: int

    def __str__(self) -> str:
        """Return ``13 of 84``."""
        return f"{self.right:,} of {self.of:,}"


@dataclass(frozen=True, slots=True)
class GoodAnswerCounts:
    """How a pipeline answers the ``questions`` that all compared pipelines finished.

    ``well`` counts the questions with an answer whose answer the judge scored as good, or, if no answer is ``judged``,
    whose gold passages were all retrieved. ``least_good`` is the judge's least score of a good answer, or None.
    ``refused`` counts the questions with an answer that were declined, which is wrong, and ``declined`` those without
    one that were declined, which is right. ``cited`` is the mean share of the cited passages that hold gold; None if it
    was not measured. ``fitness`` is the mean over the questions with gold, which verdicts are based on.
    """

    questions: int
    least_good: float | None
    well: Share
    refused: Share
    declined: Share
    cited: float | None = None
    fitness: Score | None = None

    @property
    def judged(self) -> bool:
        """Whether answers were judged."""
        return self.least_good is not None


@dataclass(frozen=True, slots=True)
class Coverage:
    """The numbers of ``questions`` that were scored and that failed; the others were not attempted."""

    questions: int
    scored: int
    failed: int

    @property
    def attempted(self) -> int:
        """The number of questions that were scored or failed."""
        return self.scored + self.failed

    @property
    def complete(self) -> bool:
        """Whether every question has a score."""
        return self.scored == self.questions

    def __str__(self) -> str:
        """Return ``attempted = scored + failed``, such as ``70 = 70 + 0``, and the number not attempted if any."""
        left = self.questions - self.attempted
        text = f"{self.attempted} = {self.scored} + {self.failed}"
        return f"{text}, {left} not attempted" if left else text


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A pipeline on a set of questions: ``scores`` and ``usage`` are means over the questions that it finished.

    Both are empty if its failure rate is above the maximum. ``ranked_by`` is its fitness with failures imputed by the
    lowest score; None without failures on counted questions, then the fitness ranks it. ``shared`` is the number of
    genomes of the search with the same results. ``fitted`` has the numbers that techniques fitted on calibration
    questions, by family. ``latency_seconds`` is the latency per question, if the search measured it.
    """

    key: str
    label: str
    genes: Mapping[str, str]
    coverage: Coverage
    scores: Mapping[str, Score]
    usage: Mapping[str, float]
    shared: int = 1
    fitted: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    ranked_by: float | None = None
    latency_seconds: float | None = None

    __repr__ = short_repr

    @property
    def level(self) -> float:
        """The value that ranks it: ``ranked_by`` if there is one, else the fitness."""
        return self.scores["fitness"].mean if self.ranked_by is None else self.ranked_by


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The cheapest pipeline that the search questions show to be less than the margin behind the winner.

    ``calls`` and ``winner_calls`` are model calls per question. ``loss`` is how far it is behind in fitness on ``n``
    test questions, and ``verdict`` is that of the winner against it.
    """

    label: str
    calls: float
    winner_calls: float
    n: int
    loss: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Finalist:
    """A pipeline of the final comparison, with its results on search and test questions."""

    name: str
    title: str
    search: PipelineRow | None
    test: PipelineRow

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class ExtraEvaluations:
    """Numbers of pipelines that a search evaluated in addition to its proposals, each counted at its first evaluation.

    ``before`` the search: baselines, the recommended pipeline, and each option alone with its reference; ``drawn`` for
    the random-search control; to ``simplify`` the winner; and ``apart``, for the ablation of the winner.
    """

    before: int = 0
    drawn: int = 0
    simplify: int = 0
    apart: int = 0

    @property
    def total(self) -> int:
        """The sum of all four."""
        return self.before + self.drawn + self.simplify + self.apart


@dataclass(frozen=True, slots=True)
class FoldRow:
    """A fold of a crossfit: the numbers of questions searched on, unused and tested, and the winner of its search.

    ``fitness`` has the mean fitness on the questions of the fold, by role; it is empty without a winner.
    """

    searched: int
    unused: int
    tested: int
    winner: str
    fitness: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class OptionAlone:
    """An option switched on alone, on the search questions: in naive RAG, or in the pipeline ``against``.

    ``activity`` is the share of the ``compared`` questions whose stage output differs from the reference; ``calls`` the
    calls that it adds per question; ``change`` and ``retrieval`` the paired differences in fitness and in R.
    ``difference`` is the declared description of the change, if there is one.
    """

    compared: int
    activity: float | None
    calls: float | None
    change: Score | None
    retrieval: Score | None
    against: str = ""
    difference: str = ""

    @property
    def inert(self) -> bool:
        """Whether the stage output was the same on every compared question."""
        return self.activity == 0


@dataclass(frozen=True, slots=True)
class ProposalMeans:
    """Mean fitness of the proposed pipelines with and without an option; an observational comparison."""

    with_mean: float | None
    with_n: int
    without_mean: float | None
    without_n: int


@dataclass(frozen=True, slots=True)
class SpaceOption:
    """An option of the search space; ``probe`` is None for the options of naive RAG."""

    family: str
    name: str
    probe: OptionAlone | None
    effect: ProposalMeans


@dataclass(frozen=True, slots=True)
class GroupScores:
    """A pipeline on the ``n`` questions of a group: F, R and G, and its costs per question."""

    group: str
    pipeline: str
    n: int
    scores: Mapping[str, Score]
    costs: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """The result of a pipeline on a question.

    ``question`` is its id, ``text`` the question itself, and ``reference`` its reference answer. ``state`` is ``ok`` or
    ``failed``; for failures ``error`` has the message, and ``measures``, ``answer`` and ``retrieved`` are empty.
    ``measures`` has all defined measures, including F, R, G and model calls; ``retrieved`` has chunk ids, best first.
    ``cause`` is that of `QuestionOutcome`, "" for pipelines that were not diagnosed.
    """

    question: str
    text: str
    reference: str
    type: str
    modality: str
    split: Literal["search", "test"]
    pipeline: str
    state: str
    measures: Mapping[str, float]
    answer: str = ""
    retrieved: tuple[str, ...] = ()
    error: str = ""
    cause: str = ""

    __repr__ = short_repr


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """Scores and diagnosis of a pipeline on a question.

    ``scores`` has F, R and G as ``fitness``, ``retrieval`` and ``generation``, as far as they are defined; it is empty
    for failures. ``cause`` is a value of `ragsmith.diagnosis.causes.Cause`, explained in ``MEANINGS``, or "" without a
    diagnosis. ``read`` of the ``gold`` gold passages reached the generator.
    """

    scores: Mapping[str, float]
    cause: str = ""
    gold: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """A question of the run with the outcomes of the pipeline to take and of naive RAG.

    ``question`` is its id, and ``reference`` the reference answer. ``taken`` or ``naive`` is None if that pipeline was
    not evaluated on it. ``pipeline`` is the role of the first: of the winner if naive RAG is to be taken.
    """

    question: str
    type: str
    split: Literal["search", "test"]
    text: str
    reference: str
    taken: QuestionOutcome | None
    naive: QuestionOutcome | None
    pipeline: str = "winner"

    @property
    def named(self) -> str:
        """The text with the id, or the id alone if the text is unknown."""
        return f"{self.text} ({self.question})" if self.text else self.question

    @property
    def gain(self) -> float | None:
        """Fitness of the pipeline to take minus that of naive RAG; None if either is undefined."""
        both = [one.scores.get("fitness") if one else None for one in (self.taken, self.naive)]
        return None if both[0] is None or both[1] is None else both[0] - both[1]


@dataclass(frozen=True, slots=True)
class PipelineAnswer:
    """The answer of a pipeline and the passages of its prompt, in order.

    The answer is verbatim; "" for a failure. ``further`` is the number of omitted passages without gold.
    """

    answer: str
    passages: tuple[ReadPassage, ...]
    further: int = 0


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """An example question with both answers; ``question`` is the id of its `QuestionResult`.

    ``why`` is ``gained`` or ``lost`` (against naive RAG) or ``wrong`` (lowest fitness of the pipeline to take).
    ``gold`` are the gold passages, each with the stage of that pipeline that lost it, if any.
    """

    question: str
    why: Literal["gained", "lost", "wrong"]
    gold: tuple[GoldPassage, ...]
    taken: PipelineAnswer
    naive: PipelineAnswer


@dataclass(frozen=True, slots=True)
class CauseCounts:
    """Counts of the causes of the ``n`` diagnosed questions of a split, for a pipeline named as in `TITLES`.

    ``counts`` has the causes that occur, in the order of `Cause`; the counts sum to ``n``.
    """

    pipeline: str
    split: Literal["search", "test"]
    n: int
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class RepairCounts:
    """Questions that a change to a pipeline turned from wrong to right (``repaired``) or from right to wrong.

    ``view`` says which change: ``whole`` from naive RAG to the winner (``family`` and ``option`` are ""), ``alone`` the
    option switched on alone in naive RAG, ``out`` from the winner without the option to the winner. Both pipelines
    finished ``compared`` questions of the search. ``repaired`` counts by the cause that the question had before,
    ``broken`` by the cause that it has after.
    """

    view: Literal["whole", "alone", "out"]
    family: str
    option: str
    compared: int
    repaired: Mapping[str, int]
    broken: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Intervened(Ceiling):
    """Mean scores on the ``n`` questions of a split with gold passages, after a change of the filtered passages.

    ``pipeline`` is named as in `TITLES`. ``what`` is ``as it is``, ``gold put in``, ``noise taken out`` or ``gold
    alone``; for the last, ``generation`` is the ceiling of the generator. ``changed`` is the number of questions whose
    passages were changed.
    """

    pipeline: str


@dataclass(frozen=True, slots=True)
class Questions:
    """The question-level results of a report; parts without data are empty.

    ``asked`` has every search question, then every test question, by id. ``shown`` has up to ten examples with the
    largest gains, up to ten with the largest losses, and up to five others with the lowest fitness of the pipeline to
    take, of search and test questions together. ``causes`` are of the winner and of its rivals. ``interventions`` are
    empty unless they were run.
    """

    asked: tuple[QuestionResult, ...] = ()
    shown: tuple[QuestionExample, ...] = ()
    causes: tuple[CauseCounts, ...] = ()
    repairs: tuple[RepairCounts, ...] = ()
    interventions: tuple[Intervened, ...] = ()


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles in milliseconds of the latency of ``n`` questions, measured one at a time without cached replies.

    ``questions`` is the group: all, those of a type, or those with evidence in one kind of document. ``state`` is
    ``warm`` if models and index were loaded, else ``cold``. ``stage`` is a stage of the pipeline, or ``in all``.
    """

    questions: str
    state: str
    stage: str
    n: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class TimedPipeline:
    """The latencies of the pipeline ``name`` on a ``machine``."""

    name: str
    label: str
    machine: str
    latencies: tuple[Latency, ...]


@dataclass(frozen=True, slots=True)
class RunReport:
    """The report of a run on one data set.

    ``ranking`` has the pipelines of the search within the maximum failure rate, one per phenotype, best first; the
    first `SHOWN` have intervals. ``search_curve`` and ``random_curve`` are the best fitness after each evaluation.
    ``types`` and ``modalities`` group the questions of ``groups_split`` by question type and by type of the gold
    document. ``dropped`` is the number of proposals that racing pruned. ``lowest`` is the score imputed for failures,
    and ``leads`` has the lead of the winner over each listed pipeline, by key, on the questions that both finished; it
    is empty without failures. ``front`` is the Pareto front of the ranking by the objectives of the search. ``folds``
    are the folds of a crossfit, which the comparisons are then based on. ``ablation`` is the ablation of the winner, if
    it was run, and ``effects`` are the effects of options over all pairs of pipelines of the run. ``judged`` is the
    accuracy of the judge on cases of known order, if it was measured. ``timed`` has the latencies of named pipelines.
    ``same`` maps each role of the test whose pipeline already has another role to that role; ``cheapest`` maps to
    ``winner`` if no pipeline within the margin is cheaper. ``besides`` counts the evaluations in addition to the
    ``proposed`` ones. ``estimates`` are differences without a test, if the test questions were looked at before.
    ``simplified`` is the winner minus the pipeline that it was simplified from, on the test questions, if it was.
    ``taken_leads`` are estimates on the test questions of the leads over the baselines of the pipeline to take, if it
    is not the winner. ``counted`` has the counts of answers by split and role. ``marked`` is what people's marks of
    answers say, if there are any.
    """

    about: RunHeader
    notes: tuple[str, ...]
    ranking: tuple[PipelineRow, ...]
    proposed: int
    dropped: int
    baselines: Mapping[str, PipelineRow]
    random: PipelineRow | None
    search_curve: tuple[float | None, ...]
    random_curve: tuple[float | None, ...]
    finalists: tuple[Finalist, ...]
    comparisons: tuple[Comparison, ...]
    options: tuple[SpaceOption, ...]
    types: tuple[GroupScores, ...]
    modalities: tuple[GroupScores, ...]
    groups_split: Literal["search", "test"]
    answered: tuple[AnsweredQuestion, ...]
    failures: tuple[FailureGroup, ...]
    models: tuple[ModelUsed, ...]
    excluded: tuple[ExcludedRow, ...] = ()
    lowest: float = 0.0
    leads: Mapping[str, Score] = field(default_factory=dict)
    judged: JudgeAccuracy | None = None
    front: tuple[PipelineRow, ...] = ()
    cheapest: Cheapest | None = None
    folds: tuple[FoldRow, ...] = ()
    ablation: Ablation | None = None
    next_step: NextStep | None = None
    effects: tuple[OptionEffect, ...] = ()
    questions: Questions = Questions()
    timed: tuple[TimedPipeline, ...] = ()
    same: Mapping[str, str] = field(default_factory=dict)
    besides: ExtraEvaluations = ExtraEvaluations()
    estimates: tuple[Comparison, ...] = ()
    taken_leads: tuple[Comparison, ...] = ()
    simplified: Difference | None = None
    counted: Mapping[str, Mapping[str, GoodAnswerCounts]] = field(default_factory=dict)
    marked: MarkedAnswers | None = None

    __repr__ = short_repr

    @property
    def winner(self) -> PipelineRow | None:
        """The best pipeline on the search questions; None if the run has no winner."""
        return self.ranking[0] if self.ranking and not self.about.record.no_winner else None

    @property
    def roles(self) -> dict[str, PipelineRow]:
        """The pipelines by role; see `rows_by_role`."""
        return rows_by_role(self.about.record, self.ranking, self.finalists, self.baselines)

    @property
    def take(self) -> str:
        """The role of the pipeline to take, if there is a winner."""
        return role_to_take(self.next_step)

    @property
    def failed(self) -> int:
        """The number of failed answers."""
        return sum(failure.count for failure in self.failures)

    @property
    def winner_on_test(self) -> PipelineRow | None:
        """The winner on the test questions; None if it was not tested."""
        return next((finalist.test for finalist in self.finalists if finalist.name == "winner"), None)


def rows_by_role(
    record: RunRecord,
    ranking: Sequence[PipelineRow],
    finalists: Sequence[Finalist],
    baselines: Mapping[str, PipelineRow],
) -> dict[str, PipelineRow]:
    """Return the pipelines of a report by role, with their costs on the search questions if they are known.

    The first of the ``ranking`` is the winner, if the run has one.
    """
    found = {one.name: one.search or one.test for one in finalists}
    untested = next((row for row in ranking if row.key == record.recommended), None)
    if untested:
        found.setdefault("recommended", untested)
    winner = {"winner": ranking[0]} if ranking and not record.no_winner else {}
    return {**found, **baselines, **winner}


SHOWN = 10
"""Number of rows of a ranking that are shown, with intervals."""

TITLES: Mapping[str, str] = {
    "winner": "winner",
    "leader": "highest mean of the search",
    "estimate": "highest estimate of the search",
    "naive": "naive RAG",
    "bm25": "BM25",
    "recommended": "recommended pipeline",
    "single": "best single option",
    "cheapest": "cheapest within the margin",
    "random": "best random pipeline",
    "calibrated": "calibrated winner",
}
"""The titles of the roles of pipelines, by their names in the store."""
