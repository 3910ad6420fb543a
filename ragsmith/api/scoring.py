"""`evaluate`: an exported pipeline scored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ragsmith.api.asking import loaded_pipeline
from ragsmith.api.given import CACHE, GivenModels, GivenPrices, refuse_no_workers
from ragsmith.datasets.changes import still_answerable
from ragsmith.datasets.dataset import documents_given, make_dataset
from ragsmith.errors import UsageError
from ragsmith.gateway.budget import Prices, read_prices
from ragsmith.reporting.scores import Scores, evaluate_changed
from ragsmith.reporting.scores import evaluate as score
from ragsmith.runs.pipeline import Pipeline
from ragsmith.store.store import Store, opened
from ragsmith.techniques.own import import_files
from ragsmith.types import Dataset


def evaluate(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    imports: Sequence[str | Path] = (),
    workers: int | None = None,
    latency: bool = False,
    prices: GivenPrices = None,
    cache: Store | str | Path = CACHE,
) -> Scores:
    """Score a pipeline on the questions of its data set, or of another; with ``latency``, time every question too.

    Timings are by station of the pipeline, and a report on the same cache shows the last ones. With ``prices`` it is
    said what 1,000 questions cost. With a folder of ``documents``, the pipeline is scored on those that it was found
    on and on these, ``before`` and ``after``, by the questions whose evidence is still there.

    >>> scores = ragsmith.evaluate("winner.yaml")
    >>> {part: scored.attempted for part, scored in scores.parts.items()}
    {'search': 100, 'test': 100}

    Raises:
        UsageError: the file, its documents or a model cannot be used.
    """
    import_files(imports)
    refuse_no_workers(workers)
    loaded = loaded_pipeline(pipeline, dataset, models, base_url, vector_store)
    own = workers or loaded.setup.models.workers()
    if documents is not None:
        if dataset is not None or latency or prices is not None or isinstance(pipeline, Pipeline):
            raise UsageError("--documents compares a file's scores before and after: leave out what else is measured")
        data, now = loaded.setup.dataset, documents_given(documents).documents
        carried = make_dataset(
            {"name": data.name},
            now,
            still_answerable(data.examples, data.documents, now),
            languages={document.id: document.language for document in now},
        )
        after = loaded_pipeline(pipeline, carried, models, base_url, vector_store)
        with opened(cache) as store:
            return evaluate_changed(loaded, after, store, workers=own)
    known = prices if prices is None or isinstance(prices, Prices) else read_prices(prices)
    at_home = dataset is None and (loaded is not pipeline or bool(loaded.expected))
    with opened(cache) as store:
        return score(loaded, store, at_home=at_home, workers=own, latency=latency, prices=known)
