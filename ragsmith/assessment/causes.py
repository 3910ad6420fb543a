"""Why the answers of a pipeline or another system are wrong: the cause of each, and how often."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ragsmith.assessment.pairwise import announce_look, select_questions
from ragsmith.diagnosis.causes import MEANINGS, Cause, good_score_threshold, name_remedy
from ragsmith.diagnosis.diagnosed import EvidenceTracer, make_diagnosis
from ragsmith.display import short_repr
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.store.store import Store
from ragsmith.text.table import Table, counts, texts

SHOWN_QUESTIONS = 3
"""Number of questions that are named for a cause."""


@dataclass(frozen=True, slots=True)
class CauseCount:
    """The ``questions`` with a cause, the lowest fitness first, its meaning, and what to try ("" if nothing)."""

    cause: str
    meaning: str
    remedy: str
    questions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Causes:
    """The causes on a ``part`` of the questions of a data set, in the order of the stages; good answers first."""

    dataset: str
    part: str
    questions: int
    causes: tuple[CauseCount, ...]

    __repr__ = short_repr

    @property
    def table(self) -> Table:
        """The causes with the number of their questions, what to try, and those of the lowest fitness."""
        columns = (*texts("cause"), *counts("n"), *texts("what to try", "lowest fitness"))
        rows = [
            (one.cause, len(one.questions), one.remedy, ", ".join(one.questions[:SHOWN_QUESTIONS]))
            for one in self.causes
        ]
        others = ", and none of the test questions" * (self.part == "search")
        return Table(f"{self.dataset}, {self.questions:,} {self.part} questions{others}", columns, rows)

    def __str__(self) -> str:
        return str(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()

    def to_dict(self) -> dict[str, Any]:
        """Return the causes as JSON types."""
        causes = [
            {"cause": one.cause, "n": len(one.questions), "remedy": one.remedy, "questions": list(one.questions)}
            for one in self.causes
        ]
        return {"dataset": self.dataset, "part": self.part, "questions": self.questions, "causes": causes}


def diagnose(
    pipeline: Pipeline,
    store: Store,
    *,
    part: str = "search",
    workers: int = 1,
    day: str,
    on_look: Callable[[str], None] | None = None,
) -> Causes:
    """Find the cause of each answer of ``pipeline`` to a ``part`` of the questions of its data set.

    On test questions, or on all, it is a look on this ``day``, unless the search of the pipeline has tested it.

    Raises:
        UsageError: there are no such questions.
    """
    setup, fitness = pipeline.setup, pipeline.fitness
    tracer = EvidenceTracer(answers=not fitness.ranking_only)
    if not setup.dataset.examples:
        raise UsageError(f"{setup.dataset.name!r} has no questions: give a question to explain, or another data set")
    examples = select_questions(setup, fitness, part)
    if part != "search" and setup.tested and "test" not in pipeline.expected:
        announce_look(store, fitness, [(setup, pipeline.candidate)], examples, on_look, "counted")(day)
    found, traces = pipeline.observe(store, examples, tracer, workers=workers)
    scores = found.by_question(fitness)
    by_cause: dict[Cause, list[str]] = {}
    for question in found.questions:
        cause = Cause.FAILED
        if question in traces:
            well = good_score_threshold(setup, tested=question in setup.tested)
            measures: Mapping[str, float | None] = found.records[question]["measures"]
            cause = make_diagnosis(traces[question], setup.examples[question], measures, well).cause
        by_cause.setdefault(cause, []).append(question)
    return Causes(
        setup.dataset.name,
        part,
        len(found.questions),
        tuple(
            CauseCount(
                cause.value,
                MEANINGS[cause],
                name_remedy(cause, pipeline.candidate),
                tuple(sorted(by_cause[cause], key=lambda question: (scores.get(question, 0.0), question))),
            )
            for cause in Cause
            if cause in by_cause
        ),
    )
