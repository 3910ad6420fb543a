"""What a pipeline scores on labelled questions, and how long it takes for one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ragsmith.errors import UsageError
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.fitness import HEADLINE, Fitness
from ragsmith.reporting.rows import score
from ragsmith.reporting.values import Score
from ragsmith.runs.pipeline import Pipeline
from ragsmith.store.store import Store


@dataclass(frozen=True, slots=True)
class Scored:
    """Scores on some questions: how many were attempted, scored and failed, means by measure, failures by question."""

    attempted: int
    scored: int
    failed: int
    metrics: Mapping[str, Score]
    failures: Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds that ``n`` questions of a kind took, each alone: the median and the 95th percentile."""

    questions: str
    n: int
    median_ms: float
    p95_ms: float


@dataclass(frozen=True, slots=True)
class Scores:
    """What a pipeline scores on a data set: ``parts`` are the ``search`` and ``test`` questions apart, or ``all``.

    ``latency`` is of all questions, of each type, and by the kind of document that holds the evidence.
    """

    dataset: str
    parts: Mapping[str, Scored]
    latency: tuple[Latency, ...] = ()

    @property
    def complete(self) -> bool:
        """Whether every question has a score."""
        return not any(scored.failed for scored in self.parts.values())


def evaluate(pipeline: Pipeline, store: Store, *, at_home: bool, workers: int = 1, latency: bool = False) -> Scores:
    """Score ``pipeline`` on the questions of its data set, through the store.

    ``at_home`` is whether it was found on this data set: the search questions then chose it, the test questions did
    not, and the two are told apart. With ``latency``, every question is also timed, and paid models are asked again.
    """
    data = pipeline.setup.dataset
    if not data.examples:
        raise UsageError(f"{data.name!r} has no questions to score by: name a data set that has with --dataset")
    parts = {"all": data.examples}
    divided = pipeline.setup.split
    if at_home and divided.test:
        parts = {"search": divided.search, "test": divided.test}
    found = {part: pipeline.evaluate(store, examples, workers=workers) for part, examples in parts.items()}
    scored = {part: _scored(evaluation, pipeline.fitness) for part, evaluation in found.items()}
    return Scores(data.name, scored, _latencies(pipeline) if latency else ())


def _scored(evaluation: Evaluation, fitness: Fitness) -> Scored:
    columns = {name: evaluation.values(name, fitness) for name in (*HEADLINE, *evaluation.measures)}
    scored = len(evaluation.records)
    metrics = {
        name: score(values) if len(values) == scored else replace(score(values), n=len(values))
        for name, values in columns.items()
        if values
    }
    counts = len(evaluation.questions), len(evaluation.records), len(evaluation.failures)
    return Scored(*counts, metrics, evaluation.failures)


def _latencies(pipeline: Pipeline) -> tuple[Latency, ...]:
    setup = pipeline.setup
    groups: dict[str, list[float]] = defaultdict(list)
    for question, seconds in pipeline.latencies(setup.dataset.examples).items():
        example = setup.examples[question]
        for group in ("all", f"type {example.type}", f"evidence in {setup.modality(example)}"):
            groups[group].append(1000 * seconds)
    in_order = sorted(groups.items(), key=lambda item: (item[0] != "all", item[0]))
    return tuple(
        Latency(group, len(values), float(np.median(values)), float(np.quantile(values, 0.95)))
        for group, values in in_order
    )
