"""Single questions: what became of each, which option repaired how many, and the examples that are shown in full."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal

from ragsmith.diagnosis.causes import Cause
from ragsmith.diagnosis.chosen import neighbours, shown
from ragsmith.diagnosis.diagnosed import Diagnosed
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE, Fitness
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

Split = Literal["search", "test"]


def questions(run: RunData) -> Questions:
    """Everything that is known of single questions; of runs of earlier versions that is scores alone."""
    found = _QuestionReader(run)
    return Questions(
        found.asked(), found.shown(), tuple(found.causes()), tuple(found.repairs()), tuple(found.interventions())
    )


class _QuestionReader:
    """The pipelines of a run that are looked at question by question, and why each went as it did."""

    def __init__(self, run: RunData) -> None:
        record = run.record
        self._run = run
        self._fitness: Fitness = run.fitness
        stored = {**record.baselines, "recommended": record.recommended, "winner": record.winner}
        self._keys = {name: key for name in PIPELINES if (key := stored.get(name))}
        winner = run.on_search(record.winner) if record.winner else None
        searched = run.all_on_search(run.keys)
        self._neighbours = neighbours(winner, searched) if winner else []
        near = [neighbour.evaluation.key for neighbour in self._neighbours]
        self._why = {
            key: {question: Diagnosed.stored(value) for question, value in rows.items()}
            for key, rows in run.diagnoses.items()
            if key in near or key in self._keys.values()
        }

    def asked(self) -> tuple[QuestionResult, ...]:
        """Every question, with what the winner and naive RAG made of it."""
        data, split = self._run.about.data, self._run.record.split
        parts: tuple[tuple[Split, tuple[str, ...]], ...] = (("search", split.search), ("test", split.test))
        treated = {name: {part: self._treated(name, part) for part, _ in parts} for name in ("winner", "naive")}
        return tuple(
            QuestionResult(
                question,
                data.questions.get(question, ""),
                part,
                data.asked.get(question, ""),
                data.references.get(question, ""),
                treated["winner"][part].get(question),
                treated["naive"][part].get(question),
            )
            for part, questions in parts
            for question in questions
        )

    def shown(self) -> tuple[QuestionExample, ...]:
        """The examples, those that gained most first; none where it is not known what was read."""
        worth = {name: self._worth(name) for name in ("winner", "naive")}
        chosen = shown(worth["winner"], worth["naive"])
        found = []
        for question, why in chosen.items():
            winner, naive = (self._replied(name, question) for name in ("winner", "naive"))
            known = self._why.get(self._keys.get("winner", ""), {}).get(question)
            if winner and naive and known:
                found.append(QuestionExample(question, why, known.evidence, winner, naive))
        return tuple(found)

    def causes(self) -> Iterator[CauseCounts]:
        """How often each cause occurs, by pipeline and part."""
        for name in self._keys:
            parts: tuple[Split, ...] = ("search", "test")
            for part in parts:
                each = [cause for cause in self._causes(name, part).values() if cause]
                if each:
                    counts = {cause.value: n for cause in Cause if (n := each.count(cause.value))}
                    yield CauseCounts(name, part, len(each), counts)

    def repairs(self) -> Iterator[RepairCounts]:
        """What the winner, and each option of it, turned from wrong to right, or from right to wrong."""
        if not {"winner", "naive"} <= self._keys.keys():
            return
        winner, naive = (self._causes(name, "search") for name in ("winner", "naive"))
        if compared := _compared(naive, winner):
            yield RepairCounts("whole", "", "", *compared)
        for near in self._neighbours:
            its = self._of(near.evaluation)
            before, after = (naive, its) if near.view == "alone" else (its, winner)
            if compared := _compared(before, after):
                yield RepairCounts(near.view, near.gene.technique.family, str(near.gene), *compared)

    def interventions(self) -> Iterator[Intervened]:
        """What somebody asked for of the winner and of naive RAG, by the fitness of this run."""
        for name in ("naive", "winner"):
            kept = self._run.interventions.get(self._keys.get(name, ""))
            if kept and kept["fitness"] == self._fitness.identity:
                yield from (Intervened(name, **one) for one in kept["means"])

    def _evaluation(self, name: str, part: Split) -> Evaluation | None:
        key = self._keys.get(name)
        if key is None:
            return None
        return self._run.on_search(key) if part == "search" else self._run.on_test(key)

    def _causes(self, name: str, part: Split) -> dict[str, str]:
        evaluation = self._evaluation(name, part)
        return self._of(evaluation) if evaluation else {}

    def _of(self, evaluation: Evaluation) -> dict[str, str]:
        """The cause of each question that an evaluation has; "" where nobody looked."""
        why = self._why.get(evaluation.key, {})
        found = {}
        for question in evaluation.questions:
            if question in evaluation.failures:
                found[question] = Cause.FAILED.value
            elif question in evaluation.records:
                found[question] = why[question].cause.value if question in why else ""
        return found

    def _treated(self, name: str, part: Split) -> dict[str, QuestionOutcome]:
        evaluation = self._evaluation(name, part)
        if evaluation is None:
            return {}
        columns = {score: iter(evaluation.column(score, self._fitness)) for score in HEADLINE}
        why = self._why.get(evaluation.key, {})
        found = {}
        for question, cause in self._of(evaluation).items():
            if question in evaluation.failures:
                found[question] = QuestionOutcome({}, cause)
                continue
            values = {score: next(column) for score, column in columns.items()}
            scores = {score: value for score, value in values.items() if value is not None}
            known = why.get(question)
            found[question] = QuestionOutcome(scores, cause, *((known.gold, known.read) if known else (0, 0)))
        return found

    def _worth(self, name: str) -> dict[str, float]:
        parts = (self._evaluation(name, "search"), self._evaluation(name, "test"))
        return {q: value for one in parts if one for q, value in one.by_question(self._fitness).items()}

    def _replied(self, name: str, question: str) -> PipelineAnswer | None:
        known = self._why.get(self._keys.get(name, ""), {}).get(question)
        if known is None or known.passages is None:
            return None
        parts = (self._evaluation(name, "search"), self._evaluation(name, "test"))
        answer = next((one.records[question]["answer"] for one in parts if one and question in one.records), "")
        return PipelineAnswer(answer, known.passages, known.further)


def _compared(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[int, Mapping[str, int], Mapping[str, int]] | None:
    """How many questions both have a cause of, and those that went from wrong to right, and the other way, by cause."""
    both = [question for question, cause in before.items() if cause and after.get(question)]
    good = {
        name: {question for question in both if Cause(causes[question]).good}
        for name, causes in (("before", before), ("after", after))
    }
    repaired = [before[question] for question in both if question in good["after"] - good["before"]]
    broken = [after[question] for question in both if question in good["before"] - good["after"]]
    return (len(both), _counted(repaired), _counted(broken)) if both else None


def _counted(causes: Collection[str]) -> dict[str, int]:
    """How often each cause is there, in the order of `Cause`."""
    found: Iterable[tuple[str, int]] = ((cause.value, list(causes).count(cause.value)) for cause in Cause)
    return {cause: n for cause, n in found if n}
