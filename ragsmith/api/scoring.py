"""`evaluate`: an exported pipeline scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragsmith.api.asking import loaded_pipeline
from ragsmith.api.given import CACHE, GivenModels, refuse_no_workers
from ragsmith.reporting.scores import Scores
from ragsmith.reporting.scores import evaluate as score
from ragsmith.runs.pipeline import Pipeline
from ragsmith.store.store import Store, opened
from ragsmith.techniques.own import import_files
from ragsmith.types import Dataset


def evaluate(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    imports: Sequence[str | Path] = (),
    workers: int | None = None,
    latency: bool = False,
    cache: Store | str | Path = CACHE,
) -> Scores:
    """Score a pipeline on the questions of its data set, or of another; with ``latency``, time every question too.

    >>> scores = ragsmith.evaluate("winner.yaml")
    >>> {part: scored.attempted for part, scored in scores.parts.items()}
    {'search': 65, 'test': 29}

    Raises:
        UsageError: the file, its documents or a model cannot be used.
    """
    import_files(imports)
    refuse_no_workers(workers)
    loaded = loaded_pipeline(pipeline, dataset, models, base_url, vector_store)
    own = workers or loaded.setup.models.workers()
    at_home = dataset is None and (loaded is not pipeline or bool(loaded.expected))
    with opened(cache) as store:
        return score(loaded, store, at_home=at_home, workers=own, latency=latency)
