"""`intervene`: what a pipeline would answer with the gold put in, and with the noise taken out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import WorkArguments
from ragsmith.api.given import Resources
from ragsmith.diagnosis.interventions import FINDING, Ceiling, answers_of
from ragsmith.diagnosis.interventions import intervene as work_out
from ragsmith.errors import UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.exported.pipeline import Pipeline
from ragsmith.types import Dataset


def intervene(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    on_plan: Callable[[int], bool] | None = None,
    **given: Unpack[WorkArguments],
) -> dict[str, tuple[Ceiling, ...]]:
    """Say what ``winner``, which is ``pipeline``, and ``naive`` RAG would answer if the right passages had been kept.

    Mean R, G and F on the search and the test questions that have gold, each as it is, with the gold put in, with the
    noise taken out, and with gold alone, which is the ceiling of the generator. It asks for up to three answers a
    question and pipeline: ``on_plan`` is told how many, and nothing is done where it says False. What comes of it is
    kept in ``cache``, and `report` shows it with the run.

    Raises:
        UsageError: the file, its documents or a model cannot be used, or nothing is generated.
    """
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline, dataset)
    if loaded.fitness.ranks:
        raise UsageError("this pipeline was tuned for retrieval alone: there is no generator to intervene for")
    setup = loaded.setup
    candidates = {"winner": loaded.candidate, "naive": baseline("naive")}
    if on_plan and not on_plan(answers_of(setup, len(candidates))):
        return {}
    with resources.store() as store, Evaluator(setup, store, resources.workers or setup.workers) as evaluator:
        found = dict(
            zip(candidates, work_out(evaluator, setup, list(candidates.values()), loaded.fitness), strict=True)
        )
        for name, candidate in candidates.items():
            value = {"means": [one.plain() for one in found[name]], "fitness": loaded.fitness.identity}
            store.put_finding(FINDING, evaluator.key(candidate), setup.dataset.digest, value)
    return found
