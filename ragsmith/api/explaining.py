"""`explain`: the way of one question through a pipeline; `intervene`: its answers with the gold put in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import CacheArguments, WorkArguments
from ragsmith.api.resources import Resources
from ragsmith.diagnosis.explaining import QuestionExplanation, asked, explained
from ragsmith.diagnosis.interventions import FINDING, Ceiling, answers_of
from ragsmith.diagnosis.interventions import intervene as work_out
from ragsmith.errors import UsageError
from ragsmith.evaluation.baselines import baseline
from ragsmith.evaluation.evaluator import Evaluator
from ragsmith.exported.pipeline import Pipeline
from ragsmith.types import Dataset


def explain(
    pipeline: Pipeline | str | Path,
    question: str,
    *,
    dataset: Dataset | str | Path | None = None,
    **given: Unpack[CacheArguments],
) -> QuestionExplanation:
    """Follow a question through an exported pipeline: what each stage made of it, and the first thing that went wrong.

    >>> way = ragsmith.explain("winner.yaml", "law-024")
    >>> [station.family for station in way.stations][:3]
    ['pre_embedding', 'query_expansion', 'reranking']

    ``question`` is the id of one of the data set, or its text, whatever its case and last punctuation. Any other
    text is
    followed without gold and without a cause, and the ``note`` says so. The other arguments are those of
    `ragsmith.ask`.

    Raises:
        UsageError: the file, its documents or a model cannot be used, or the question is blank or a
            single word that is no id of the data set.
        StageFailed: a stage of the pipeline failed on this question.
    """
    if not question.strip():
        raise UsageError("the question is blank")
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline, dataset)
    with resources.remembering(loaded) as able:
        engine = able.setup.engine(gateway=able.engine.gateway)  # nothing is remembered of another question
        engine.share_collection(able.engine)
        return explained(engine, able.setup, able.candidate, asked(able.setup, question), able.fitness)


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
