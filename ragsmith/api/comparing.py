"""`evaluate`, `compare` and `gate`: pipelines scored, side by side, and against their earlier scores."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import WorkArguments
from ragsmith.api.resources import PriceSpec, Resources, read_given_prices
from ragsmith.assessment.gate import MIN_EFFECT, GateResult, junit_error
from ragsmith.assessment.gate import gate as gated
from ragsmith.assessment.gate import junit as junit_of
from ragsmith.assessment.pairwise import PARTS, PairwiseComparison
from ragsmith.assessment.pairwise import compare as side_by_side
from ragsmith.assessment.scores import PipelineScores, evaluate_changed
from ragsmith.assessment.scores import evaluate as score
from ragsmith.datasets.changes import still_answerable
from ragsmith.datasets.dataset import load_documents_option, make_dataset
from ragsmith.errors import RagsmithError, UsageError
from ragsmith.evaluation.baselines import BASELINES, baseline
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.space_file import load_space
from ragsmith.runs.recommended import recommend_candidate
from ragsmith.runs.run_context import timestamp
from ragsmith.strategies.settings import check_choice
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset


def evaluate(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    latency: bool = False,
    prices: PriceSpec = None,
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


RECOMMENDED = "recommended"
NAMES = {**{name: name for name in BASELINES}, "naive_rag": "naive", RECOMMENDED: RECOMMENDED}
"""Pipelines that need no file, by what they are called."""


def compare(
    first: Pipeline | str | Path,
    second: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    split: str = "test",
    now: Callable[[], float] = time.time,
    **given: Unpack[WorkArguments],
) -> PairwiseComparison:
    """Compare two pipelines question by question, on the ``test`` questions of a data set, its ``search``, or ``all``.

    >>> found = ragsmith.compare("winner.yaml", "naive", dataset="law")
    >>> found.fitness.difference.mean_difference > 0
    True
    >>> found.lost(1)[0].second.answer  # doctest: +SKIP

    Each is a file, a loaded pipeline, or ``naive``, ``bm25`` or ``recommended``: those run on what the other runs on.
    The data set is that of the first file unless given. Differences are first minus second. On test questions, or all,
    it is a look at them, which is counted: p is adjusted for those before, and ``now`` gives its day.

    Raises:
        UsageError: a file, its documents or a model cannot be used, or there are no such questions.
        NotComparable: the two are on other data, or are not scored alike.
    """
    resources = Resources(**given)
    check_choice("split", split, dict.fromkeys(PARTS))
    ours, theirs = _Named(dataset, resources).pair(first, second)
    names = _called(first, "first"), _called(second, "second")
    own = resources.workers_for(ours.setup, theirs.setup)
    with resources.store() as store:
        return side_by_side(
            (names[0], ours), (names[1], theirs), store, part=split, workers=own, day=timestamp(now())[:10]
        )


def gate(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    against: Pipeline | str | Path | None = None,
    min_effect: float = MIN_EFFECT,
    split: str = "test",
    junit: str | Path | None = None,
    now: Callable[[], float] = time.time,
    **given: Unpack[WorkArguments],
) -> GateResult:
    """Say whether a pipeline is still as good as it was: it fails if it is shown to be worse, by more than that.

    >>> ragsmith.gate("winner.yaml", dataset="law", min_effect=0.02).passed
    True

    What it was is the scores of single test questions that its file keeps; or, where there is one to run ``against``,
    that pipeline on the questions of ``split``. ``min_effect`` is a difference of fitness. ``junit`` names a file for
    the result as JUnit XML, which has an error and why, where nothing could be compared.

    Raises:
        UsageError: a file, its documents or a model cannot be used, or the file keeps no scores.
        NotComparable: the documents, the questions, or what makes scores are others than they were.
    """
    began = now()
    try:
        resources = Resources(**given)
        check_choice("split", split, dict.fromkeys(PARTS))
        known = _Named(dataset, resources)
        named = (pipeline,) if against is None else (pipeline, against)
        found = known.pair(*named) if len(named) > 1 else [known.one(pipeline)]
        rivals = [(_called(one, "the pipeline"), loaded) for one, loaded in zip(named, found, strict=True)]
        own = resources.workers_for(*(one.setup for one in found))
        with resources.store() as store:
            base = rivals[1] if len(rivals) > 1 else None
            result = gated(rivals[0], base, store, min_effect=min_effect, part=split, workers=own)
    except RagsmithError as error:
        if junit is not None:
            write_file(
                junit_error(_called(pipeline, "the pipeline"), str(error), seconds=now() - began, now=began),
                Path(junit),
            )
        raise
    if junit is not None:
        write_file(junit_of(result, seconds=now() - began, now=began), Path(junit))
    return result


class _Named:
    """Pipelines that were named, on one data set and with the models given."""

    def __init__(self, dataset: Dataset | str | Path | None, resources: Resources) -> None:
        self._given = self._dataset = dataset
        self._resources = resources

    def pair(self, first: Pipeline | str | Path, second: Pipeline | str | Path) -> list[Pipeline]:
        """Both of two, on the data set given, or else on that of the first that names one."""
        loaded: list[Pipeline | None] = [None, None]
        for place, named in enumerate((first, second)):
            if _baseline(named) is None:
                loaded[place] = self.one(named)
                self._dataset = self._dataset or loaded[place].setup.dataset  # type: ignore[union-attr]
        other = next(filter(None, loaded), None)
        return [found or self._named(str(named), other) for named, found in zip((first, second), loaded, strict=True)]

    def one(self, named: Pipeline | str | Path) -> Pipeline:
        """The pipeline of a file, on its data set as it is now unless another is given."""
        if isinstance(named, Pipeline):
            return self._resources.pipeline(named, self._given)
        if _baseline(named) is not None:
            raise UsageError(
                f"{str(named)!r} has no file that keeps what it scored: name the file of a pipeline (winner.yaml), or "
                "what it is held against (--against)"
            )
        if not Path(named).is_file():
            near = did_you_mean(str(named), NAMES)
            raise UsageError(f"there is no file {str(named)!r}, nor a pipeline of that name: {near}")
        own = self._dataset is None
        return self._resources.pipeline(named, ExportedFile(Path(named)).named_dataset() if own else self._dataset)

    def _named(self, name: str, other: Pipeline | None) -> Pipeline:
        """A pipeline that needs no file, on what the other runs on; on the data set and models given, without one."""
        load_techniques()
        if other is None:
            if self._dataset is None:
                raise UsageError(f"{name} runs on any documents: name a data set with --dataset")
            other = Pipeline((), self._resources.setup(self._dataset))
        setup, fitness, kind = other.setup, other.fitness, NAMES[name]
        recommended = kind == RECOMMENDED
        candidate = recommend_candidate(setup, load_space("default"), fitness) if recommended else baseline(kind)
        if candidate is None:
            raise UsageError("other data sets recommend no pipeline for these documents: name another")
        return Pipeline(candidate, setup, fitness=fitness)


def _baseline(named: Pipeline | str | Path) -> str | None:
    """What a pipeline that needs no file is called; None for a file, or one that is loaded."""
    return NAMES.get(str(named)) if isinstance(named, str | Path) and not Path(named).is_file() else None


def _called(named: Pipeline | str | Path, otherwise: str) -> str:
    return otherwise if isinstance(named, Pipeline) else str(named)
