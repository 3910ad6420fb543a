"""`evaluate`: an exported pipeline scored."""

from __future__ import annotations

from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import WorkArguments
from ragsmith.api.resources import GivenPrices, Resources, read_given_prices
from ragsmith.assessment.scores import PipelineScores, evaluate_changed
from ragsmith.assessment.scores import evaluate as score
from ragsmith.datasets.changes import still_answerable
from ragsmith.datasets.dataset import load_documents_option, make_dataset
from ragsmith.errors import UsageError
from ragsmith.exported.pipeline import Pipeline
from ragsmith.types import Dataset


def evaluate(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    latency: bool = False,
    prices: GivenPrices = None,
    **given: Unpack[WorkArguments],
) -> PipelineScores:
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
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline, dataset)
    own = resources.workers_for(loaded.setup)
    if documents is not None:
        if dataset is not None or latency or prices is not None or isinstance(pipeline, Pipeline):
            raise UsageError("--documents compares a file's scores before and after: leave out what else is measured")
        data, now = loaded.setup.dataset, load_documents_option(documents).documents
        carried = make_dataset(
            {"name": data.name},
            now,
            still_answerable(data.examples, data.documents, now),
            languages={document.id: document.language for document in now},
        )
        after = resources.pipeline(pipeline, carried)
        with resources.store() as store:
            return evaluate_changed(loaded, after, store, workers=own)
    known = None if prices is None else read_given_prices(prices)
    at_home = dataset is None and (loaded is not pipeline or bool(loaded.expected))
    with resources.store() as store:
        return score(loaded, store, at_home=at_home, workers=own, latency=latency, prices=known)
