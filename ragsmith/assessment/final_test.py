"""Test a pipeline or another system against several others, as one family of comparisons."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

from ragsmith.assessment.pairwise import (
    announce_look,
    check_unseen,
    describe_candidate,
    evaluate_on,
    select_questions,
    verdict_terms,
)
from ragsmith.comparison.questions import Clusters, HoldoutUse
from ragsmith.comparison.verdicts import Comparison, compare_pipelines
from ragsmith.diagnosis.causes import good_score_threshold
from ragsmith.display import short_repr
from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import COMPOSITES, Fitness
from ragsmith.evaluation.ranking import Terms, common_questions
from ragsmith.evaluation.statistics import Verdict
from ragsmith.exported.pipeline import Pipeline
from ragsmith.reporting.decision import Contender, Decision
from ragsmith.reporting.facts import describe_rival
from ragsmith.reporting.results import count_good_answers
from ragsmith.reporting.values import TITLES, GoodAnswerCounts
from ragsmith.reporting.wording import (
    describe_comparison,
    describe_verdicts,
    explain_limits,
    sort_rivals,
)
from ragsmith.store.store import Store
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.table import to_data_frame

if TYPE_CHECKING:
    from pandas import DataFrame

Part = Literal["search", "test", "all"]


@dataclass(frozen=True, slots=True)
class FinalTest:
    """The decision by a test of a pipeline, and its basis: one comparison with each rival, tested as one family.

    ``look`` is None if the pipeline failed on more questions than it may: then nothing is compared, and no look counts.
    ``scores`` has a row for each pipeline and question, with all measures; see `to_pandas`.
    """

    decision: Decision
    dataset: str
    pipeline: str
    comparisons: tuple[Comparison, ...]
    clusters: Clusters
    look: HoldoutUse | None
    scores: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)

    def to_pandas(self, table: str = "measures") -> DataFrame:
        """A table as a data frame: ``measures``, the means of each pipeline, or ``questions``, all scores by question.

        A mean is over the questions that have the measure; a question that failed has none.

        Raises:
            MissingExtra: pandas is not installed.
            UsageError: there is no such table.
        """
        if table not in (tables := ("measures", "questions")):
            raise UsageError(f"unknown table {table!r}: {did_you_mean(str(table), tables)}")
        found = to_data_frame(self.scores)
        if table == "questions":
            return found
        return found.drop(columns="question").groupby("pipeline", sort=False).mean().reset_index()

    __repr__ = short_repr

    def _repr_html_(self) -> str:
        verdict = escape(f"{self.pipeline}: {self.decision.verdict}")
        return f"<p>{verdict}</p>{self.decision.table._repr_html_()}"

    def __str__(self) -> str:
        decided = self.decision
        verdict = f"verdict on {self.pipeline}: {decided.verdict}"
        compared = (describe_comparison(one, asked=f"{decided.part} questions") for one in self.comparisons)
        found = (f"  {said}" for said in (*compared, decided.limits) if said)
        return "\n".join([*decided.lines(), verdict, *found])


def final_test(
    named: tuple[str, Pipeline],
    rivals: Mapping[str, Pipeline],
    store: Store,
    *,
    part: Part = "test",
    workers: int = 1,
    day: str,
    on_look: Callable[[str], None] | None = None,
) -> FinalTest:
    """Compare a pipeline, given with its name, with ``rivals`` by role, on a ``part`` of the questions of its data set.

    On test questions, or on all, this counts as a look at them on this ISO 8601 ``day``; the same pipelines on the same
    questions are counted once. ``on_look`` is called before anything is computed with a sentence on what it costs.

    Raises:
        UsageError: there are no such questions, or a pipeline was chosen on all questions.
    """
    name, pipeline = named
    check_unseen([named, *rivals.items()], part)
    setup, fitness = pipeline.setup, pipeline.fitness
    asked = select_questions(setup, fitness, part)
    terms = verdict_terms(asked, fitness)
    compared = [(one.setup, one.candidate) for one in (pipeline, *rivals.values())]
    count = announce_look(store, fitness, compared, asked, on_look if part != "search" else None)
    first, *others = evaluate_on([pipeline, *rivals.values()], terms.examples, store, workers)
    admitted = Terms.from_evaluations([first, *others], terms.fitness)
    clusters = Clusters.from_examples(setup.dataset, terms.examples)
    able = part != "search" and admitted.admits(first) and common_questions([first, *others])
    taken = count(day) if able else None
    number = taken.number if taken else 1
    by_role = dict(zip(rivals, others, strict=True))
    found = compare_pipelines(first, by_role, admitted, clusters, look=number, of=terms.of)
    finished = {role: one for role, one in {name: first, **by_role}.items() if admitted.admits(one)}
    least = None if fitness.ranking_only else good_score_threshold(setup, tested=part == "test")
    titled = tuple(replace(one, against=describe_rival(one.name, 0)) for one in found)
    return FinalTest(
        _decide(name, {name: first, **by_role}, titled, count_good_answers(finished, least, fitness, clusters), part),
        setup.dataset.name,
        name,
        titled,
        clusters,
        taken,
        tuple(row for role, one in {name: first, **by_role}.items() for row in _score_questions(role, one, fitness)),
    )


def _score_questions(name: str, evaluation: Evaluation, fitness: Fitness) -> Iterator[dict[str, Any]]:
    """Yield a row with all measures for each question, without values if it failed."""
    parts = (*COMPOSITES, *evaluation.measures)
    columns = {"fitness": evaluation.column("fitness", fitness), **{part: evaluation.column(part) for part in parts}}
    finished = [question for question in evaluation.questions if question in evaluation.records]
    for question in evaluation.questions:
        row: dict[str, Any] = {"pipeline": name, "question": question, "failed": question in evaluation.failures}
        at = finished.index(question) if question in evaluation.records else None
        yield row if at is None else {**row, **{column: values[at] for column, values in columns.items()}}


def _decide(
    name: str,
    evaluations: Mapping[str, Evaluation],
    comparisons: Sequence[Comparison],
    counts: Mapping[str, GoodAnswerCounts],
    part: Part,
) -> Decision:
    """Decide for the pipeline ``name``, or for the rival furthest ahead of those that are shown to be better."""
    if name not in counts:  # it failed on too many questions
        name = next((one.name for one in comparisons if one.name in counts), name)
    behind = [one for one in comparisons if one.verdict is Verdict.WORSE]
    take = min(((one.difference.mean_difference, one.name) for one in behind if one.difference), default=(0.0, name))[1]
    contenders = (
        Contender(
            role,
            TITLES.get(role, Path(role).name),
            describe_candidate(one.candidate),
            fmean(one.values("calls")) if one.records and one.candidate else None,
            None,
            None,
            counts.get(role),
        )
        for role, one in sorted(evaluations.items(), key=lambda item: item[0] != take)
    )
    return Decision(
        take,
        "",
        part,
        tuple(contenders),
        tuple(sort_rivals(comparisons)),
        describe_verdicts(comparisons) if comparisons else "No verdict: it is its only rival.",
        "",
        "",
        explain_limits(comparisons),
    )
