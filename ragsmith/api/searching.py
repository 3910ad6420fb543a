"""`search`, and `plan`, which estimates the costs of a search."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext, redirect_stdout
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from ragsmith.api.arguments import SearchArguments
from ragsmith.api.resources import (
    Resources,
    read_given_prices,
    reject_fixed_dimensions,
    resolve_space,
    warn_unsupported_languages,
)
from ragsmith.api.result import Result
from ragsmith.argument_types import checked
from ragsmith.datasets.bundled import bundled_names
from ragsmith.errors import BudgetExhausted, ModelUnavailable, UsageError, WrongOption, warn_caller
from ragsmith.evaluation.cluster import PROCESSES, parse_engine
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.node_setup import check_nodes
from ragsmith.evaluation.racing import Racing
from ragsmith.exported.file import ExportedFile
from ragsmith.gateway.budget import LimitSpec, Prices, Spent, parse_spent, read_limits
from ragsmith.gateway.memory import parse_size
from ragsmith.models.loading import without_requests
from ragsmith.models.local.weights import installed_version
from ragsmith.models.own_prompts import read_prompts
from ragsmith.pipelines.space import Space
from ragsmith.records.objectives import with_price
from ragsmith.records.record import CROSSFIT, SEARCH_OBJECTIVES, RunSettings, check_objective
from ragsmith.reporting import folder_of
from ragsmith.reporting.report_files import write_run
from ragsmith.runs.crossfit import Crossfit
from ragsmith.runs.run import Allowance, Execution, Run
from ragsmith.runs.run_context import Callbacks, Start, Step
from ragsmith.strategies import STRATEGIES
from ragsmith.strategies.settings import PRESETS, GeneticSettings, check_choice
from ragsmith.systems.searched import ParameterSearch
from ragsmith.text.writing import make_folder
from ragsmith.types import Dataset

if TYPE_CHECKING:
    from ragsmith.runs.plan import SearchPlan


def resolve_settings(settings: RunSettings | None, preset: str | None, changes: Mapping[str, Any]) -> RunSettings:
    """Return ``settings``, or those of ``preset``, with the ``changes`` that are not None.

    Raises:
        UsageError: there is no such preset or setting, or both are given.
    """
    if settings is None:
        check_choice("preset", preset or "default", PRESETS)
        settings = RunSettings.preset(preset or "default")
    elif preset is not None:
        raise WrongOption("preset", "was given together with settings, which replace it: leave one of them out")
    given = {name: value for name, value in changes.items() if value is not None}
    if "folds" in given and given.get("verdict", settings.verdict) != CROSSFIT:
        raise WrongOption("folds", f"is {given['folds']}, and only a {CROSSFIT} has folds: add  --verdict {CROSSFIT}")
    if "confidence" in given and given.get("max_risk", settings.max_risk) is None:
        raise WrongOption("confidence", f"is {given['confidence']}, and no risk is stated: add  --max-risk 0.2")
    if "objectives" in given:
        given |= _objective_settings(settings, given)
    if "race" in given:
        given["racing"] = (settings.racing or Racing()) if given.pop("race") else None
    if "fitness" in given:
        given["fitness"] = Fitness.from_spec(given["fitness"])
    if "objective" in given:
        check_objective(given["objective"])
        given["fitness"] = given.get("fitness", settings.fitness).with_objective(given.pop("objective"))
    of_the_run, genetic = (
        {field.name: given.pop(field.name) for field in fields(part) if field.name in given}
        for part in (RunSettings, GeneticSettings)
    )
    if "strategy" in of_the_run:
        of_the_run["strategy"] = str(STRATEGIES.parse(of_the_run["strategy"]))
    _check_used(of_the_run.get("strategy", settings.strategy), settings.genetic, genetic)
    for unread in given:
        raise UsageError(f"the setting {unread!r} is declared, but not used: add a field to RunSettings")
    return replace(settings, genetic=settings.genetic.changed(**genetic), **of_the_run)


def _check_used(strategy: str, current: GeneticSettings, changes: Mapping[str, Any]) -> None:
    """Raise WrongOption if the strategy, or its selected operators, do not use a changed setting."""
    used = STRATEGIES.parse(strategy).reads
    selection, mutation = (changes.get(name, getattr(current, name)) for name in ("selection", "mutation"))
    for name, value in changes.items():
        if name not in used:
            others = " or ".join(known.name for known in STRATEGIES if name in known.reads)
            raise WrongOption(name, f"is {value}, and the strategy {strategy} does not use it; {others} does")
        if name == "tournament" and selection != "tournament":
            raise WrongOption(name, f"is {value}, and parents are selected by {selection}: add  --selection tournament")
        if name in ("mutation_min", "mutation_max") and mutation != "adaptive":
            raise WrongOption(name, f"is {value}, and mutation is {mutation}: add  --mutation adaptive")


def _objective_settings(settings: RunSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the objectives and, for several, the defaults that go with them: NSGA-II and no racing."""
    objectives = given["objectives"]
    names = [name.strip() for name in objectives.split(",")] if isinstance(objectives, str) else list(objectives)
    found: dict[str, Any] = {
        "objectives": tuple(sorted(names, key=lambda name: (*SEARCH_OBJECTIVES, name).index(name)))
    }
    if len(names) > 1:
        found["race"] = given.get("race", False)
        found["strategy"] = given.get("strategy", "nsga2" if settings.strategy == "genetic" else settings.strategy)
    return found


class EachArguments(SearchArguments, total=False):
    """The arguments that `search_each` passes to `search`."""

    retry_failed: bool
    engine: str
    memory: Annotated[int | str | None, "a size, such as '500M' or '2G', or a number of bytes"]
    on_step: Callable[[Step], None] | None
    on_progress: Callable[[int, int], None] | None
    mlflow: str | None
    command: str


@checked
def search(
    dataset: Annotated[Dataset | str | Path, "a data set, or its name or folder; search_each takes several"],
    *,
    limits: LimitSpec = None,
    accept_spent: Spent | str | None = None,
    retry_failed: bool = False,
    engine: str = PROCESSES,
    memory: Annotated[int | str | None, "a size, such as '500M' or '2G', or a number of bytes"] = None,
    winner: str | Path | None = None,
    reports: str | Path | None = None,
    on_start: Callable[[Start], None] | None = None,
    on_step: Callable[[Step], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    stop: Callable[[], bool] = lambda: False,
    mlflow: str | None = None,
    command: str = "",
    **arguments: Unpack[SearchArguments],
) -> Result:
    """Search ``space`` for the best pipeline on ``dataset``; the same call resumes a search stored in ``cache``.

    >>> found = ragsmith.search("law", space="quick", seed=1, max_evaluations=8, probes=False)
    >>> found.state, len(found.ranking)
    ('finished', 7)
    >>> print(found.verdict.words)
    Better than naive RAG and BM25. No difference from the recommended pipeline shown.
    >>> found.winner.ask("When does the limitation period start?").sources[0].title
    'Obligations Code of Ostrevane (Excerpt)'

    The settings are ``settings`` or those of ``preset``: ``default``, ``paper`` or ``quick``. Single settings are
    changed by name: ``seed=7``, ``strategy="tpe"`` and all others of `RunSettings` and `GeneticSettings`, of which
    ``racing`` is given as ``race``: with ``race=False`` every candidate answers all questions.
    ``fitness`` may be `Weights`, ``FILE.py:function``, or a function or lambda of the measures of a question. With
    ``objective="retrieval"`` retrieval alone is tuned: the fitness is R, no answers are generated, and questions
    need no reference answers. With ``objectives="quality,calls"`` the search is multi-objective, with
    ``"quality,calls,latency,money"`` also on seconds and money, which requires ``prices``; the strategy is then
    NSGA-II, without races. The default ``space`` is that of the preset; ``without`` lists options to exclude, as
    ``FAMILY`` (all but ``none``) or ``FAMILY.OPTION``.

    ``models`` are a mapping from roles to names or objects. An object is a LlamaIndex ``LLM`` or ``BaseEmbedding``, or
    implements the protocol of its role in `ragsmith.models`; its ``id`` has to identify everything that its results
    depend on. Objects are called concurrently from ``workers`` threads. Their results are stored if they are chat
    models or have a true attribute ``slow``; pass them to `Pipeline.load` again. ``base_url`` is the server of
    ``openai:`` models, and ``vector_store`` the store of vectors. ``limits``, as `Limits` or
    ``{"calls": 1000}``, bound the spending over all resumes; a limit on cost requires ``prices``. ``accept_spent`` is
    the spending so far, as `Spent` or ``"calls=352,tokens=5280,cost=0.0033"``, if its record in the cache is damaged;
    the larger of it and the remaining record counts. ``faithfulness`` checks answers claim by claim, by default if the
    judge is embedded.

    ``imports`` are Python files with extensions: the techniques, measures and model providers that they define can be
    referred to by name, and stored results are valid as long as their code is unchanged. So can those of the cells of
    a notebook, whose code is their source and what it uses; workers are then threads.

    Requests that a model refuses, or answers with unusable replies, are stored as failed and not repeated;
    ``retry_failed`` repeats them. A judge that is a chat model is checked on planted answers of the data set, and a
    search with one that fails is refused unless ``trust_judge`` is true.

    ``workers`` is the number of questions in flight for served models, and of processes for embedded ones, by default
    one per core. A script that uses several processes needs the usual ``if __name__ == "__main__":``. ``memory`` is the
    maximum number of bytes of all processes together, also as ``"500M"``, ``"2G"`` or ``"1.5GiB"``: by default half of
    the available memory, at most 1.5 GiB per process. Results do not depend on it; cached values that are cheapest to
    recompute are evicted first.

    With ``engine="ray"`` (extra ``ray``) the workers are actors of a Ray cluster that is started on this machine and
    stopped at the end; ``"ray://HOST:PORT"`` is the client server of a cluster, and ``"ray:HOST:PORT"`` or
    ``"ray:auto"`` a cluster of which this machine is a node. The default of ``workers`` is then the number of cores of
    the cluster, which is for embedded models alone. Results are identical, byte for byte; see `docs/clusters.md`.

    ``max_failure_rate`` is the maximum share of failed questions of a candidate; questions that fail for every
    candidate are excluded. If failures leave open which candidate is best, there is no winner, and ``no_winner`` of the
    result is the reason.

    ``winner`` is a file for the winning pipeline, and ``reports`` a folder for the report and the winner. The report is
    also written if there is no winner, a provider is down or a limit is reached. A data set that was not read from a
    folder is referred to by name and digest in the file; pass it to `Pipeline.load` again. ``on_start`` is called with
    the content of the search, ``on_step`` at the end of each step, and ``on_progress`` with the number of answers and
    their total in the step; they are called between answers and should return quickly. If ``stop``, which is called as
    often, returns True, the search is paused as at a limit. ``mlflow`` is the URI of a
    tracking store of MLflow (extra ``mlflow``), where the search is one run of the experiment ``ragsmith``, also when
    it is resumed: settings, metrics by step, and the files of ``winner`` and ``reports``. ``command`` is a command line
    that repeats the search, for the advice of its report.

    Raises:
        UsageError: the data set, the space, a setting or a model cannot be used; nothing was computed.
        SpendingDamaged: there are limits, the record of spending is damaged, and ``accept_spent`` is not given.
        BudgetExhausted: ``limits`` were reached before any pipeline was complete; the same call resumes the search.
        ModelUnavailable: a provider refuses the key or is down; computed results are stored.
    """
    limits = read_limits(limits)
    cluster = parse_engine(engine, arguments.get("workers"))
    memory_bytes = None if memory is None else parse_size(memory)
    accepted = parse_spent(accept_spent) if isinstance(accept_spent, str) else accept_spent
    resources, found, chosen, setup, known = _prepare(dataset, arguments)
    if cluster:
        check_nodes(setup, engine, cluster.address)
    if limits.by_name and not setup.served and not found.system:
        warn_caller("limits apply to requests to servers, and none of these models is served")
    if limits.cost is not None:
        known.require_prices(setup.served)
    files = _winner_files(setup, winner, reports)
    observers = [] if on_step is None else [on_step]

    def observe(step: Step) -> None:
        for observer in observers:
            observer(step)

    def plan_rest() -> Spent:
        from ragsmith.runs.plan import plan as estimate_costs  # noqa: PLC0415  most searches need none

        return estimate_costs(setup, found, store, chosen, prices=known).spending

    with cluster or nullcontext(), resources.store() as store:
        run = (Crossfit if chosen.verdict == CROSSFIT else Run)(
            setup,
            found,
            store,
            chosen,
            execution=Execution(
                workers=resources.workers or setup.workers,
                retry_failed=retry_failed,
                memory=memory_bytes,
                cluster=cluster,
                command=command,
            ),
            allowance=Allowance(
                limits,
                known,
                accepted,
                plan_rest if not found.system and (known.known or limits.by_name) else None,
            ),
            callbacks=Callbacks(on_start=on_start, on_step=observe, on_progress=on_progress, stop=stop),
        )
        _check_overwrite(reports, setup.dataset, run.key)
        if mlflow is not None:
            installed_version("mlflow-skinny", "mlflow")
            from ragsmith.integrations.mlflow import MlflowRun  # noqa: PLC0415  optional

            tracked = MlflowRun(mlflow, run.key, setup.dataset.name)
            observers.append(tracked.log_step)
        try:
            with redirect_stdout(sys.stderr) if found.system else nullcontext():  # what a program prints is no result
                outcome = run.go()
        except (ModelUnavailable, BudgetExhausted):
            if reports is not None and run.has_results:
                write_run(store, Path(reports), setup.dataset.name, run.key)
            raise
        damaged = store.damaged
    result = Result(outcome, setup, resources.cache, damaged)
    for file in files:
        if outcome.winner is not None:
            result.export(file)
        elif file.exists():
            warn_caller(f"{file} is the winner of an earlier search: this one has none")
    if reports is not None:
        result.report(reports)
    if mlflow is not None:
        tracked.end(result.state, result.run_report.about.record, result.files)
    return result


@checked
def plan(
    dataset: Dataset | str | Path,
    *,
    latency: Annotated[float | None, "the seconds of a request, such as 0.8"] = None,
    in_flight: int | None = None,
    sample: int | None = None,
    **arguments: Unpack[SearchArguments],
) -> SearchPlan:
    """Estimate the requests, tokens, money and seconds of a search with the same arguments; no request is sent.

    The search is simulated on up to ``sample`` search questions: by default 100 if candidates are raced, else 15, or
    more if there are few pipelines. The tokens of requests are measured on replies in ``cache`` or, as the notes of the
    plan say, assumed; `check_models` with that cache gets a reply to each task. A request takes ``latency`` seconds (by
    default as measured, else 1), and ``in_flight`` requests are answered concurrently (by default all that are sent).

    Replies decide when candidates are pruned: for searches on 20 to 60 questions, plans estimated 0.83 to 1.23 times
    the calls that were then sent, and up to 1.42 times the remaining calls once two pipelines were in the cache.
    In 11 of 12 searches the numbers were within ``ranges``, for which all candidates are pruned a block of questions
    earlier or later.

    Raises:
        UsageError: as for `search`, or a number is not above 0.
    """
    from ragsmith.runs.plan import plan as estimate_costs  # noqa: PLC0415  not needed by a search

    for name, value in (("latency", latency), ("in_flight", in_flight), ("sample", sample)):
        if value is not None and not value > 0:
            raise WrongOption(name, f"is {value}: give a number above 0")
    with without_requests(), ExitStack() as stack:
        resources, found, chosen, setup, known = _prepare(dataset, arguments)
        if found.system:
            others = sum(size - 1 for size in found.sizes)  # of the default, and those of the winner for its parts
            systems = (chosen.max_evaluations or chosen.genetic.evaluations) + 1 + 2 * others
            most = min(systems, found.feasible_size) * len(setup.split.search) + len(setup.split.test)
            raise UsageError(
                f"the space {found.name!r} is of another system, whose costs ragsmith does not know: a search asks it "
                f"{most:,} questions at most, or as many as --max-calls allows"
            )
        store = stack.enter_context(resources.store())
        return estimate_costs(
            setup, found, store, chosen, prices=known, latency=latency, in_flight=in_flight, sample=sample
        )


_Prepared = tuple[Resources, Space, RunSettings, Experiment, Prices]


def _prepare(dataset: Dataset | str | Path, arguments: SearchArguments) -> _Prepared:
    """Return the inputs of a search or its plan, loaded and checked."""
    resources, found, chosen, known, chunk_size, faithfulness = _read_arguments(arguments)
    setup = resources.setup(dataset, chunk_size, faithfulness)
    if found.system:
        setup = replace(setup, system=ParameterSearch(found.system, resources.answers))
    setup = setup.with_searched_settings(found.settings)
    chosen.fitness.try_on(setup.measures, setup.dataset.examples)
    warn_unsupported_languages(setup)
    if found.own_prompts and not any(variant.loaded_models.reads_prompts for variant in setup.variants):
        raise WrongOption("language_model", "must name a chat model", "the embedded model reads no prompts")
    return resources, found, _set_prices(chosen, setup, known), setup, known


def _read_arguments(
    arguments: SearchArguments,
) -> tuple[Resources, Space, RunSettings, Prices, int | None, bool | None]:
    """Return the inputs that do not depend on the data set."""
    given = dict[str, Any](arguments)
    resources = Resources.pop_from(given)
    preset = given.pop("preset", None)
    found = resolve_space(
        given.pop("space", None), preset, given.pop("without", None)
    )  # loading a space may register measures of a fitness
    found = found.with_prompts(read_prompts(given.pop("prompts", None) or {}))
    prices, chunk_size, faithfulness = (given.pop(name, None) for name in ("prices", "chunk_size", "faithfulness"))
    chosen = resolve_settings(given.pop("settings", None), preset, given)
    reject_fixed_dimensions(found, chunk_size, resources.models)
    return resources, found, chosen, read_given_prices(prices), chunk_size, faithfulness


def check_arguments(arguments: EachArguments) -> None:
    """Check the arguments of `search` that do not depend on the data set.

    Raises:
        UsageError: an argument is invalid.
    """
    ignored = ("retry_failed", "engine", "memory", "on_step", "on_progress", "mlflow", "command")
    rest: Any = {name: value for name, value in arguments.items() if name not in ignored}
    resources, *_ = _read_arguments(rest)
    parse_engine(arguments.get("engine", PROCESSES))
    resources.resolve_models()
    if isinstance(memory := arguments.get("memory"), str):
        parse_size(memory)


def _set_prices(settings: RunSettings, setup: Experiment, prices: Prices) -> RunSettings:
    """Return ``settings`` with the price of the language models, which must be the same for all (`with_price`)."""
    each = [with_price(settings, variant.loaded_models, prices) for variant in setup.variants]
    if any(variant_settings != each[0] for variant_settings in each):
        problem = "include money, but the language models of the search space have different prices: use calls instead"
        raise WrongOption("objectives", problem)
    return each[0]


def _winner_files(setup: Experiment, winner: str | Path | None, reports: str | Path | None) -> list[Path]:
    """Return the files for the winner, after a check that they can be written."""
    files = [] if winner is None else [Path(winner)]
    if winner is not None and files[0].is_dir():
        raise WrongOption("winner", f"{winner} is a folder: name a file in it")
    if reports is not None:
        files.append(Path(reports) / folder_of(setup.dataset.name) / "winner.yaml")
    with ExitStack() as stack:
        for file in files:
            make_folder(file.parent)
            stack.enter_context(tempfile.TemporaryFile(dir=file.parent))
    return files


def _check_overwrite(reports: str | Path | None, dataset: Dataset, key: str) -> None:
    """Say with a `Notice` that the search of this ``key`` replaces the report of another one.

    Raises:
        WrongOption: it is that of another data set of the same name that still exists.
    """
    folder = Path(reports or "") / folder_of(dataset.name)
    if reports is None or not dataset.source or not (folder / "winner.yaml").exists():
        return
    try:
        exported = ExportedFile(folder / "winner.yaml")
        source, same, before = exported.source(), exported.dataset_digest() == dataset.digest, exported.run_key()
    except UsageError:  # not an exported file, or its data set has no folder
        return
    exists = source in bundled_names("datasets") or Path(source).is_dir()
    if exists and source != dataset.source and not same:
        raise WrongOption(
            "reports",
            f"has in {folder} the report of another data set of the name {dataset.name!r}, {source}: name another "
            "folder, or change the name in dataset.yaml",
        )
    if before not in ("", key):
        warn_caller(
            f"{folder} has the report of another search, {before[:12]}, which this one replaces: name another folder "
            "with --reports to keep both; the other search, repeated, writes its report again from the cache"
        )
