"""`check_models`, `audit` and `recommend`: models, options and documents, before a search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Unpack

from ragsmith.api.arguments import ModelArguments, WorkArguments
from ragsmith.api.resources import (
    FitnessSpec,
    ModelSpec,
    Resources,
    refuse_twice,
    say_what_is_not_covered,
    space_of,
)
from ragsmith.datasets.annotations import FILE as ANNOTATIONS
from ragsmith.datasets.bundled import ALL, bundled, domains
from ragsmith.datasets.dataset import load_dataset, load_documents
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.effects.knowledge import Knowledge
from ragsmith.effects.knowledge import read as read_effects
from ragsmith.errors import WrongOption
from ragsmith.evaluation.experiment import CHUNK_SIZE, Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.measures.judge_calibration import Calibration
from ragsmith.pipelines.space import Space
from ragsmith.records.audit import Audit
from ragsmith.reporting.audit import audit_markdown, audit_page
from ragsmith.runs.audit import audit as switch_on
from ragsmith.runs.audit import sample as draw
from ragsmith.runs.check import ModelCheck
from ragsmith.runs.check import check_models as ask_models
from ragsmith.runs.recommended import Recommended
from ragsmith.runs.recommended import recommend as name_pipelines
from ragsmith.store.store import Store, open_store
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset


def check_models(
    models: ModelSpec = None,
    *,
    space: Space | str | Path = "default",
    base_url: str | None = None,
    faithfulness: bool | None = None,
    judge_cases: bool = True,
    calibration: str | Path | Sequence[str | Path] = (),
    imports: Sequence[str | Path] = (),
    cache: Store | str | Path | None = None,
    on_start: Callable[[int], None] | None = None,
) -> tuple[ModelCheck, ...]:
    """Ask every model once for each language task of ``space``, for vectors or for scores: does it answer as it should?

    >>> [(checked.role, checked.ok) for checked in ragsmith.check_models(judge_cases=False)]
    [('language_model', True), ('embedder', True), ('cross_encoder', True)]

    The question and the passages are of a bundled data set. With ``judge_cases`` the judge also marks 180 answers whose
    order is known, to find out how often it errs. ``calibration`` names data sets whose questions are annotated, or
    ``"all"`` bundled domains that are: the judge marks a right and a wrong answer to each of their questions, and
    ``calibrated`` of what is returned for it says how often it took them for what they are. ``cache`` keeps what is
    learnt of the models, so that a search begins with it. ``on_start`` gets the maximum number of requests,
    one more for each reply that is cut and each parameter that is refused. The other arguments are those of `search`.

    Raises:
        UsageError: the space or a model cannot be used, or the space searches over a model that is given.
    """
    resources = Resources(models, base_url, imports=imports)
    found = space_of(space, None)
    refuse_twice(found, None, models)
    names, given = resources.named()
    asked = partial(
        ask_models,
        names,
        found,
        given=given,
        faithfulness=faithfulness,
        judge_cases=judge_cases,
        calibrations=[Calibration.read(one) for one in _calibrations(calibration)],
        on_start=on_start,
    )
    if cache is None:
        return asked()
    with open_store(cache) as store:
        return asked(store=store)


def _calibrations(given: str | Path | Sequence[str | Path]) -> list[str | Path]:
    """The data sets to calibrate with, each once; ``"all"`` stands for the bundled domains that are annotated."""
    listed = [given] if isinstance(given, str | Path) else given
    annotated = [one for one in domains() if (bundled("datasets", one) / ANNOTATIONS).is_file()]
    if ALL in listed and not annotated:
        raise WrongOption("calibration", f"is {ALL}, and no bundled domain has {ANNOTATIONS}: name a folder that has")
    return list(dict.fromkeys(one for each in listed for one in (annotated if each == ALL else [each])))


def audit(
    dataset: Dataset | str | Path,
    *,
    space: Space | str | Path = "seeds",
    sample: int = 50,
    seed: int = 0,
    fitness: FitnessSpec = None,
    chunk_size: int | None = None,
    output: str | Path | None = None,
    **given: Unpack[WorkArguments],
) -> Audit:
    """Switch every option of ``space`` on alone: what it changes, costs and gains on ``sample`` search questions.

    ``seed`` draws the sample, and ``output`` names a file for the tables: a page where it ends in ``.html``, else in
    Markdown. Every two options of a family are compared as well: ``pairs`` says on how many questions they differ.

    Raises:
        UsageError: as for `search`, or the folder of ``output`` is not there.
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


def audits(
    datasets: Sequence[Dataset | str | Path],
    *,
    space: Space | str | Path = "seeds",
    sample: int = 50,
    seed: int = 0,
    fitness: FitnessSpec = None,
    chunk_size: int | None = None,
    output: str | Path | None = None,
    **given: Unpack[WorkArguments],
) -> tuple[Audit, ...]:
    """The same on each of ``datasets``; ``output`` then has a table of the pairs over all of them, too.

    Raises:
        UsageError: as for `audit`, or there is no data set.
    """
    resources = Resources(**given)
    if output is not None and not Path(output).parent.is_dir():
        raise WrongOption("output", f"{output}: there is no folder {Path(output).parent}: make it first")
    if output is not None and Path(output).is_dir():
        raise WrongOption("output", f"{output} is a folder: name a file in it")
    if not datasets:
        raise WrongOption("dataset", "is missing: name at least one")
    found = space_of(space, None)
    chosen = Fitness.of(fitness)
    setups = [resources.setup(dataset, chunk_size) for dataset in datasets]
    samples = [draw(setup, sample, seed) for setup in setups]
    with resources.store() as store:
        audited = tuple(
            switch_on(setup, found, store, questions, workers=resources.workers_for(setup), fitness=chosen)
            for setup, questions in zip(setups, samples, strict=True)
        )
    if output is not None:
        paged = Path(output).suffix == ".html"
        write_file(audit_page(audited) if paged else audit_markdown(audited), Path(output), telling=True)
    return audited


def recommend(
    documents: Dataset | str | Path,
    *,
    calls: int | None = None,
    space: Space | str | Path = "default",
    fitness: FitnessSpec = None,
    chunk_size: int | None = None,
    effects: Knowledge | str | Path | None = None,
    output: str | Path | None = None,
    **given: Unpack[ModelArguments],
) -> Recommended:
    """Name a pipeline for documents without any question, by what was learned on other data sets.

    >>> found = ragsmith.recommend("law", calls=1)
    >>> [round(one.calls) for one in found.classes][0], found.left_out
    (1, ('law',))

    ``documents`` is a folder of them, or a data set, whose questions are not looked at. ``calls`` of a language model a
    question are the most that the pipeline may make; any number unless given. ``effects`` is a file of
    learned effects, or what was read from one: unless given, what ships with ragsmith. ``output`` names a file for the
    pipeline, which `ask` takes. No model is called. The other arguments are those of `search`.

    Raises:
        UsageError: the documents, the space or a model cannot be used.
    """
    resources = Resources(**given)
    if calls is not None and calls < 1:
        raise WrongOption("calls", f"is {calls}: give at least 1, for the answer")
    chosen, objects = resources.named()
    bare = not isinstance(documents, Dataset) and _has_no_questions(documents)
    data = documents if isinstance(documents, Dataset) else (load_documents if bare else load_dataset)(documents)
    setup = Experiment(data, chosen, CHUNK_SIZE if chunk_size is None else chunk_size, given=objects)
    known = effects if isinstance(effects, Knowledge) else read_effects(effects)
    say_what_is_not_covered(setup)
    found = name_pipelines(setup, space_of(space, None), known, most_calls=calls, fitness=Fitness.of(fitness))
    if output is not None:
        folder = Path(documents) if bare and not isinstance(documents, Dataset) else None
        write_file(found.yaml(Path(output).parent, folder), Path(output), telling=True)
    return found


def _has_no_questions(folder: str | Path) -> bool:
    """Whether a folder has documents and no questions; what is no folder is the name of a data set."""
    return Path(folder).is_dir() and not (Path(folder) / QUESTIONS).exists()
