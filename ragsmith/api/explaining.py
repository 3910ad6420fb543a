"""`explain`: the way of one question through an exported pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ragsmith.api.asking import loaded_pipeline, remembering
from ragsmith.api.given import CACHE, GivenModels
from ragsmith.diagnosis.explaining import Explained, asked, explained
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.techniques.own import import_files
from ragsmith.types import Dataset

if TYPE_CHECKING:
    from ragsmith.store.store import Store


def explain(
    pipeline: Pipeline | str | Path,
    question: str,
    *,
    dataset: Dataset | str | Path | None = None,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    imports: Sequence[str | Path] = (),
    cache: Store | str | Path = CACHE,
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
    import_files(imports)
    loaded = loaded_pipeline(pipeline, dataset, models, base_url, vector_store)
    with remembering(loaded, cache) as able:
        engine = able.setup.engine(gateway=able.engine.gateway)  # nothing is remembered of another question
        engine.share_collection(able.engine)
        return explained(engine, able.setup, able.candidate, asked(able.setup, question), able.fitness)
