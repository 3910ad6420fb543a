"""Pipelines by the protocol of a published study: run on dev and test, and judged by its rules.

Our search questions are its dev split: pipelines were chosen on them. The test questions are its test split.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ragsmith.comparison.per_query import PerQuery
from ragsmith.comparison.protocols.hetdocqa import MEASURES
from ragsmith.errors import UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluation import Evaluation
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.requirements import refuse_missing_answers
from ragsmith.pipelines.genes import Candidate, label
from ragsmith.store.store import Store
from ragsmith.techniques.families import FAMILIES

FULL = "full"
"""What the pipeline that the others are compared with is called."""


def measured(pipeline: Pipeline, others: Mapping[str, Pipeline], store: Store, *, workers: int = 1) -> PerQuery:
    """The study's measures of ``pipeline`` and of ``others``, by question, through the store.

    Without others it is compared with itself without each of its parts.

    Raises:
        UsageError: the questions are not split, a pipeline is on other ones, or a question failed.
    """
    for name, one in {"the pipeline": pipeline, **others}.items():
        one.refuse_test(name)
    split = pipeline.setup.split
    if not split.search or not split.test:
        raise UsageError(
            f"{pipeline.setup.dataset.name!r} has no test questions apart, and the protocol needs two splits: mark "
            'some lines of questions.jsonl with "split": "test", or write 20 questions or more'
        )
    refuse_missing_answers([*split.search, *split.test])
    strangers = [name for name, other in others.items() if _questions(other) != _questions(pipeline)]
    if strangers:
        raise UsageError(
            f"{', '.join(strangers)}: not on the same questions and splits as the pipeline itself: name one data set "
            "for all with --dataset"
        )
    systems = {FULL: pipeline, **others} if others else {FULL: pipeline, **dict(_without_each(pipeline))}
    if len(systems) == 1:
        raise UsageError(
            "the pipeline has no part to leave out, and there is no other to compare it with: give --against"
        )
    values: dict[tuple[str, str], dict[str, dict[str, float]]] = {}
    for name, system in systems.items():
        with Evaluator(system.setup, store, workers) as evaluator:
            for part, examples in (("dev", split.search), ("test", split.test)):
                [found] = evaluator.evaluate([system.candidate], examples)
                values[name, part] = _values(name, found)
    return PerQuery(values, MEASURES)


def _questions(pipeline: Pipeline) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """What makes two pipelines comparable: documents and questions, and how these are split."""
    split = pipeline.setup.split
    search, test = (tuple(sorted(example.id for example in part)) for part in (split.search, split.test))
    return pipeline.setup.dataset.digest, search, test


def _without_each(pipeline: Pipeline) -> Iterator[tuple[str, Pipeline]]:
    """The pipeline with naive RAG's option in the place of each of its own, where that is one and can stand there."""
    plain = baseline("naive")
    unfitted = tuple(replace(gene, fit=None) for gene in pipeline.candidate)
    for place, family in enumerate(FAMILIES):
        if unfitted[place].technique == plain[place].technique:
            continue
        candidate = (*unfitted[:place], plain[place], *unfitted[place + 1 :])
        if _stands(candidate):
            name = f"without {family.name} {unfitted[place]}"
            yield name, Pipeline(candidate, pipeline.setup, fitness=pipeline.fitness)


def _stands(candidate: Candidate) -> bool:
    """Whether every technique has before it what it must come after."""
    names = {gene.technique.family: gene.technique.name for gene in candidate}
    return all(names[family] in needed for gene in candidate for family, needed in gene.technique.after.items())


def _values(name: str, found: Evaluation) -> dict[str, dict[str, float]]:
    """The measures of an evaluation by question, those left out that a question has no value of."""
    if found.failures:
        question, failure = next(iter(found.failures.items()))
        raise UsageError(
            f"{name} ({label(found.candidate) or 'naive RAG'}) failed on {len(found.failures)} questions, the first is "
            f"{question}, in {failure['stage']}: {failure['error']}; a failure is no score, so run the command again"
        )
    records = {question: found.records[question]["measures"] for question in found.questions}
    return {
        measure: {q: float(its[measure]) for q, its in records.items() if its.get(measure) is not None}
        for measure in MEASURES
    }
