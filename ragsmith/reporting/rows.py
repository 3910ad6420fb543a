"""Evaluations to rows: means, intervals, coverage and cost of pipelines, also by group of questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from math import fsum

from ragsmith.evaluation.evaluator import Evaluation, Record
from ragsmith.evaluation.ranking import ranked
from ragsmith.evaluation.scoring import Weights, fitness, generation_score, retrieval_score
from ragsmith.evaluation.statistics import bootstrap_interval
from ragsmith.pipelines.genes import label
from ragsmith.reporting.values import HEADLINE, SHOWN, Coverage, GroupScores, Row, Score

COSTS = ("calls", "input_tokens", "output_tokens", "texts_embedded", "pairs_scored", "context_chars")
"""What a group of questions costs, per question: counts of the usage, and the length of the prompt in characters."""


def score(values: Sequence[float]) -> Score:
    """The mean of ``values``, one for each question, and its interval."""
    low, high = bootstrap_interval(values)
    return Score(fsum(values) / len(values), low, high)


def row(evaluation: Evaluation, weights: Weights, *, intervals: Collection[str] = HEADLINE, shared: int = 1) -> Row:
    """A pipeline as the report shows it; the scores named in ``intervals`` get one."""
    coverage = Coverage(len(evaluation.questions), len(evaluation.records), len(evaluation.failures))
    scores: dict[str, Score] = {}
    usage: dict[str, float] = {}
    if coverage.complete and coverage.questions:
        records = list(evaluation.records.values())
        metrics, usage = _means(records, "metrics"), _means(records, "usage")
        # F, R and G are linear in the metrics, so the score of the means is the mean of the scores.
        derived = (fitness(metrics, weights), retrieval_score(metrics), generation_score(metrics))
        means = {**dict(zip(HEADLINE, derived, strict=True)), **metrics}
        scores = {
            name: score(evaluation.values(name, weights)) if name in intervals else Score(mean)
            for name, mean in means.items()
        }
        scores |= _measures(records, intervals)
    genes = {gene.technique.family: str(gene) for gene in evaluation.candidate}
    fitted = {gene.technique.family: dict(gene.fit.numbers) for gene in evaluation.candidate if gene.fit}
    return Row(evaluation.key, label(evaluation.candidate), genes, coverage, scores, usage, shared, fitted)


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
    highest: float | None = None
    for value in scores:
        if value is not None and (highest is None or value > highest):
            highest = value
        curve.append(highest)
    return tuple(curve)


def by_group(
    pipelines: Mapping[str, Evaluation], groups: Mapping[str, str], weights: Weights
) -> tuple[GroupScores, ...]:
    """Complete pipelines on each group of questions, in order of the groups' names; ``groups``: question to group."""
    questions = next(iter(pipelines.values())).questions if pipelines else ()
    complete = {name: evaluation for name, evaluation in pipelines.items() if evaluation.complete}
    values = {name: _columns(evaluation, weights) for name, evaluation in complete.items()}
    found = []
    for group in sorted({groups.get(question, "") for question in questions}):
        places = [place for place, question in enumerate(questions) if groups.get(question, "") == group]
        for name, columns in values.items():
            scores = {metric: score([columns[metric][place] for place in places]) for metric in HEADLINE}
            costs = {
                cost: fsum(columns[cost][place] for place in places) / len(places) for cost in COSTS if cost in columns
            }
            found.append(GroupScores(group, name, len(places), scores, costs))
    return tuple(found)


def best(evaluations: Sequence[Evaluation], weights: Weights) -> Evaluation | None:
    """The first that `ranked` would give; the costly comparison of phenotypes is left to those that tie."""
    scored = [(round(mean, 12), e) for e in evaluations if (mean := e.mean("fitness", weights)) is not None]
    highest = max((mean for mean, _ in scored), default=None)
    return next(iter(ranked([e for mean, e in scored if mean == highest], weights)), None)


def _means(records: Sequence[Record], part: str) -> dict[str, float]:
    return {name: fsum(r[part][name] for r in records) / len(records) for name in sorted(records[0][part])}


def _measures(records: Sequence[Record], intervals: Collection[str]) -> dict[str, Score]:
    """Means over the questions that have a value; one that no question has is left out, as in records of old."""
    found = {}
    for name in sorted({name for record in records for name in record.get("measures", {})}):
        values = [value for record in records if (value := record.get("measures", {}).get(name)) is not None]
        if values:
            mean = score(values) if name in intervals else Score(fsum(values) / len(values))
            found[name] = replace(mean, n=len(values))
    return found


def _columns(evaluation: Evaluation, weights: Weights) -> dict[str, list[float]]:
    record = next(iter(evaluation.records.values()), None)
    known = {*record["metrics"], *record["usage"]} if record else set()
    return {name: evaluation.values(name, weights) for name in (*HEADLINE, *(cost for cost in COSTS if cost in known))}


def _every_score(evaluation: Evaluation) -> tuple[str, ...]:
    record = next(iter(evaluation.records.values()))
    return (*HEADLINE, *record["metrics"], *record.get("measures", {}))
