"""Evaluations to rows: means, intervals, coverage and cost of pipelines, and how scores divide by question type."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from math import fsum

from ragsmith.evaluate import Evaluation
from ragsmith.report.values import HEADLINE, SHOWN, Coverage, Row, Score, TypeScores
from ragsmith.run import gene_names, ranked
from ragsmith.scoring import Weights
from ragsmith.space import label
from ragsmith.statistics import bootstrap_interval


def score(values: Sequence[float], *, interval: bool = True) -> Score:
    """The mean of ``values``, one for each question."""
    mean = fsum(values) / len(values)
    if not interval:
        return Score(mean)
    low, high = bootstrap_interval(values)
    return Score(mean, low, high)


def row(evaluation: Evaluation, weights: Weights, *, intervals: Collection[str] = HEADLINE, shared: int = 1) -> Row:
    """A pipeline as the report shows it; the scores named in ``intervals`` get one."""
    coverage = Coverage(len(evaluation.questions), len(evaluation.records), len(evaluation.failures))
    scores: dict[str, Score] = {}
    usage: dict[str, float] = {}
    if coverage.complete and coverage.questions:
        first = next(iter(evaluation.records.values()))
        names = (*HEADLINE, *sorted(first["metrics"]))
        scores = {
            name: score(evaluation.values(name, weights), interval=name in intervals) for name in names
        }
        usage = {name: score(evaluation.values(name), interval=False).mean for name in sorted(first["usage"])}
    genes = {family: str(gene) for family, gene in gene_names(evaluation.candidate).items()}
    return Row(evaluation.key, label(evaluation.candidate), genes, coverage, scores, usage, shared)


def ranking(evaluations: Sequence[Evaluation], weights: Weights) -> tuple[Row, ...]:
    """The complete ones, one for each phenotype, best first; the first `SHOWN` with intervals of every score."""
    shared = Counter(evaluation.phenotype for evaluation in evaluations if evaluation.complete)
    return tuple(
        row(
            evaluation,
            weights,
            intervals=_every_score(evaluation) if place < SHOWN else (),
            shared=shared[evaluation.phenotype],
        )
        for place, evaluation in enumerate(ranked(evaluations, weights))
    )


def best_so_far(scores: Iterable[float | None]) -> tuple[float | None, ...]:
    """The highest score up to each place; None before the first."""
    curve: list[float | None] = []
    best: float | None = None
    for value in scores:
        if value is not None and (best is None or value > best):
            best = value
        curve.append(best)
    return tuple(curve)


def by_type(pipelines: Mapping[str, Evaluation], types: Mapping[str, str], weights: Weights) -> tuple[TypeScores, ...]:
    """Headline scores of complete pipelines by question type, types in order of their names."""
    questions = next(iter(pipelines.values())).questions if pipelines else ()
    found = []
    for kind in sorted({types.get(question, "") for question in questions}):
        places = [place for place, question in enumerate(questions) if types.get(question, "") == kind]
        for name, evaluation in pipelines.items():
            if evaluation.complete:
                values = {metric: evaluation.values(metric, weights) for metric in HEADLINE}
                scores = {metric: score([of[place] for place in places]) for metric, of in values.items()}
                found.append(TypeScores(kind, name, len(places), scores))
    return tuple(found)


def _every_score(evaluation: Evaluation) -> tuple[str, ...]:
    first = next(iter(evaluation.records.values()), {"metrics": {}})
    return (*HEADLINE, *first["metrics"])
