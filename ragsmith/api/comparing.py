"""`evaluate`, `compare` and `gate`: evaluation of pipelines, paired comparison, and regression tests."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Unpack, cast

from ragsmith.api.arguments import WorkArguments
from ragsmith.api.resources import PriceSpec, Resources, SystemSpec, describe_source, read_given_prices, require_file
from ragsmith.argument_types import checked
from ragsmith.assessment.final_test import FinalTest, Part
from ragsmith.assessment.final_test import final_test as test_pipeline
from ragsmith.assessment.gate import MIN_EFFECT, GateResult, to_junit, to_junit_error
from ragsmith.assessment.gate import gate as run_gate
from ragsmith.assessment.pairwise import PARTS, PairwiseComparison, check_comparable
from ragsmith.assessment.pairwise import compare as compare_pipelines
from ragsmith.assessment.scores import PipelineScores, evaluate_changed
from ragsmith.assessment.scores import evaluate as score_pipeline
from ragsmith.datasets.anchoring.other_documents import put_on_documents
from ragsmith.datasets.dataset import load_documents_option
from ragsmith.errors import RagsmithError, UsageError, WrongOption
from ragsmith.evaluation.baselines import BASELINES, baseline
from ragsmith.exported.file import ExportedFile
from ragsmith.exported.pipeline import Pipeline
from ragsmith.exported.reference import Reference
from ragsmith.pipelines.space_file import load_space
from ragsmith.runs.recommended import recommend_candidate
from ragsmith.runs.run_context import timestamp
from ragsmith.strategies.settings import check_choice
from ragsmith.systems.loading import is_system
from ragsmith.systems.system import System
from ragsmith.techniques.registry import load_techniques
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset


@checked
def evaluate(
    pipeline: SystemSpec,
    *,
    dataset: Dataset | str | Path | None = None,
    documents: str | Path | None = None,
    split: str | None = None,
    latency: bool = False,
    prices: PriceSpec = None,
    on_look: Callable[[str], None] | None = None,
    now: Callable[[], float] = time.time,
    **given: Unpack[WorkArguments],
) -> PipelineScores:
    """Score a pipeline on the questions of its data set, or of another one; or another system, on those of ``dataset``.

    Another system is a file of rows, an address, ``FILE.py:function`` or a function; see the page on systems. The
    ``split`` is ``search``, ``test`` or ``all``; the last two are a look at test questions (see `compare`), unless the
    search of the pipeline has tested it. By default, all questions of another data set are scored, and those of the
    search of the pipeline, with the test questions that it has tested on.
    With ``latency``, every question is also timed by stage of the pipeline; a report on the same cache shows the latest
    timings. With ``prices``, the cost of 1,000 questions is returned. With a folder of changed ``documents``, the
    pipeline is scored on the exported and on the changed documents (``before`` and ``after``), on the questions whose
    evidence is found there.

    >>> scores = ragsmith.evaluate("winner.yaml")
    >>> {part: scored.attempted for part, scored in scores.parts.items()}
    {'search': 108, 'test': 92}

    Raises:
        UsageError: the file, its documents or a model cannot be used.
    """
    resources = Resources(**given)
    if split is not None:
        check_choice("split", split, PARTS)
    if documents is not None:
        _check_changeable(pipeline)
    loaded = resources.assessed(pipeline, dataset)
    workers = resources.workers_for(loaded.setup)
    if documents is not None:
        others = dataset or split or latency or prices is not None
        if others or not isinstance(pipeline, str | Path):
            raise WrongOption(
                "documents", "compares a pipeline's file before and after: leave out dataset, split, latency and prices"
            )
        after = _on_documents(pipeline, loaded, documents, resources)
        with resources.store() as store:
            return evaluate_changed(loaded, after, store, workers=workers)
    price_table = None if prices is None else read_given_prices(prices)
    at_home = dataset is None and (loaded is not pipeline or bool(loaded.expected))
    with resources.store() as store:
        return score_pipeline(
            loaded,
            store,
            at_home=at_home,
            part=split,
            workers=workers,
            latency=latency,
            prices=price_table,
            day=timestamp(now())[:10],
            on_look=on_look,
        )


def _check_changeable(pipeline: SystemSpec) -> None:
    """Raise `UsageError` if ``pipeline`` cannot be put on the documents of the option ``documents``."""
    if is_system(pipeline):
        raise WrongOption(
            "documents", "changes the documents of a pipeline, and another system has its own: leave it out"
        )


def _on_documents(pipeline: SystemSpec, loaded: Pipeline, documents: str | Path, resources: Resources) -> Pipeline:
    """Return the pipeline of a file, which is ``loaded`` on its data set, on a folder of other ``documents``."""
    data = put_on_documents(loaded.setup.dataset, load_documents_option(documents))
    return resources.pipeline(cast("Pipeline | str | Path", pipeline), data)


RECOMMENDED = "recommended"
NAMES = {**{name: name for name in BASELINES}, "naive_rag": "naive", RECOMMENDED: RECOMMENDED}
"""Canonical names of the pipelines without a file, by name."""


@checked
def compare(
    first: SystemSpec,
    second: SystemSpec,
    *,
    dataset: Dataset | str | Path | None = None,
    split: str = "search",
    on_look: Callable[[str], None] | None = None,
    now: Callable[[], float] = time.time,
    **given: Unpack[WorkArguments],
) -> PairwiseComparison:
    """Compare two pipelines question by question, on the ``search``, ``test`` or ``all`` questions of a data set.

    >>> found = ragsmith.compare("winner.yaml", "naive", dataset="law")
    >>> found.fitness.difference.mean_difference > 0
    True
    >>> found.lost(1)[0].second.answer  # doctest: +SKIP

    Each pipeline is a file, a loaded pipeline, or ``naive``, ``bm25`` or ``recommended``; the named ones use the data
    set and models of the other pipeline. Each may also be another system, as in `evaluate`. The default data set is
    that of the first file. Differences are first minus second. On search questions, a pipeline that was chosen on them
    is flattered, and the notes say so. A comparison on test questions counts as a use of the test set: its p-value is
    adjusted for earlier uses, ``on_look`` is called before with a sentence on what it costs, and ``now`` is the clock
    for its date.

    Raises:
        UsageError: a file, its documents or a model cannot be used, or there are no such questions.
        NotComparable: the two have different data, or are scored differently.
    """
    resources = Resources(**given)
    check_choice("split", split, PARTS)
    names = _display_name(first, "first"), _display_name(second, "second")
    if names[0] == names[1]:
        raise UsageError(f"{names[0]} is given twice: name another pipeline to compare it with")
    ours, theirs = _PipelineLoader(dataset, resources).load_all(first, second)
    workers = resources.workers_for(ours.setup, theirs.setup)
    with resources.store() as store:
        day = timestamp(now())[:10]
        return compare_pipelines(
            (names[0], ours), (names[1], theirs), store, part=split, workers=workers, day=day, on_look=on_look
        )


@checked
def compare_all(
    first: SystemSpec,
    *others: SystemSpec,
    dataset: Dataset | str | Path | None = None,
    split: str = "search",
    on_look: Callable[[str], None] | None = None,
    now: Callable[[], float] = time.time,
    **given: Unpack[WorkArguments],
) -> FinalTest:
    """Compare a pipeline or another system with each of ``others``, as one family of comparisons; see `compare`.

    Raises:
        UsageError: one of them cannot be used, or is given twice, or there are no such questions.
        NotComparable: two of them have different data, or are scored differently.
    """
    resources = Resources(**given)
    check_choice("split", split, PARTS)
    names = [_display_name(one, f"number {place}") for place, one in enumerate((first, *others), 1)]
    if repeated := next((name for name in names if names.count(name) > 1), ""):
        raise UsageError(f"{repeated} is given twice: leave one out")
    loaded = _PipelineLoader(dataset, resources).load_all(first, *others)
    for name, other in zip(names[1:], loaded[1:], strict=True):
        check_comparable(names[0], loaded[0], name, other)
    workers = resources.workers_for(*(one.setup for one in loaded))
    named, rivals = (names[0], loaded[0]), dict(zip(names[1:], loaded[1:], strict=True))
    with resources.store() as store:
        day = timestamp(now())[:10]
        return test_pipeline(named, rivals, store, part=cast(Part, split), workers=workers, day=day, on_look=on_look)


@checked
def final_test(
    pipeline: Pipeline | str | Path,
    *,
    dataset: Dataset | str | Path | None = None,
    on_look: Callable[[str], None] | None = None,
    now: Callable[[], float] = time.time,
    **given: Unpack[WorkArguments],
) -> FinalTest:
    """Test a pipeline on test questions against naive RAG, BM25 and the recommended pipeline, as one family.

    >>> print(ragsmith.final_test("winner.yaml", on_look=print).decision.verdict)  # doctest: +SKIP
    This is look 2 at these questions (ledger: ~/.local/share/ragsmith/looks.sqlite): tested at 0.025, later at half.
    Better than naive RAG and BM25. No difference from the recommended pipeline shown.

    It counts as a use of the test set, like the test at the end of a search: ``on_look`` is called with a sentence on
    what it costs before anything is computed. ``now`` is the clock for its date.

    Raises:
        UsageError: the file, its documents or a model cannot be used, there are no test questions, or the pipeline was
            chosen on all questions.
    """
    resources = Resources(**given)
    loader = _PipelineLoader(dataset, resources)
    ours = loader.load(pipeline)
    rivals: dict[str, Pipeline] = {}
    for name in (*BASELINES, RECOMMENDED):
        other = loader.find_named(name, ours)
        if other and other.candidate not in [one.candidate for one in (ours, *rivals.values())]:
            rivals[name] = other
    named = _display_name(pipeline, "the pipeline"), ours
    workers = resources.workers_for(ours.setup)
    with resources.store() as store:
        return test_pipeline(named, rivals, store, workers=workers, day=timestamp(now())[:10], on_look=on_look)


@checked
def gate(
    pipeline: SystemSpec,
    *,
    dataset: Dataset | str | Path | None = None,
    against: SystemSpec | None = None,
    stored: bool = False,
    documents: str | Path | None = None,
    min_effect: Annotated[float, "a difference of fitness, such as 0.02"] = MIN_EFFECT,
    split: str = "test",
    junit: str | Path | None = None,
    now: Callable[[], float] = time.time,
    **given: Unpack[WorkArguments],
) -> GateResult:
    """Test a pipeline for a regression: it fails if it is significantly worse, by more than ``min_effect``.

    It also fails if the share of questions without an answer that it declines fell as significantly, and by as much.

    >>> ragsmith.gate("winner.yaml", dataset="law", min_effect=0.02).passed
    True

    The reference is the scores by test question that its file stores; or, if given, the pipeline ``against`` on the
    questions of ``split``; with ``stored``, the scores in the file ``against``, whose pipeline and own code are not
    loaded. With a folder of changed ``documents``, the pipeline answers from them, and the reference is
    on the documents of ``dataset``; so are the questions, whose evidence is located in the changed documents.
    ``min_effect`` is a difference of fitness. ``junit`` is a file for the result as JUnit XML,
    which has an error with the reason if there is no comparison.

    Raises:
        UsageError: a file, its documents or a model cannot be used, or the file has no scores.
        NotComparable: the documents, the questions or the scoring have changed, or evidence is not in ``documents``.
    """
    began = now()
    try:
        resources = Resources(**given)
        if documents is not None:
            _check_changeable(pipeline)
        check_choice("split", split, PARTS)
        loader = _PipelineLoader(dataset, resources)
        kept = _read_scores(against) if stored else None
        named = (pipeline,) if against is None or kept else (pipeline, against)
        alone = len(named) == 1 and not is_system(pipeline)
        pipelines = [loader.load(cast("Pipeline | str | Path", pipeline))] if alone else loader.load_all(*named)
        rivals = [(_display_name(one, "the pipeline"), loaded) for one, loaded in zip(named, pipelines, strict=True)]
        workers = resources.workers_for(*(one.setup for one in pipelines))
        changed = None if documents is None else _on_documents(pipeline, pipelines[0], documents, resources)
        with resources.store() as store:
            reference = rivals[1] if len(rivals) > 1 else kept
            result = run_gate(
                rivals[0],
                reference,
                store,
                changed=changed,
                min_effect=min_effect,
                part=split,
                workers=workers,
                day=timestamp(began)[:10],
            )
    except RagsmithError as error:
        if junit is not None:
            write_file(
                to_junit_error(_display_name(pipeline, "the pipeline"), str(error), seconds=now() - began, now=began),
                Path(junit),
            )
        raise
    if junit is not None:
        write_file(to_junit(result, seconds=now() - began, now=began), Path(junit))
    return result


def _read_scores(against: SystemSpec | None) -> tuple[str, Reference | None]:
    """Return the name and the stored scores of the file of a pipeline, which is not loaded."""
    if not isinstance(against, str | Path) or _baseline_name(against):
        raise WrongOption("against", "BASE.yaml names one", "stored scores are taken from the file of a pipeline")
    return str(against), ExportedFile(require_file(against)).reference()


class _PipelineLoader:
    """Loader of pipelines by name or file, on one data set and with given models."""

    def __init__(self, dataset: Dataset | str | Path | None, resources: Resources) -> None:
        self._given = self._dataset = dataset
        self._resources = resources

    def load_all(self, *named: SystemSpec) -> list[Pipeline]:
        """Return the pipelines, on the given data set or else on that of the first file.

        Other systems and pipelines without a file have the models of the first pipeline with a file.
        """
        loaded: dict[int, Pipeline] = {}
        for place, one in enumerate(named):
            if isinstance(one, Pipeline) or not (_baseline_name(one) or is_system(one)):
                loaded[place] = self.load(cast("Pipeline | str | Path", one))
                self._dataset = self._dataset or loaded[place].setup.dataset
        for place, one in enumerate(named):
            if place not in loaded and not _baseline_name(one):
                like = next(iter(loaded.values()), None)
                loaded[place] = self._resources.system(one, self._dataset, like)
        other = next(iter(loaded.values()), None)
        return [loaded.get(place) or self._load_baseline(str(one), other) for place, one in enumerate(named)]

    def load(self, named: Pipeline | str | Path) -> Pipeline:
        """Return the pipeline of a file, on the current state of its data set or on the given one."""
        if isinstance(named, Pipeline):
            return self._resources.pipeline(named, self._given)
        if _baseline_name(named) is not None:
            raise UsageError(
                f"{str(named)!r} has no file with its scores: name the file of a pipeline (winner.yaml), or the "
                "pipeline to compare with (--against)"
            )
        if is_system(named):
            require_file(named)
        if not Path(named).is_file():
            near = did_you_mean(str(named), NAMES)
            raise UsageError(f"there is no file {str(named)!r}, nor a pipeline of that name: {near}")
        dataset = ExportedFile(Path(named)).named_dataset() if self._dataset is None else self._dataset
        return self._resources.pipeline(named, dataset)

    def _load_baseline(self, name: str, other: Pipeline | None) -> Pipeline:
        """Return a pipeline without a file, on the experiment of ``other`` or else on the given data set."""
        load_techniques()
        if other is None:
            if self._dataset is None:
                raise WrongOption("dataset", f"is missing: name the data set that {name} runs on")
            other = Pipeline((), self._resources.setup(self._dataset))
        if (found := self.find_named(NAMES[name], other)) is None:
            raise UsageError("other data sets recommend no pipeline for these documents: name another")
        return found

    @staticmethod
    def find_named(kind: str, other: Pipeline) -> Pipeline | None:
        """Return the pipeline of a canonical name on the experiment of ``other``; None if none is recommended."""
        setup, fitness = other.base if isinstance(other, System) else other.setup, other.fitness
        recommended = kind == RECOMMENDED
        candidate = recommend_candidate(setup, load_space("default"), fitness) if recommended else baseline(kind)
        return None if candidate is None else Pipeline(candidate, setup, fitness=fitness)


def _baseline_name(named: SystemSpec) -> str | None:
    """Return the canonical name of a pipeline without a file; None for a file or a loaded pipeline."""
    return NAMES.get(str(named)) if isinstance(named, str | Path) and not Path(named).is_file() else None


def _display_name(named: SystemSpec, default: str) -> str:
    return default if isinstance(named, Pipeline) else describe_source(named, default)
