"""`evaluate`: an exported pipeline scored; `by_protocol`: compared as a published study compares."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Unpack, get_args

from ragsmith.api.arguments import WorkArguments
from ragsmith.api.given import GivenPrices, Resources, read_given_prices
from ragsmith.assessment.protocol import measured
from ragsmith.assessment.scores import Scores, evaluate_changed
from ragsmith.assessment.scores import evaluate as score
from ragsmith.comparison.per_query import PerQuery, read_per_query
from ragsmith.comparison.protocols.hetdocqa import Findings, judge
from ragsmith.datasets.changes import still_answerable
from ragsmith.datasets.dataset import documents_given, make_dataset
from ragsmith.errors import UsageError, WrongOption
from ragsmith.exported.pipeline import Pipeline
from ragsmith.types import Dataset

Protocol = Literal["hetdocqa"]
"""Studies whose rules can be followed; see `ragsmith.comparison.protocols`."""


def evaluate(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    latency: bool = False,
    prices: GivenPrices = None,
    **given: Unpack[WorkArguments],
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
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline, dataset)
    own = resources.workers_for(loaded.setup)
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
        after = resources.pipeline(pipeline, carried)
        with resources.store() as store:
            return evaluate_changed(loaded, after, store, workers=own)
    known = None if prices is None else read_given_prices(prices)
    at_home = dataset is None and (loaded is not pipeline or bool(loaded.expected))
    with resources.store() as store:
        return score(loaded, store, at_home=at_home, workers=own, latency=latency, prices=known)


def by_protocol(
    protocol: Protocol,
    pipeline: Pipeline | str | Path | None = None,
    *,
    against: Sequence[str | Path] = (),
    numbers: PerQuery | str | Path | None = None,
    full: str | None = None,
    dataset: Dataset | str | Path | None = None,
    **given: Unpack[WorkArguments],
) -> Findings:
    """Say what a full system owes to its parts, as a published study decides that.

    >>> found = ragsmith.by_protocol("hetdocqa", "winner.yaml")
    >>> sorted({effect.system for effect in found.effects if effect.claim == "helps"})
    ['without pre_embedding contextual_chunk_headers', 'without retrieval hybrid']

    ``pipeline`` is compared with the files ``against``, or with itself without each of its parts. Or ``numbers`` are
    measures by question of any systems, a file or as read; ``full`` is which of them the others are compared with, the
    first unless it is given.

    Raises:
        UsageError: the files, documents, models or numbers cannot be used.
    """
    if protocol not in get_args(Protocol):
        raise WrongOption("protocol", f"is {protocol!r}: give {' or '.join(get_args(Protocol))}")
    if (pipeline is None) == (numbers is None):
        raise UsageError(
            "the protocol compares either a pipeline with others, or numbers of any systems: name the file of a "
            "pipeline, or --numbers FILE, and not both"
        )
    if numbers is not None:
        if against:
            raise UsageError("--against names pipelines that are run; --numbers have their systems in them")
        return judge(numbers if isinstance(numbers, PerQuery) else read_per_query(numbers), full)
    assert pipeline is not None  # one of the two is there
    if full is not None:
        raise WrongOption("full", "names a system of --numbers; a pipeline is itself the full one")
    resources = Resources(**given)
    loaded = resources.pipeline(pipeline, dataset)
    others = {name: resources.pipeline(name, dataset) for name in dict.fromkeys(map(str, against))}
    own = resources.workers_for(loaded.setup)
    with resources.store() as store:
        return judge(measured(loaded, others, store, workers=own))
