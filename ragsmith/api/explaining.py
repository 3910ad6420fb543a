"""`explain`: the way of one question through an exported pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import CacheArguments
from ragsmith.api.given import Resources
from ragsmith.diagnosis.explaining import Explained, asked, explained
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.types import Dataset


def explain(
    pipeline: Pipeline | str | Path,
    question: str,
    *,
    dataset: Dataset | str | Path | None = None,
    **given: Unpack[CacheArguments],
) -> Explained:
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
