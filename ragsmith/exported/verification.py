"""Verify an exported pipeline: run it again and compare with the scores in its file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ragsmith.errors import RagsmithError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.experiment import Experiment, ordered
from ragsmith.evaluation.fitness import HEADLINE, Fitness
from ragsmith.evaluation.threads import ANSWER, RANKING, evaluate_job
from ragsmith.pipelines.engine import Engine
from ragsmith.pipelines.genes import Candidate
from ragsmith.types import Example

TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True)
class ScoreDifference:
    """A score that verification did not reproduce."""

    part: str
    metric: str
    expected: float
    found: float | None


@dataclass(frozen=True, slots=True)
class Verified:
    """Scores that were not reproduced, changed models (ids then and now by role), and numbers of questions by part."""

    differences: tuple[ScoreDifference, ...]
    changed_models: Mapping[str, tuple[str, str]]
    questions: Mapping[str, int]


def unreproduced(
    engine: Engine, setup: Experiment, candidate: Candidate, fitness: Fitness, expected: Mapping[str, Any]
) -> list[ScoreDifference]:
    """The scores of ``expected`` that are not reproduced; questions that had failed at export are left out.

    Raises:
        RagsmithError: a question fails now.
    """
    parts = setup.split
    differences: list[ScoreDifference] = []
    for part, examples in (("search", parts.search), ("test", parts.test)):
        if part in expected:
            failed = expected[part].get("failed", ())
            scored = [example for example in examples if example.id not in failed]
            differences += _compared(part, expected[part], _fresh(engine, setup, candidate, fitness, scored), fitness)
    return differences


def _fresh(
    engine: Engine, setup: Experiment, candidate: Candidate, fitness: Fitness, examples: Sequence[Example]
) -> Evaluation:
    records = {}
    part = RANKING if fitness.ranks else ANSWER
    for example in ordered(examples):
        finished = evaluate_job(engine, setup, candidate, (0, example.id), part)
        if not finished.ok:
            raise RagsmithError(f"question {example.id} fails in {finished.value['stage']}: {finished.value['error']}")
        records[example.id] = finished.value
    return Evaluation("fresh", candidate, tuple(records), records, {})


def _compared(
    part: str, expected: Mapping[str, Any], evaluation: Evaluation, fitness: Fitness
) -> list[ScoreDifference]:
    if expected["questions"] != len(evaluation.questions):
        return [ScoreDifference(part, "questions", expected["questions"], len(evaluation.questions))]
    known = {*HEADLINE, *evaluation.measures}
    names = (name for name in expected if name not in ("questions", "failed"))
    found = {name: evaluation.mean(name, fitness) if name in known else None for name in names}
    return [
        ScoreDifference(part, name, expected[name], value)
        for name, value in found.items()
        if value is None or not math.isclose(value, expected[name], rel_tol=0.0, abs_tol=TOLERANCE)
    ]
