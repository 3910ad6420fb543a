"""`check_models`, `audit` and `recommend`: models, options and documents, before a search."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Unpack

from ragsmith.api.arguments import ModelArguments, WorkArguments
from ragsmith.api.resources import (
    FitnessSpec,
    ModelSpec,
    Resources,
    SpaceSpec,
    reject_fixed_dimensions,
    resolve_pipeline_space,
    warn_unsupported_languages,
)
from ragsmith.argument_types import checked
from ragsmith.datasets.annotations import FILE as ANNOTATIONS
from ragsmith.datasets.bundled import ALL_DOMAINS, bundled_domains, find_bundled
from ragsmith.datasets.dataset import load_dataset, load_documents
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.effects.knowledge import Knowledge, read_effects
from ragsmith.errors import WrongOption
from ragsmith.evaluation.experiment import CHUNK_SIZE, Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.measures.judge_calibration import Calibration
from ragsmith.records.audit import Audit
from ragsmith.reporting.audit import audit_markdown, audit_page
from ragsmith.runs.audit import audit as run_audit
from ragsmith.runs.audit import sample_questions as draw_sample
from ragsmith.runs.check import ModelCheck
from ragsmith.runs.check import check_models as run_check
from ragsmith.runs.recommended import RecommendationResult
from ragsmith.runs.recommended import recommend as recommend_pipelines
from ragsmith.store.store import Store, open_store
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset


@checked
def check_models(
    models: ModelSpec = None,
    *,
    space: SpaceSpec = "default",
    base_url: str | None = None,
    faithfulness: bool | None = None,
    judge_cases: bool = True,
    calibration: str | Path | Sequence[str | Path] = (),
    imports: str | Path | Sequence[str | Path] = (),
    cache: Store | str | Path | None = None,
    on_start: Callable[[int], None] | None = None,
    on_change: Callable[[Sequence[ModelCheck]], None] | None = None,
) -> tuple[ModelCheck, ...]:
    """Send every model one request per language task of ``space``, or one for vectors or scores, and check the replies.

    >>> [(checked.role, checked.ok) for checked in ragsmith.check_models(judge_cases=False)]
    [('language_model', True), ('embedder', True), ('cross_encoder', True)]

    The question and the passages come from a bundled data set. With ``judge_cases`` the judge also scores 180 answers
    with a known order, which measures its error rate. ``calibration`` names annotated data sets, or is ``"all"`` for
    all annotated bundled domains: the judge scores a correct and a wrong answer to each of their questions, and
    ``calibrated`` of the returned check has its accuracy on them. Capabilities of models are stored in ``cache``, where
    a search finds them. ``on_start`` is called with the maximum number of requests, to which every truncated or
    unreadable reply and every refused parameter adds one, and ``on_change`` whenever a task ends, with all checks so
    far. The other arguments are those of `search`.

    Raises:
        UsageError: the space or a model cannot be used, or the space searches over a model that is given.
    """
    resources = Resources(models, base_url, imports=imports)
    search_space = resolve_pipeline_space(space)
    reject_fixed_dimensions(search_space, None, models)
    names, objects = resources.resolve_models()
    check = partial(
        run_check,
        names,
        search_space,
        given=objects,
        faithfulness=faithfulness,
        judge_cases=judge_cases,
        calibrations=[Calibration.read(one) for one in _list_calibrations(calibration)],
        on_start=on_start,
        on_change=on_change,
    )
    if cache is None:
        return check()
    with open_store(cache) as store:
        return check(store=store)


def _list_calibrations(calibration: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """Return the distinct data sets to calibrate with; ``"all"`` means all annotated bundled domains."""
    listed = [calibration] if isinstance(calibration, str | Path) else calibration
    annotated = [name for name in bundled_domains() if (find_bundled("datasets", name) / ANNOTATIONS).is_file()]
    if ALL_DOMAINS in listed and not annotated:
        raise WrongOption(
            "calibration", f"is {ALL_DOMAINS}, and no bundled domain has {ANNOTATIONS}: give a folder with that file"
        )
    return list(dict.fromkeys(name for each in listed for name in (annotated if each == ALL_DOMAINS else [each])))


@checked
def audit(
    dataset: Dataset | str | Path,
    *,
    space: SpaceSpec = "seeds",
    sample: int = 50,
    seed: int = 0,
    fitness: FitnessSpec = None,
    chunk_size: int | None = None,
    output: str | Path | None = None,
    **given: Unpack[WorkArguments],
) -> Audit:
    """Evaluate every option of ``space`` alone on ``sample`` search questions: its effects, costs and gains.

    ``seed`` is the random seed of the sample, and ``output`` a file for the tables: an HTML page if its suffix is
    ``.html``, else Markdown. All pairs of options of a family are compared, too: ``pairs`` has the number of questions
    on which the two differ.

    Raises:
        UsageError: as for `search`, or the folder of ``output`` does not exist.
    """
    [found] = audits(
        [dataset],
        space=space,
        sample=sample,
        seed=seed,
        fitness=fitness,
        chunk_size=chunk_size,
        output=output,
        **given,
    )
    return found


@checked
def audits(
    datasets: Sequence[Dataset | str | Path],
    *,
    space: SpaceSpec = "seeds",
    sample: int = 50,
    seed: int = 0,
    fitness: FitnessSpec = None,
    chunk_size: int | None = None,
    output: str | Path | None = None,
    **given: Unpack[WorkArguments],
) -> tuple[Audit, ...]:
    """Run `audit` on each of ``datasets``; ``output`` also has a table of the pairs over all of them.

    Raises:
        UsageError: as for `audit`, or there is no data set.
    """
    resources = Resources(**given)
    if output is not None and not Path(output).parent.is_dir():
        raise WrongOption("output", f"{output}: the folder {Path(output).parent} does not exist: create it first")
    if output is not None and Path(output).is_dir():
        raise WrongOption("output", f"{output} is a folder: name a file in it")
    if not datasets:
        raise WrongOption("dataset", "is missing: name at least one")
    search_space = resolve_pipeline_space(space)
    chosen = Fitness.from_spec(fitness)
    setups = [resources.setup(dataset, chunk_size) for dataset in datasets]
    samples = [draw_sample(setup, sample, seed) for setup in setups]
    with resources.store() as store:
        audited = tuple(
            run_audit(setup, search_space, store, questions, workers=resources.workers_for(setup), fitness=chosen)
            for setup, questions in zip(setups, samples, strict=True)
        )
    if output is not None:
        is_html = Path(output).suffix == ".html"
        write_file(audit_page(audited) if is_html else audit_markdown(audited), Path(output), warn=True)
    return audited


@checked
def recommend(
    documents: Annotated[Dataset | str | Path, "one folder or data set, by path or name, or a Dataset"],
    *,
    calls: Annotated[int | None, "a whole number, or None for any"] = None,
    space: SpaceSpec = "default",
    fitness: FitnessSpec = None,
    chunk_size: int | None = None,
    effects: Knowledge | str | Path | None = None,
    output: str | Path | None = None,
    **given: Unpack[ModelArguments],
) -> RecommendationResult:
    """Recommend a pipeline for documents without questions, from the effects learned on other data sets.

    >>> found = ragsmith.recommend("law", calls=1)
    >>> [round(one.calls) for one in found.classes][0], found.left_out
    (1, ('law',))

    ``documents`` is a folder of documents, or a data set, whose questions are not read. ``calls`` is the maximum number
    of language model calls per question, by default unlimited. ``effects`` is a file of learned effects or its content,
    by default the file bundled with ragsmith. ``output`` is a file for the pipeline, which `ask` accepts. No model is
    called. The other arguments are those of `search`.

    Raises:
        UsageError: the documents, the space or a model cannot be used.
    """
    resources = Resources(**given)
    if calls is not None and calls < 1:
        raise WrongOption("calls", f"is {calls}: give at least 1, for the answer")
    chosen, objects = resources.resolve_models()
    folder = None if isinstance(documents, Dataset) else Path(documents)
    unlabelled = folder is not None and folder.is_dir() and not (folder / QUESTIONS).exists()
    data = documents if isinstance(documents, Dataset) else (load_documents if unlabelled else load_dataset)(documents)
    setup = Experiment(data, chosen, CHUNK_SIZE if chunk_size is None else chunk_size, given=objects)
    knowledge = effects if isinstance(effects, Knowledge) else read_effects(effects)
    warn_unsupported_languages(setup)
    result = recommend_pipelines(
        setup, resolve_pipeline_space(space), knowledge, most_calls=calls, fitness=Fitness.from_spec(fitness)
    )
    if output is not None:
        folder = Path(documents) if unlabelled and not isinstance(documents, Dataset) else None
        write_file(result.yaml(Path(output).parent, folder), Path(output), warn=True)
    return result
