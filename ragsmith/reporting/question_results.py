"""Single questions: what became of each, which option repaired how many, and the examples that are shown in full."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.diagnosed import Diagnosed, neighbours, shown
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE
from ragsmith.reporting.run_data import RunData
from ragsmith.reporting.values import (
    CauseCounts,
    Intervened,
    PipelineAnswer,
    QuestionExample,
    QuestionOutcome,
    QuestionResult,
    Questions,
    RepairCounts,
)

PIPELINES = ("naive", "bm25", "recommended", "winner")
"""Those whose causes are counted, as far as a run has them, in the order in which they are shown."""


def questions(run: RunData) -> Questions:
    """Everything that is known of single questions."""
    found = _QuestionReader(run)
    return Questions(
        found.results(), found.examples(), tuple(found.causes()), tuple(found.repairs()), tuple(found.interventions())
    )


class _QuestionReader:
    """The pipelines of a run that are looked at question by question, and why each went as it did."""

    def __init__(self, run: RunData) -> None:
        record = run.record
        self._run = run
        self._parts: tuple[tuple[Literal["search", "test"], tuple[str, ...]], ...] = (
            ("search", record.split.search),
            ("test", record.split.test),
        )
        stored = {**record.baselines, "recommended": record.recommended, "winner": record.winner}
        self._keys = {name: key for name in PIPELINES if (key := stored.get(name))}
        winner = run.on_search(record.winner) if record.winner else None
        self._neighbours = neighbours(winner, run.all_on_search(run.keys)) if winner else []
        wanted = {*(near.evaluation.key for near in self._neighbours), *self._keys.values()}
        self._why = {
            key: {question: Diagnosed.stored(value) for question, value in rows.items()}
            for key, rows in run.diagnoses.items()
            if key in wanted
        }
        self._outcomes = {name: self._outcomes_of(key) for name, key in self._keys.items()}

    def results(self) -> tuple[QuestionResult, ...]:
        """Every question, with what the winner and naive RAG made of it."""
        data = self._run.about.data
        winner, naive = (self._outcomes.get(name, {}) for name in ("winner", "naive"))
        return tuple(
            QuestionResult(
                question,
                data.questions.get(question, ""),
                part,
                data.asked.get(question, ""),
                data.references.get(question, ""),
                winner.get(question),
                naive.get(question),
            )
            for part, its in self._parts
            for question in its
        )

    def examples(self) -> tuple[QuestionExample, ...]:
        """The examples, those that gained most first; none where it is not known what was read."""
        worth = [
            {
                question: outcome.scores["fitness"]
                for question, outcome in self._outcomes.get(name, {}).items()
                if "fitness" in outcome.scores
            }
            for name in ("winner", "naive")
        ]
        found = []
        for question, why in shown(*worth).items():
            winner, naive = (self._answer(name, question) for name in ("winner", "naive"))
            if winner and naive:
                evidence = self._why[self._keys["winner"]][question].evidence
                found.append(QuestionExample(question, why, evidence, winner, naive))
        return tuple(found)

    def causes(self) -> Iterator[CauseCounts]:
        """How often each cause occurs, by pipeline and part."""
        for name, outcomes in self._outcomes.items():
            for part, its in self._parts:
                each = [outcomes[question].cause for question in its if question in outcomes]
                if counts := _count(each):
                    yield CauseCounts(name, part, sum(counts.values()), counts)

    def repairs(self) -> Iterator[RepairCounts]:
        """What the winner, and each option of it, turned from wrong to right, or from right to wrong."""
        winner, naive = (self._run.on_search(self._keys.get(name, "")) for name in ("winner", "naive"))
        if winner is None or naive is None:
            return
        if compared := self._compare(naive, winner):
            yield RepairCounts("whole", "", "", *compared)
        for near in self._neighbours:
            before, after = (naive, near.evaluation) if near.view == "alone" else (near.evaluation, winner)
            if compared := self._compare(before, after):
                yield RepairCounts(near.view, near.gene.technique.family, str(near.gene), *compared)

    def interventions(self) -> Iterator[Intervened]:
        """What was asked for of the winner and of naive RAG, by the fitness of this run."""
        for name in ("naive", "winner"):
            kept = self._run.interventions.get(self._keys.get(name, ""))
            if kept and kept["fitness"] == self._run.fitness.identity:
                yield from (Intervened(**one, pipeline=name) for one in kept["means"])

    def _causes(self, evaluation: Evaluation) -> dict[str, str]:
        """The cause of each question that an evaluation has; "" where it was not diagnosed."""
        why = self._why.get(evaluation.key, {})
        found = {}
        for question in evaluation.questions:
            if question in evaluation.failures:
                found[question] = Cause.FAILED.value
            elif question in evaluation.records:
                found[question] = why[question].cause.value if question in why else ""
        return found

    def _outcomes_of(self, key: str) -> dict[str, QuestionOutcome]:
        """How a pipeline did on each question of both parts."""
        found = {}
        why = self._why.get(key, {})
        for evaluation in filter(None, (self._run.on_search(key), self._run.on_test(key))):
            columns = {score: iter(evaluation.column(score, self._run.fitness)) for score in HEADLINE}
            for question, cause in self._causes(evaluation).items():
                if question in evaluation.failures:
                    found[question] = QuestionOutcome({}, cause)
                    continue
                values = {score: next(column) for score, column in columns.items()}
                scores = {score: value for score, value in values.items() if value is not None}
                known = why.get(question)
                found[question] = QuestionOutcome(scores, cause, *((known.gold, known.read) if known else (0, 0)))
        return found

    def _answer(self, name: str, question: str) -> PipelineAnswer | None:
        key = self._keys.get(name, "")
        known = self._why.get(key, {}).get(question)
        if known is None or known.passages is None:
            return None
        parts = (self._run.on_search(key), self._run.on_test(key))
        answer = next((one.records[question]["answer"] for one in parts if one and question in one.records), "")
        return PipelineAnswer(answer, known.passages, known.further)

    def _compare(self, before: Evaluation, after: Evaluation) -> tuple[int, dict[str, int], dict[str, int]] | None:
        """How many questions both have a cause of, and by cause those that went from wrong to right, and back."""
        was, becomes = self._causes(before), self._causes(after)
        both = [question for question, cause in was.items() if cause and becomes.get(question)]
        right_before = {question for question in both if Cause(was[question]).good}
        right_after = {question for question in both if Cause(becomes[question]).good}
        repaired = _count([was[question] for question in right_after - right_before])
        broken = _count([becomes[question] for question in right_before - right_after])
        return (len(both), repaired, broken) if both else None


def _count(causes: list[str]) -> dict[str, int]:
    """How often each cause is there, in the order of `Cause`."""
    return {cause.value: n for cause in Cause if (n := causes.count(cause.value))}
