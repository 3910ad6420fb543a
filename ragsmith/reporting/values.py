"""What a report says, as frozen values: means with intervals, comparisons, and how they were come by.

Scores lie in [0, 1] unless a field says otherwise; intervals are 95 % bootstrap intervals over questions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ragsmith.comparison.advice import NextStep
from ragsmith.comparison.verdicts import Comparison
from ragsmith.diagnosis.ablation import Ablation
from ragsmith.diagnosis.diagnosed import GoldPassage, ReadPassage
from ragsmith.diagnosis.estimates import OptionEffect
from ragsmith.diagnosis.interventions import Ceiling
from ragsmith.evaluation.statistics import Verdict
from ragsmith.measures.judge_check import JudgeAccuracy
from ragsmith.records.record import DatasetRecord, ExcludedQuestion, RunRecord

_FOLDER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]")


def folder_of(dataset: str) -> str:
    """The folder of a data set's report, below the folder of all reports."""
    return dataset if _FOLDER.fullmatch(dataset) else "_" + _UNSAFE.sub("_", dataset)


@dataclass(frozen=True, slots=True)
class RunHeader:
    """The run that is reported, by its key, and the data set it is of, by its name. Times are text as stored."""

    dataset: str
    digest: str
    data: DatasetRecord
    run: str
    state: str
    started: str
    finished: str
    record: RunRecord

    @property
    def folder(self) -> str:
        """The name of the data set as a folder name, which cannot lead out of the folder of reports."""
        return folder_of(self.dataset)


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Questions that failed in one stage with one kind of exception; ``example`` is the first message.

    ``kind`` is the class of the failure, such as ``refused content``; what was kept long ago has none.
    """

    stage: str
    kind: str
    exception: str
    count: int
    example: str


@dataclass(frozen=True, slots=True)
class ExcludedRow:
    """A question that failed for every pipeline, and is counted for none."""

    question: str
    split: Literal["search", "test"]
    why: ExcludedQuestion


@dataclass(frozen=True, slots=True)
class ModelUsed:
    """A model by role."""

    role: str
    id: str
    description: str


@dataclass(frozen=True, slots=True)
class Score:
    """A mean over questions; without an interval where none is shown.

    ``n`` counts the questions where it is not about all of them; else it is None.
    """

    mean: float
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many of ``questions`` were scored and failed; the rest was not attempted."""

    questions: int
    scored: int
    failed: int

    @property
    def attempted(self) -> int:
        """Scored or failed."""
        return self.scored + self.failed

    @property
    def complete(self) -> bool:
        """Whether every question has a score."""
        return self.scored == self.questions

    def __str__(self) -> str:
        """``70 = 70 + 0``: attempted = scored + failed; what was not attempted is named."""
        left = self.questions - self.attempted
        text = f"{self.attempted} = {self.scored} + {self.failed}"
        return f"{text}, {left} not attempted" if left else text


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A pipeline on some questions: ``scores`` and ``usage`` are means per question, over those that it finished.

    They are empty if it failed on more than it may. ``ranked_by`` is its fitness with every failure counted as the
    lowest score; None where it has no failure that counts, and the fitness itself ranks it. ``shared`` counts the
    genomes of the search that found and answered the same. ``fitted`` has what techniques learned on calibration
    questions, by family. ``latency_seconds`` is what it takes for a question, where the search weighed that.
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

    @property
    def level(self) -> float:
        """What it is ranked by."""
        return self.scores["fitness"].mean if self.ranked_by is None else self.ranked_by


@dataclass(frozen=True, slots=True)
class Cheapest:
    """The cheapest pipeline that search questions show to be less than the margin behind, on ``n`` test questions.

    It asks for ``calls`` a question where the winner asks for ``winner_calls``. ``loss`` is what it is behind, and
    ``verdict`` what the comparison of the winner with it shows, which is one of the family of the test.
    """

    label: str
    calls: float
    winner_calls: float
    n: int
    loss: float
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Finalist:
    """A pipeline of the test, and its fitness on both kinds of questions."""

    name: str
    title: str
    search: PipelineRow | None
    test: PipelineRow


@dataclass(frozen=True, slots=True)
class ExtraEvaluations:
    """Pipelines that a search evaluated besides those that it proposed, each counted once, where it came first.

    ``before`` it: naive RAG, BM25, what is recommended, and each option alone with its reference; ``drawn`` at random
    as its control; with options left out, to ``simplify`` its winner; and to take it ``apart``.
    """

    before: int = 0
    drawn: int = 0
    simplify: int = 0
    apart: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.before + self.drawn + self.simplify + self.apart


@dataclass(frozen=True, slots=True)
class FoldRow:
    """A search of a crossfit: how many questions it searched on, left out and tested, and its winner.

    ``fitness`` has the means on the questions of the fold, by part in the comparison: none where there is no winner.
    """

    searched: int
    unused: int
    tested: int
    winner: str
    fitness: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class OptionAlone:
    """An option switched on alone, on the search questions: in naive RAG, or in the pipeline ``against`` names.

    ``activity`` is the share of the ``compared`` questions whose stage output differs from the reference's; ``calls``
    what it adds per question; ``change`` the fitness and ``retrieval`` the retrieval score R that it adds, paired by
    question. ``difference`` is the declared description of the change, if there is one.
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
        """Whether it changed nothing that it could have changed."""
        return self.activity == 0


@dataclass(frozen=True, slots=True)
class ProposalMeans:
    """Mean fitness of the pipelines the search proposed with and without an option; observational."""

    with_mean: float | None
    with_n: int
    without_mean: float | None
    without_n: int


@dataclass(frozen=True, slots=True)
class SpaceOption:
    """An option of the space. What naive RAG has already is not probed."""

    family: str
    name: str
    probe: OptionAlone | None
    effect: ProposalMeans


@dataclass(frozen=True, slots=True)
class GroupScores:
    """One pipeline on the ``n`` questions of a group: the headline scores, and means per question of what it costs."""

    group: str
    pipeline: str
    n: int
    scores: Mapping[str, Score]
    costs: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class AnsweredQuestion:
    """One question as one pipeline answered it.

    ``state`` is ``ok``, or ``failed``: then ``error`` says why, and ``measures``, ``answer`` and ``retrieved`` are
    empty. ``measures`` has all that the question has a value of, F, R, G and model calls among them; ``retrieved``
    names chunks, best first.
    """

    question: str
    type: str
    modality: str
    split: Literal["search", "test"]
    pipeline: str
    state: str
    measures: Mapping[str, float]
    answer: str = ""
    retrieved: tuple[str, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class QuestionOutcome:
    """What one pipeline made of one question.

    ``scores`` has F, R and G of the question as ``fitness``, ``retrieval`` and ``generation``: a part that it has not
    is left out, and all are if it failed. ``cause`` is a value of `ragsmith.diagnosis.causes.Cause`, whose ``MEANINGS``
    explain each, or "" if it was not diagnosed. Of ``gold`` gold passages, ``read`` reached the
    generator.
    """

    scores: Mapping[str, float]
    cause: str = ""
    gold: int = 0
    read: int = 0


@dataclass(frozen=True, slots=True)
class QuestionResult:
    """One question of the run, as the winner and naive RAG treated it.

    ``question`` is its id, ``text`` what is asked, and ``reference`` the reference answer. A pipeline that did not
    meet it is None.
    """

    question: str
    type: str
    split: Literal["search", "test"]
    text: str
    reference: str
    winner: QuestionOutcome | None
    naive: QuestionOutcome | None

    @property
    def gain(self) -> float | None:
        """Fitness of the winner minus that of naive RAG; None unless both have one."""
        both = [one.scores.get("fitness") if one else None for one in (self.winner, self.naive)]
        return None if both[0] is None or both[1] is None else both[0] - both[1]


@dataclass(frozen=True, slots=True)
class PipelineAnswer:
    """What one pipeline answered, and what it had read: ``passages`` in the order of the prompt.

    The answer is verbatim; "" if the pipeline failed. ``further`` counts passages without gold that were
    read as well and are left out here.
    """

    answer: str
    passages: tuple[ReadPassage, ...]
    further: int = 0


@dataclass(frozen=True, slots=True)
class QuestionExample:
    """A question that is shown in full, with both answers; ``question`` is the id of its `QuestionResult`.

    ``why`` says what it is an example of: ``gained`` or ``lost`` against naive RAG, or ``wrong``: where the winner's
    fitness is lowest. ``gold`` are the gold passages, with what became of each on the winner's way.
    """

    question: str
    why: Literal["gained", "lost", "wrong"]
    gold: tuple[GoldPassage, ...]
    winner: PipelineAnswer
    naive: PipelineAnswer


@dataclass(frozen=True, slots=True)
class CauseCounts:
    """How many of the ``n`` questions of a split went which way in a pipeline, named as in `TITLES`.

    ``counts`` has the causes that occur, by their values, in the order of `Cause`; they add up to ``n``.
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
    """Means over the ``n`` questions of a split that have gold passages, where what passes the filter was changed.

    ``pipeline`` is named as in `TITLES`. ``what`` is ``as it is``, ``gold put in``, ``noise taken out`` or ``gold
    alone``: with the last, ``generation`` is the ceiling of the generator. ``changed`` counts the questions where there
    was anything to change.
    """

    pipeline: str


@dataclass(frozen=True, slots=True)
class Questions:
    """Everything that a report says of single questions. All parts are empty where nothing is known.

    ``asked`` has every question of the search and the test, the search first and then by id. ``shown`` has up to ten
    that gained most, then up to ten that lost most, largest first, then up to five where the winner's fitness is
    lowest and that are in neither; test and search questions together. ``causes`` are of naive RAG, BM25, the
    recommended pipeline and the winner. ``interventions`` are there where they were asked for.
    """

    asked: tuple[QuestionResult, ...] = ()
    shown: tuple[QuestionExample, ...] = ()
    causes: tuple[CauseCounts, ...] = ()
    repairs: tuple[RepairCounts, ...] = ()
    interventions: tuple[Intervened, ...] = ()


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds that ``n`` questions took, each alone and asked anew: percentiles of all measurements.

    ``questions`` says which: all, those of a type, or with evidence in one kind of document. ``state`` is ``warm`` if
    models and index were there, ``cold`` if they were not. ``station`` is a part of the way, or ``in all``.
    """

    questions: str
    state: str
    station: str
    n: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class TimedPipeline:
    """How long the pipeline called ``name`` takes on one kind of ``machine``."""

    name: str
    label: str
    machine: str
    latencies: tuple[Latency, ...]


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything a report says about the run on one data set.

    ``ranking`` holds the pipelines of the search that are complete enough, one for each phenotype, best first; the
    first `SHOWN` have intervals. ``search_curve`` and ``random_curve`` are the best fitness after each pipeline
    evaluated. ``types`` and ``modalities`` divide the questions of ``groups_split`` by their own type and by the type
    of the document with the gold, if it is known. ``dropped`` counts
    the proposals that left a race before the last question. ``lowest`` is the score that failures are ranked as, and
    ``leads`` has, where there are any, what the winner is ahead of each pipeline shown, by its key, on the questions
    that both finished. ``front`` are the rows of the ranking of which no other is as good in everything that was
    weighed: fitness and calls, unless the search was asked otherwise. ``folds`` are the searches of a crossfit,
    which is then what the comparisons are of. ``ablation`` says what each part of the winner is
    worth, as far as that was worked out, and ``effects`` what options gained over the run, in pairs of its pipelines.
    ``judged`` says how the judge did on cases of known order, if that is known.
    ``timed`` are those of the pipelines with a name that were timed by station. ``same`` has the parts in the test
    whose pipeline has another part already, and which. ``cheapest`` is the winner there if no other is cheaper.
    ``besides`` counts what was evaluated and not ``proposed``.
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

    @property
    def winner(self) -> PipelineRow | None:
        """The best pipeline on the search questions; None where the run says that there is none."""
        return self.ranking[0] if self.ranking and not self.about.record.no_winner else None

    @property
    def failed(self) -> int:
        """How many answers failed."""
        return sum(failure.count for failure in self.failures)

    @property
    def winner_on_test(self) -> PipelineRow | None:
        """The same pipeline on the test questions."""
        return next((finalist.test for finalist in self.finalists if finalist.name == "winner"), None)


SHOWN = 10
"""Rows of a ranking that are shown, with intervals."""

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
}
"""Pipelines that a winner is compared with, by their name in the store."""
