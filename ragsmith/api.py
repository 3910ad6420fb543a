"""What the command line does, from Python: the commands parse their flags, call these functions and print.

Names, paths and objects are taken alike: a data set or space by bundled name, by path or as loaded; models by name, as
a mapping by role, as a file or as objects; prices as a mapping or a file; a cache as a file, a URL or an open store.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ragsmith.datasets.bundled import names
from ragsmith.datasets.dataset import load_dataset, load_documents
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.effects.knowledge import Knowledge
from ragsmith.effects.knowledge import read as read_effects
from ragsmith.effects.learning import PIPELINES, learn
from ragsmith.errors import BudgetExhausted, ModelUnavailable, Notice, UsageError, WrongOption
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.racing import Racing
from ragsmith.evaluation.testbed import CHUNK_SIZE, Setup, prepare
from ragsmith.gateway.budget import Limits, Price, Prices, Spent, read_prices, read_spent
from ragsmith.models.file import read_models
from ragsmith.models.given import apart
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.further import ROLES
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.reporting import Written, folder_of, write_report
from ragsmith.reporting.audit import audit_markdown
from ragsmith.reporting.result import Result
from ragsmith.reporting.scores import Scores
from ragsmith.reporting.scores import evaluate as score
from ragsmith.reporting.writing import write_run
from ragsmith.runs.audit import Audit
from ragsmith.runs.audit import audit as switch_on
from ragsmith.runs.audit import sample as draw
from ragsmith.runs.check import Checked
from ragsmith.runs.check import check_models as ask_models
from ragsmith.runs.objectives import priced
from ragsmith.runs.pipeline import Pipeline, Reply, Verified
from ragsmith.runs.plan import Plan
from ragsmith.runs.plan import plan as work_out
from ragsmith.runs.recommended import Recommended
from ragsmith.runs.recommended import recommend as name_pipelines
from ragsmith.runs.record import WEIGHABLE, RunSettings, check_objective
from ragsmith.runs.run import Run, Start, Step
from ragsmith.runs.winner import Exported, run_setup
from ragsmith.runs.winner import export as write_pipeline
from ragsmith.store.store import Store, opened
from ragsmith.strategies.settings import PRESETS, GeneticSettings, check_choice
from ragsmith.techniques.own import import_files
from ragsmith.text.writing import write_file
from ragsmith.types import Dataset

CACHE = "cache.sqlite"

GivenModels = ModelNames | Mapping[str, Any] | str | Path | None
"""Models as `ragsmith.search` takes them."""

GivenFitness = Fitness | Weights | str | Callable[..., float] | None
"""A fitness as `ragsmith.search` takes it: weights, ``FILE.py:function``, or the function of a file."""

GivenPrices = Prices | Mapping[str, Price | Mapping[str, float]] | str | Path | None
"""Prices as `ragsmith.search` takes them."""


class Changes(TypedDict, total=False):
    """Single settings of a search; None leaves one as it is. See `RunSettings` and `GeneticSettings`."""

    strategy: str | None
    seed: int | None
    max_evaluations: int | None
    time_limit: float | None
    race: bool | None
    begin_with_known: bool | None
    probes: bool | None
    control: str | None
    choose: str | None
    simplify: bool | None
    may_miss: float | None
    fitness: GivenFitness
    objective: str | None
    objectives: str | Sequence[str] | None
    margin: float | None
    population: int | None
    generations: int | None
    crossover: str | None
    mutation: str | None
    selection: str | None
    breeding: str | None
    elitism: int | None
    tournament: int | None
    unseen: bool | None
    screening: int | None
    local_search: float | None
    convergence: int | None
    crossover_rate: float | None
    mutation_rate: float | None
    mutation_min: float | None
    mutation_max: float | None
    target: float | None


def search(
    dataset: Dataset | str | Path,
    *,
    space: Space | str | Path | None = None,
    without: Sequence[str] | None = None,
    settings: RunSettings | None = None,
    preset: str | None = None,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    limits: Limits | None = None,
    prices: GivenPrices = None,
    accept_spent: Spent | str | None = None,
    faithfulness: bool | None = None,
    chunk_size: int | None = None,
    imports: Sequence[str | Path] = (),
    retry_failed: bool = False,
    workers: int | None = None,
    cache: Store | str | Path = CACHE,
    winner: str | Path | None = None,
    reports: str | Path | None = None,
    on_start: Callable[[Start], None] | None = None,
    on_step: Callable[[Step], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **changes: Unpack[Changes],
) -> Result:
    """Search ``space`` for the best pipeline on ``dataset``; the same search again goes on from what ``cache`` holds.

    >>> found = ragsmith.search("law", space="quick", seed=1, max_evaluations=8, probes=False)
    >>> found.state, len(found.ranking)
    ('finished', 7)
    >>> print(found.verdict.words)
    No difference from naive RAG, BM25 or the recommended pipeline shown.
    >>> found.winner.ask("When does the limitation period start?").sources[0].title
    'Obligations Code of Ostrevane (Excerpt)'

    ``settings`` says how the search goes, or else ``preset`` does: ``default``, ``paper`` or ``quick``. Single settings
    are changed by name: ``seed=7``, ``strategy="tpe"`` and all others of `RunSettings` and `GeneticSettings`;
    ``fitness`` may be `Weights`, ``FILE.py:function``, or a function of a file that was imported. With
    ``objective="retrieval"`` retrieval alone is tuned: the fitness is R, nothing is generated, and questions need no
    answers. With ``objectives="quality,calls"`` the fitness is weighed against calls of models, with
    ``"quality,calls,latency,money"`` against seconds and money as well, which needs ``prices``: the strategy is NSGA-II
    then, and nobody races. ``space`` is the one of the preset unless given; ``without`` lists what to leave out of it,
    as ``FAMILY`` (all but ``none``) or ``FAMILY.OPTION``.

    ``models`` are names, or by role a name or an object: a LlamaIndex ``LLM`` or ``BaseEmbedding``, or anything with
    the protocol that its role has in `ragsmith.models`, whose ``id`` says what its results depend on. Objects are asked
    from ``workers`` threads at once; what they return is kept on disk if they are chat models, or have an attribute
    ``slow`` that is true. `Pipeline.load` must be handed them again. ``base_url`` is where ``openai:`` models are
    asked, and ``vector_store`` where vectors lie. ``limits`` bound what may be spent, over all resumes; one on cost
    needs ``prices``. ``accept_spent`` says what was spent where the cache does not know any more, as `Spent` or as
    ``"calls=352,tokens=5280,cost=0.0033"``; what is known counts if it is more. ``faithfulness`` checks answers claim
    by claim: unless given, where the judge costs nothing.

    ``imports`` are Python files of your own: the techniques, measures and providers of models that they define are
    known by name, and what is stored counts as long as their code stays the same.

    What a model refuses, or never answers in a way that can be used, is asked once and kept as failed;
    ``retry_failed`` asks it again.

    ``workers`` is questions in flight for models that are elsewhere, and processes for the embedded ones: every core
    unless given. A script that uses more than one process needs the usual ``if __name__ == "__main__":``.

    A candidate may fail on the share ``may_miss`` of the questions; those that fail for every candidate are set aside.
    Where failures leave open who is the best there is no winner, and ``no_winner`` of what is returned says why.

    ``winner`` names a file for the winning pipeline, and ``reports`` a folder for report and winner; the report is
    written without a winner, too, and where a provider is down or the budget spent. A data set that
    was read from no folder is in the file by name and digest only, and has to be handed to `Pipeline.load` again.
    ``on_start`` is told what is searched, ``on_step`` how each step ended, and ``on_progress`` how many answers of how
    many in the step are there; they are called between answers, so they should be quick.

    Raises:
        UsageError: the data set, the space, a setting or a model cannot be used; nothing was computed.
        SpendingDamaged: there are limits, the cache does not know any more what was spent, and nothing was accepted.
        BudgetExhausted: ``limits`` were reached before any pipeline was complete; the same search goes on.
        ModelUnavailable: a provider refuses the key or is down; what was computed is kept.
    """
    _refuse_no_workers(workers)
    import_files(imports)
    found = _space(space, preset, without)  # it may import measures that the fitness asks for
    chosen = _settings(settings, preset, changes)
    accepted = read_spent(accept_spent) if isinstance(accept_spent, str) else accept_spent
    _refuse_twice(found, chunk_size, models)
    setup = _setup(dataset, models, base_url, vector_store, chunk_size, faithfulness).searching(found.settings)
    known = _prices(prices).batched(setup.models.batched)
    chosen = _priced(chosen, setup, known)
    if limits and limits.any and not setup.served:
        warnings.warn(
            "limits are about requests to servers, and none of these models is asked at one", Notice, stacklevel=2
        )
    if limits and limits.cost is not None:
        known.refuse_unknown(setup.served)
    files = _files(setup, winner, reports)
    with opened(cache) as store:
        run = Run(
            setup,
            found,
            store,
            chosen,
            workers=workers or setup.workers,
            on_start=on_start,
            on_step=on_step,
            on_progress=on_progress,
            limits=limits,
            prices=known,
            retry_failed=retry_failed,
            accept_spent=accepted,
        )
        try:
            outcome = run.go()
        except (ModelUnavailable, BudgetExhausted):
            if reports is not None and run.has_results:
                write_run(store, Path(reports), setup.dataset.name, run.key)
            raise
        damaged = store.damaged
    result = Result(outcome, setup, cache, damaged)
    for file in files:
        if outcome.winner is not None:
            result.export(file)
        elif file.exists():
            warnings.warn(f"{file} is the winner of an earlier search: this one has none", Notice, stacklevel=2)
    if reports is not None:
        result.report(reports)
    return result


def plan(
    dataset: Dataset | str | Path,
    *,
    space: Space | str | Path | None = None,
    without: Sequence[str] | None = None,
    settings: RunSettings | None = None,
    preset: str | None = None,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    prices: GivenPrices = None,
    faithfulness: bool | None = None,
    chunk_size: int | None = None,
    imports: Sequence[str | Path] = (),
    latency: float | None = None,
    in_flight: int | None = None,
    sample: int | None = None,
    cache: Store | str | Path = CACHE,
    **changes: Unpack[Changes],
) -> Plan:
    """Say what a search with the same arguments would ask of models: requests, tokens, money, seconds; nothing is sent.

    It is worked out on up to ``sample`` of the search questions: unless given, on 100 where candidates are raced, else
    on 15, and on more where there are few pipelines. What requests take is measured on replies in ``cache`` or, as
    the notes of the plan say, assumed: `check_models` with that cache gets a reply to each task. A request takes
    ``latency`` seconds, and ``in_flight`` are answered at once: unless given, as measured, or 1 s, and as many as
    the provider is sent.

    Replies decide when candidates leave a race: before searches of 20 to 60 questions, plans said 0.83 to 1.23 times
    the calls that were then sent, and up to 1.42 times what was left to send once two pipelines were in the cache
    (`benchmarks/bench_plan.py`). ``ranges`` of the plan, if all leave a block sooner or later, held 11 times in 12.

    Raises:
        UsageError: as for `search`, or a number is not above 0.
    """
    for name, value in (("latency", latency), ("in_flight", in_flight), ("sample", sample)):
        if value is not None and not value > 0:
            raise WrongOption(name, f"is {value}: give a number above 0")
    import_files(imports)
    found = _space(space, preset, without)  # it may import measures that the fitness asks for
    chosen = _settings(settings, preset, changes)
    _refuse_twice(found, chunk_size, models)
    setup = _setup(dataset, models, base_url, vector_store, chunk_size, faithfulness).searching(found.settings)
    known = _prices(prices).batched(setup.models.batched)
    chosen = _priced(chosen, setup, known)
    with opened(cache) as store:
        return work_out(setup, found, store, chosen, prices=known, latency=latency, in_flight=in_flight, sample=sample)


def check_models(
    models: GivenModels = None,
    *,
    space: Space | str | Path = "default",
    base_url: str | None = None,
    faithfulness: bool | None = None,
    judge_cases: bool = True,
    imports: Sequence[str | Path] = (),
    cache: Store | str | Path | None = None,
    on_start: Callable[[int], None] | None = None,
) -> tuple[Checked, ...]:
    """Ask every model once for each language task of ``space``, for vectors or for scores: does it answer as it should?

    >>> [(checked.role, checked.ok) for checked in ragsmith.check_models()]
    [('language_model', True), ('embedder', True), ('cross_encoder', True)]

    The question and the passages are of a bundled data set. With ``judge_cases`` the judge also marks 180 answers whose
    order is known, to find out how often it errs. ``cache`` keeps what is learnt of the models, so that a search begins
    with it. ``on_start`` is told how many requests will be sent at most, one more for each reply that is cut and each
    parameter that is refused. The other arguments are those of `search`.

    Raises:
        UsageError: the space or a model cannot be used, or the space searches over a model that is given.
    """
    import_files(imports)
    found = _space(space, None)
    _refuse_twice(found, None, models)
    names, given = _names(models, base_url)
    asked = partial(
        ask_models,
        names,
        found,
        given=given,
        faithfulness=faithfulness,
        judge_cases=judge_cases,
        on_start=on_start,
    )
    if cache is None:
        return asked()
    with opened(cache) as store:
        return asked(store=store)


def audit(
    dataset: Dataset | str | Path,
    *,
    space: Space | str | Path = "seeds",
    sample: int = 50,
    seed: int = 0,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    fitness: GivenFitness = None,
    chunk_size: int | None = None,
    imports: Sequence[str | Path] = (),
    workers: int | None = None,
    cache: Store | str | Path = CACHE,
    output: str | Path | None = None,
) -> Audit:
    """Switch every option of ``space`` on alone: what it changes, costs and gains on ``sample`` search questions.

    ``seed`` draws the sample, and ``output`` names a file for the table in Markdown.

    Raises:
        UsageError: as for `search`, or the folder of ``output`` is not there.
    """
    _refuse_no_workers(workers)
    import_files(imports)
    if output is not None and not Path(output).parent.is_dir():
        raise WrongOption("output", f"{output}: there is no folder {Path(output).parent}: make it first")
    if output is not None and Path(output).is_dir():
        raise WrongOption("output", f"{output} is a folder: name a file in it")
    found = _space(space, None)
    setup = _setup(dataset, models, base_url, vector_store, chunk_size)
    questions = draw(setup, sample, seed)
    own = workers or setup.models.workers()
    with opened(cache) as store:
        findings = switch_on(setup, found, store, questions, workers=own, fitness=Fitness.of(fitness))
    audited = Audit(setup.dataset.name, found.name, len(questions), setup.loaded_models.ids(), tuple(findings))
    if output is not None:
        write_file(audit_markdown(audited), Path(output), telling=True)
    return audited


def report(cache: Store | str | Path, folder: str | Path, dataset: str | Path | None = None) -> Written:
    """Write the report of the searches in ``cache``, of one data set (by name or folder) or of all and compared.

    Raises:
        UsageError: there is no such cache or search.
    """
    if dataset is not None and Path(dataset).is_dir():  # as it was given to the search
        dataset = load_dataset(dataset).name
    with opened(cache, read_only=True) as store:
        return write_report(store, Path(folder), None if dataset is None else str(dataset))


def export(
    dataset: Dataset | str | Path,
    *,
    cache: Store | str | Path = CACHE,
    output: str | Path = "winner.yaml",
    run: str | None = None,
    pick: str | int = "best",
    imports: Sequence[str | Path] = (),
) -> Exported:
    """Write the winner of a search on ``dataset`` as YAML: the latest search, or the one whose key ``run`` begins.

    ``pick`` names another pipeline that the search evaluated: ``knee``, where quality against model calls bends;
    ``cheapest``, shown not to be behind the winner by 0.02 of fitness; ``single``, the best with one option more than
    naive RAG; a place in the ranking; ``"calls<=2"``, the best with so few calls a question; or
    ``"latency<=0.5"``, the best within so many seconds, where the search weighed latency.
    What is returned says which pipeline it is; where ``output`` was a file with something else in it, a `Notice` does.

    Raises:
        UsageError: there is no such cache, search or pipeline.
    """
    import_files(imports)
    with opened(cache, read_only=True) as store:
        key, setup = run_setup(store, dataset, run)
        return write_pipeline(store, key, setup, Path(output), str(pick))


def recommend(
    documents: Dataset | str | Path,
    *,
    calls: int | None = None,
    space: Space | str | Path = "default",
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    fitness: GivenFitness = None,
    chunk_size: int | None = None,
    imports: Sequence[str | Path] = (),
    effects: Knowledge | str | Path | None = None,
    output: str | Path | None = None,
) -> Recommended:
    """Name a pipeline for documents without any question, by what was learned on other data sets.

    >>> found = ragsmith.recommend("law", calls=1)
    >>> [round(one.calls) for one in found.classes][0], found.left_out
    (1, ('law',))

    ``documents`` is a folder of them, or a data set, whose questions are not looked at. ``calls`` of a language model a
    question are the most that the pipeline may make; any number unless given. ``effects`` is a file of `learn_effects`,
    or what it returned: unless given, what ships with ragsmith. ``output`` names a file for the pipeline, which `ask`
    takes. No model is called. The other arguments are those of `search`.

    Raises:
        UsageError: the documents, the space or a model cannot be used.
    """
    import_files(imports)
    if calls is not None and calls < 1:
        raise WrongOption("calls", f"is {calls}: give at least 1, for the answer")
    chosen, given = _names(models, base_url, vector_store)
    bare = not isinstance(documents, Dataset) and _has_no_questions(documents)
    data = documents if isinstance(documents, Dataset) else (load_documents if bare else load_dataset)(documents)
    setup = Setup(data, chosen, CHUNK_SIZE if chunk_size is None else chunk_size, given=given)
    known = effects if isinstance(effects, Knowledge) else read_effects(effects)
    found = name_pipelines(setup, _space(space, None), known, most_calls=calls, fitness=Fitness.of(fitness))
    if output is not None:
        folder = Path(documents) if bare and not isinstance(documents, Dataset) else None
        write_file(found.yaml(Path(output).parent, folder), Path(output), telling=True)
    return found


def learn_effects(
    datasets: Sequence[Dataset | str | Path] | None = None,
    *,
    pipelines: int = PIPELINES,
    space: Space | str | Path = "default",
    seed: int = 0,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    chunk_size: int | None = None,
    imports: Sequence[str | Path] = (),
    workers: int | None = None,
    cache: Store | str | Path = CACHE,
    output: str | Path | None = None,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> Knowledge:
    """Learn what options are worth, from a sample of ``pipelines`` on the search questions of each of ``datasets``.

    All bundled ones are learned from unless they are named. What ``cache`` has is not computed again. ``seed`` draws
    the sample, ``output`` names a file for what was learned, which has numbers only, and ``on_progress`` is told a
    data set, how many pipelines are done, and of how many. The other arguments are those of `search`.

    Raises:
        UsageError: as for `search`, or there are fewer than two data sets.
    """
    _refuse_no_workers(workers)
    import_files(imports)
    found = _space(space, None)
    named = [_setup(one, models, base_url, vector_store, chunk_size) for one in datasets or names("datasets")]
    with opened(cache) as store:
        learned = learn(
            named,
            found,
            store,
            pipelines=pipelines,
            seed=seed,
            workers=workers or named[0].models.workers(),
            on_progress=on_progress,
        )
    if output is not None:
        learned.write(Path(output))
    return learned


def _has_no_questions(folder: str | Path) -> bool:
    """Whether a folder has documents and no questions; what is no folder is the name of a data set."""
    return Path(folder).is_dir() and not (Path(folder) / QUESTIONS).exists()


def ask(
    pipeline: Pipeline | str | Path,
    question: str,
    *,
    dataset: Dataset | str | Path | None = None,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    imports: Sequence[str | Path] = (),
    cache: Store | str | Path = CACHE,
) -> Reply:
    """Answer a question with an exported pipeline; replies that are paid for are kept in ``cache``.

    >>> ragsmith.ask("winner.yaml", "When does the limitation period start?").sources[0].doc
    'obligations-code'

    ``dataset``, ``models``, ``base_url`` and ``vector_store`` take the place of those that the file names; ``imports``
    are files of your own, where they lie elsewhere than it says.

    Raises:
        UsageError: the file, its documents or a model cannot be used.
    """
    import_files(imports)
    loaded = _pipeline(pipeline, dataset, models, base_url, vector_store)
    with _remembering(loaded, cache) as remembering:
        return remembering.ask(question)


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
    _refuse_no_workers(workers)
    loaded = _pipeline(pipeline, dataset, models, base_url, vector_store)
    own = workers or loaded.setup.models.workers()
    at_home = dataset is None and (loaded is not pipeline or bool(loaded.expected))
    with opened(cache) as store:
        return score(loaded, store, at_home=at_home, workers=own, latency=latency)


def verify(
    pipeline: Pipeline | str | Path,
    *,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    imports: Sequence[str | Path] = (),
    cache: Store | str | Path = CACHE,
) -> Verified:
    """Run a pipeline again, from its documents, and compare with the scores that it was exported with.

    >>> ragsmith.verify("winner.yaml").differences
    ()

    Raises:
        UsageError: the file, its documents or a model cannot be used, or it has no scores.
        RagsmithError: a question fails now.
    """
    import_files(imports)
    loaded = _pipeline(pipeline, None, models, base_url, vector_store)
    with _remembering(loaded, cache) as remembering:
        differences = tuple(remembering.verify())
    questions = {part: scores["questions"] for part, scores in loaded.expected.items()}
    return Verified(differences, loaded.changed_models(), questions)


def _pipeline(
    pipeline: Pipeline | str | Path,
    dataset: Dataset | str | Path | None,
    models: GivenModels,
    base_url: str | None,
    vector_store: str | None,
) -> Pipeline:
    """The pipeline of a file; or the one that is loaded already, which keeps its data set and models."""
    if not isinstance(pipeline, Pipeline):
        by_role = _by_role(models)
        return Pipeline.load(pipeline, dataset=dataset, models=by_role, base_url=base_url, vector_store=vector_store)
    if (dataset, models, base_url, vector_store) != (None, None, None, None):
        raise UsageError("a loaded pipeline has its data set and models: give others to Pipeline.load")
    return pipeline


@contextmanager
def _remembering(pipeline: Pipeline, cache: Store | str | Path) -> Iterator[Pipeline]:
    """``pipeline``, whose replies are kept in the cache where a model is paid for."""
    if not pipeline.setup.loaded_models.waits:
        yield pipeline
        return
    with opened(cache) as store, pipeline.remembering(store) as remembering:
        yield remembering


def _settings(settings: RunSettings | None, preset: str | None, changes: Mapping[str, Any]) -> RunSettings:
    """``settings``, or those of ``preset``, with what ``changes`` has a value for.

    Raises:
        UsageError: there is no such preset or setting, or both are given.
    """
    if settings is None:
        check_choice("preset", preset or "default", PRESETS)
        settings = RunSettings.preset(preset or "default")
    elif preset is not None:
        raise WrongOption("preset", "was given beside settings, which say the same: leave one of them out")
    given = {name: value for name, value in changes.items() if value is not None}
    if "objectives" in given:
        given |= _weighing(settings, given)
    if "race" in given:
        given["racing"] = (settings.racing or Racing()) if given.pop("race") else None
    if "fitness" in given:
        given["fitness"] = Fitness.of(given["fitness"])
    if "objective" in given:
        check_objective(given["objective"])
        given["fitness"] = given.get("fitness", settings.fitness).about(given.pop("objective"))
    of_the_run, genetic = (
        {field.name: given.pop(field.name) for field in fields(part) if field.name in given}
        for part in (RunSettings, GeneticSettings)
    )
    for unknown in given:
        check_choice("setting", unknown, Changes.__annotations__)
    return replace(settings, genetic=settings.genetic.changed(**genetic), **of_the_run)


def _weighing(settings: RunSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """The objectives of ``given``, and what goes with several where nothing else is asked for: NSGA-II and no race."""
    asked = given["objectives"]
    names = [name.strip() for name in asked.split(",")] if isinstance(asked, str) else list(asked)
    found: dict[str, Any] = {"objectives": tuple(sorted(names, key=lambda name: (*WEIGHABLE, name).index(name)))}
    if len(names) > 1:
        found["race"] = given.get("race", False)
        found["strategy"] = given.get("strategy", "nsga2" if settings.strategy == "genetic" else settings.strategy)
    return found


def _space(space: Space | str | Path | None, preset: str | None, without: Sequence[str] | None = None) -> Space:
    """A space as it was given; unless it was, that of the preset; and without what ``without`` names."""
    if not isinstance(space, Space):
        space = load_space(space or (preset if preset in ("paper", "quick") else "default"))
    return space.leaving_out(without or ())


def _refuse_twice(space: Space, chunk_size: int | None, models: GivenModels) -> None:
    """Raise UsageError where the space searches over what is given."""
    given = {*(["chunk_size"] if chunk_size is not None else []), *_by_role(models)}
    if isinstance(models, ModelNames):
        given = {role for role in given if role not in ROLES or models.of(role) != ModelNames().of(role)}
    for name in space.names:
        if name in given:
            raise WrongOption(name, f"is searched over by the space {space.name!r}: leave it out")


def _setup(
    dataset: Dataset | str | Path,
    models: GivenModels,
    base_url: str | None,
    vector_store: str | None,
    chunk_size: int | None,
    faithfulness: bool | None = None,
) -> Setup:
    """Data set and models, loaded and checked."""
    chosen, given = _names(models, base_url, vector_store)
    if base_url is not None and not chosen.self_hosted:
        raise UsageError(
            "--base-url is where openai: and rerank: models are asked, and there is none: name one (--llm openai:NAME)"
        )
    size = CHUNK_SIZE if chunk_size is None else chunk_size
    return prepare(dataset, chosen, size, faithfulness=faithfulness, given=given)


def _names(
    models: GivenModels, base_url: str | None, vector_store: str | None = None
) -> tuple[ModelNames, Mapping[str, Any]]:
    """The models by name, checked, and those that are objects."""
    named, given = apart(_by_role(models))
    names = models if isinstance(models, ModelNames) else ModelNames()
    chosen = names.overridden(named, base_url, vector_store)
    chosen.check()
    return chosen, given


def _by_role(models: GivenModels) -> Mapping[str, Any]:
    """The models that are named, by role."""
    if isinstance(models, str | Path):
        return read_models(Path(models))
    return {role: models.of(role) for role in models.named} if isinstance(models, ModelNames) else models or {}


def _prices(prices: GivenPrices) -> Prices:
    return prices if isinstance(prices, Prices) else read_prices(prices or {})


def _priced(settings: RunSettings, setup: Setup, prices: Prices) -> RunSettings:
    """See `priced`; one price is reckoned with, whatever is searched over."""
    each = [priced(settings, variant.loaded_models, prices) for variant in setup.variants]
    if any(one != each[0] for one in each):
        problem = (
            "have money, but the language models that are searched over have different prices: weigh calls instead"
        )
        raise WrongOption("objectives", problem)
    return each[0]


def _refuse_no_workers(workers: int | None) -> None:
    """Raise UsageError where there would be no worker; None leaves their number to the models."""
    if workers is not None and workers < 1:
        raise WrongOption("workers", f"is {workers}: give at least 1")


def _files(setup: Setup, winner: str | Path | None, reports: str | Path | None) -> list[Path]:
    """Where the winner is to be written; what could not be is found out before anything is computed."""
    files = [] if winner is None else [Path(winner)]
    if winner is not None and files[0].is_dir():
        raise WrongOption("winner", f"{winner} is a folder: name a file in it")
    if reports is not None:
        files.append(Path(reports) / folder_of(setup.dataset.name) / "winner.yaml")
    with ExitStack() as stack:
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(tempfile.TemporaryFile(dir=file.parent))
    return files
