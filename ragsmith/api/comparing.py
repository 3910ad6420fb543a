"""`compare`: two pipelines question by question; and `gate`, which asks whether one is still as good as it was."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from ragsmith.api.given import CACHE, GivenModels, by_role, refuse_no_workers, setup_of
from ragsmith.assessment.gate import MIN_EFFECT, Gated
from ragsmith.assessment.gate import gate as gated
from ragsmith.assessment.junit import junit as junit_of
from ragsmith.assessment.junit import junit_error
from ragsmith.assessment.pairwise import PARTS, SideBySide
from ragsmith.assessment.pairwise import compare as side_by_side
from ragsmith.errors import RagsmithError, UsageError
from ragsmith.evaluation.baselines import BASELINES, baseline
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.pipeline import Pipeline
from ragsmith.pipelines.space_file import load_space
from ragsmith.runs.recommended import recommended_for
from ragsmith.runs.run import stamp
from ragsmith.store.store import Store, opened
from ragsmith.strategies.settings import check_choice
from ragsmith.techniques.own import import_files
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset

RECOMMENDED = "recommended"
NAMES = {**{name: name for name in BASELINES}, "naive_rag": "naive", RECOMMENDED: RECOMMENDED}
"""Pipelines that need no file, by what they are called."""


def compare(
    first: Pipeline | str | Path,
    second: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    split: str = "test",
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    imports: Sequence[str | Path] = (),
    workers: int | None = None,
    cache: Store | str | Path = CACHE,
    now: Callable[[], float] = time.time,
) -> SideBySide:
    """Compare two pipelines question by question, on the ``test`` questions of a data set, its ``search``, or ``all``.

    >>> found = ragsmith.compare("winner.yaml", "naive", dataset="law")
    >>> found.fitness.difference.mean_difference > 0
    True
    >>> found.lost(1)[0].second.answer

    Each is a file, a loaded pipeline, or ``naive``, ``bm25`` or ``recommended``: those run on what the other runs on.
    The data set is that of the first file unless given. Differences are first minus second. On test questions, or all,
    it is a look at them, which is counted: p is adjusted for those before, and ``now`` gives its day.

    Raises:
        UsageError: a file, its documents or a model cannot be used, or there are no such questions.
        NotComparable: the two are on other data, or are not scored alike.
    """
    import_files(imports)
    refuse_no_workers(workers)
    check_choice("split", split, dict.fromkeys(PARTS))
    given = _Given(dataset, models, base_url, vector_store)
    ours, theirs = given.pair(first, second)
    names = _called(first, "first"), _called(second, "second")
    own = workers or max(one.setup.models.workers() for one in (ours, theirs))
    with opened(cache) as store:
        return side_by_side((names[0], ours), (names[1], theirs), store, part=split, workers=own, day=stamp(now())[:10])


def gate(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    against: Pipeline | str | Path | None = None,
    min_effect: float = MIN_EFFECT,
    split: str = "test",
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    imports: Sequence[str | Path] = (),
    workers: int | None = None,
    junit: str | Path | None = None,
    cache: Store | str | Path = CACHE,
    now: Callable[[], float] = time.time,
) -> Gated:
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
        import_files(imports)
        refuse_no_workers(workers)
        check_choice("split", split, dict.fromkeys(PARTS))
        given = _Given(dataset, models, base_url, vector_store)
        named = (pipeline,) if against is None else (pipeline, against)
        found = given.pair(*named) if len(named) > 1 else [given.one(pipeline)]
        rivals = [(_called(one, "the pipeline"), loaded) for one, loaded in zip(named, found, strict=True)]
        own = workers or max(one.setup.models.workers() for one in found)
        with opened(cache) as store:
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


class _Given:
    """Pipelines that were named, on one data set and with the models given."""

    def __init__(
        self, dataset: Dataset | str | Path | None, models: GivenModels, base_url: str | None, vector_store: str | None
    ) -> None:
        self._dataset = dataset
        self._anything = (dataset, models, base_url, vector_store) != (None, None, None, None)
        self._models = models
        self._base_url = base_url
        self._vector_store = vector_store

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
            if self._anything:
                raise UsageError("a loaded pipeline has its data set and models: give others to Pipeline.load")
            return named
        if _baseline(named) is not None:
            raise UsageError(
                f"{str(named)!r} has no file that keeps what it scored: name the file of a pipeline (winner.yaml), or "
                "what it is held against (--against)"
            )
        if not Path(named).is_file():
            near = did_you_mean(str(named), NAMES)
            raise UsageError(f"there is no file {str(named)!r}, nor a pipeline of that name: {near}")
        dataset = self._dataset
        if dataset is None:
            dataset = ExportedFile(Path(named)).named_dataset()
        return Pipeline.load(
            named,
            dataset=dataset,
            models=by_role(self._models),
            base_url=self._base_url,
            vector_store=self._vector_store,
        )

    def _named(self, name: str, other: Pipeline | None) -> Pipeline:
        """A pipeline that needs no file, on what the other runs on; on the data set and models given, without one."""
        load_techniques()
        if other is None:
            if self._dataset is None:
                raise UsageError(f"{name} runs on any documents: name a data set with --dataset")
            setup = setup_of(self._dataset, self._models, self._base_url, self._vector_store, None)
            other = Pipeline((), setup)
        setup, fitness = other.setup, other.fitness
        kind = NAMES[name]
        candidate = recommended_for(setup, load_space("default"), fitness) if kind == RECOMMENDED else baseline(kind)
        if candidate is None:
            raise UsageError("other data sets recommend no pipeline for these documents: name another")
        return Pipeline(candidate, setup, fitness=fitness)


def _baseline(named: Pipeline | str | Path) -> str | None:
    """What a pipeline that needs no file is called; None for a file, or one that is loaded."""
    return NAMES.get(str(named)) if isinstance(named, str | Path) and not Path(named).is_file() else None


def _called(named: Pipeline | str | Path, otherwise: str) -> str:
    return otherwise if isinstance(named, Pipeline) else str(named)
