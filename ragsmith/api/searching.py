"""`search`, and `plan`, which says what it would ask for."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from ragsmith.api.arguments import SearchArguments, SettingChanges
from ragsmith.api.resources import (
    Resources,
    read_given_prices,
    reject_fixed_dimensions,
    resolve_space,
    warn_unsupported_languages,
)
from ragsmith.api.result import Result
from ragsmith.datasets.bundled import names
from ragsmith.errors import BudgetExhausted, ModelUnavailable, Notice, UsageError, WrongOption
from ragsmith.evaluation.cluster import PROCESSES, read_engine
from ragsmith.evaluation.experiment import Experiment
from ragsmith.evaluation.fitness import Fitness
from ragsmith.evaluation.racing import Racing
from ragsmith.exported.file import ExportedFile
from ragsmith.gateway.budget import Limits, Prices, Spent, parse_spent
from ragsmith.gateway.memory import parse_size
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
from ragsmith.types import Dataset

if TYPE_CHECKING:
    from ragsmith.runs.plan import SearchPlan


def settings_of(settings: RunSettings | None, preset: str | None, changes: Mapping[str, Any]) -> RunSettings:
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
    if "folds" in given and given.get("verdict", settings.verdict) != CROSSFIT:
        raise WrongOption("folds", f"is {given['folds']}, and only a {CROSSFIT} has folds: add  --verdict {CROSSFIT}")
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
    if "strategy" in of_the_run:
        of_the_run["strategy"] = str(STRATEGIES.parse(of_the_run["strategy"]))
    _check_read(of_the_run.get("strategy", settings.strategy), settings.genetic, genetic)
    for unread in given:
        if unread in SettingChanges.__annotations__:
            raise UsageError(f"the setting {unread!r} is declared and read by nothing: give RunSettings a field for it")
        check_choice("setting", unread, SettingChanges.__annotations__)
    return replace(settings, genetic=settings.genetic.changed(**genetic), **of_the_run)


def _check_read(strategy: str, before: GeneticSettings, changes: Mapping[str, Any]) -> None:
    """Raise WrongOption where the strategy, or the parts of it that are chosen, do not read a setting."""
    reads = STRATEGIES.parse(strategy).reads
    selection, mutation = (changes.get(name, getattr(before, name)) for name in ("selection", "mutation"))
    for name, value in changes.items():
        if name not in reads:
            others = " or ".join(known.name for known in STRATEGIES if name in known.reads)
            raise WrongOption(name, f"is {value}, and the strategy {strategy} does not read it, as {others} would")
        if name == "tournament" and selection != "tournament":
            raise WrongOption(name, f"is {value}, and parents are selected by {selection}: add  --selection tournament")
        if name in ("mutation_min", "mutation_max") and mutation != "adaptive":
            raise WrongOption(name, f"is {value}, and mutation is {mutation}: add  --mutation adaptive")


def _weighing(settings: RunSettings, given: Mapping[str, Any]) -> dict[str, Any]:
    """The objectives of ``given``, and what goes with several where nothing else is asked for: NSGA-II and no race."""
    asked = given["objectives"]
    names = [name.strip() for name in asked.split(",")] if isinstance(asked, str) else list(asked)
    found: dict[str, Any] = {
        "objectives": tuple(sorted(names, key=lambda name: (*SEARCH_OBJECTIVES, name).index(name)))
    }
    if len(names) > 1:
        found["race"] = given.get("race", False)
        found["strategy"] = given.get("strategy", "nsga2" if settings.strategy == "genetic" else settings.strategy)
    return found


class EachArguments(SearchArguments, total=False):
    """What `search_each` hands on to `search`."""

    retry_failed: bool
    engine: str
    memory: int | str | None
    on_step: Callable[[Step], None] | None
    on_progress: Callable[[int, int], None] | None


def search(
    dataset: Dataset | str | Path,
    *,
    limits: Limits | None = None,
    accept_spent: Spent | str | None = None,
    retry_failed: bool = False,
    engine: str = PROCESSES,
    memory: int | str | None = None,
    winner: str | Path | None = None,
    reports: str | Path | None = None,
    on_start: Callable[[Start], None] | None = None,
    on_step: Callable[[Step], None] | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    **arguments: Unpack[SearchArguments],
) -> Result:
    """Search ``space`` for the best pipeline on ``dataset``; the same search again goes on from what ``cache`` holds.

    >>> found = ragsmith.search("law", space="quick", seed=1, max_evaluations=8, probes=False)
    >>> found.state, len(found.ranking)
    ('finished', 7)
    >>> print(found.verdict.words)
    Better than naive RAG and BM25. No difference from the recommended pipeline shown.
    >>> found.winner.ask("When does the limitation period start?").sources[0].title
    'Obligations Code of Ostrevane (Excerpt)'

    ``settings`` says how the search goes, or else ``preset`` does: ``default``, ``paper`` or ``quick``. Single settings
    are changed by name: ``seed=7``, ``strategy="tpe"`` and all others of `RunSettings` and `GeneticSettings`;
    ``fitness`` may be `Weights`, ``FILE.py:function``, or a function of a file that was imported. With
    ``objective="retrieval"`` retrieval alone is tuned: the fitness is R, nothing is generated, and questions need no
    answers. With ``objectives="quality,calls"`` the fitness is weighed against calls of models, with
    ``"quality,calls,latency,money"`` against seconds and money as well, which needs ``prices``: the strategy is NSGA-II
    then, without races. ``space`` is the one of the preset unless given; ``without`` lists what to leave out of it,
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
    ``memory`` is how many bytes all processes may have together, also as ``"500M"``, ``"2G"`` or ``"1.5GiB"``: half of
    what is available unless given, and at most 1.5 GiB a process. Results do not depend on it; beyond it, what is
    cheapest to make again is dropped.

    With ``engine="ray"`` (extra ``ray``) the workers are actors of a Ray cluster that is started on this machine, and
    stopped at the end; ``"ray://HOST:PORT"`` is a cluster's client server, and ``"ray:HOST:PORT"``, or ``"ray:auto"``,
    a cluster that this machine is a node of. ``workers`` are as many as it has cores unless given. What comes out is
    the same, byte for byte; see `docs/clusters.md`.

    A candidate may fail on the share ``max_failure_rate`` of the questions; those that fail for every candidate are
    excluded. If failures leave open which candidate is best, there is no winner, and ``no_winner`` of the result says
    why.

    ``winner`` names a file for the winning pipeline, and ``reports`` a folder for report and winner; the report is
    written without a winner, too, and where a provider is down or the budget spent. A data set that
    was read from no folder is in the file by name and digest only, and has to be handed to `Pipeline.load` again.
    ``on_start`` gets what is searched, ``on_step`` the end of each step, and ``on_progress`` how many answers of how
    many in the step are there; they are called between answers, so they should be quick.

    Raises:
        UsageError: the data set, the space, a setting or a model cannot be used; nothing was computed.
        SpendingDamaged: there are limits, the cache does not know any more what was spent, and nothing was accepted.
        BudgetExhausted: ``limits`` were reached before any pipeline was complete; the same search goes on.
        ModelUnavailable: a provider refuses the key or is down; what was computed is kept.
    """
    cluster = read_engine(engine, arguments.get("workers"))
    most = None if memory is None else parse_size(memory)
    accepted = parse_spent(accept_spent) if isinstance(accept_spent, str) else accept_spent
    resources, found, chosen, setup, known = _prepared(dataset, arguments)
    if limits and limits.by_name and not setup.served:
        warnings.warn(
            "limits are about requests to servers, and none of these models is asked at one", Notice, stacklevel=2
        )
    if limits and limits.cost is not None:
        known.refuse_unknown(setup.served)
    files = _files(setup, winner, reports)
    with cluster or nullcontext(), resources.store() as store:
        run = (Crossfit if chosen.verdict == CROSSFIT else Run)(
            setup,
            found,
            store,
            chosen,
            execution=Execution(
                workers=resources.workers or setup.workers, retry_failed=retry_failed, memory=most, cluster=cluster
            ),
            allowance=Allowance(limits=limits, prices=known, accept_spent=accepted),
            callbacks=Callbacks(on_start=on_start, on_step=on_step, on_progress=on_progress),
        )
        try:
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
            warnings.warn(f"{file} is the winner of an earlier search: this one has none", Notice, stacklevel=2)
    if reports is not None:
        result.report(reports)
    return result


def plan(
    dataset: Dataset | str | Path,
    *,
    latency: float | None = None,
    in_flight: int | None = None,
    sample: int | None = None,
    **arguments: Unpack[SearchArguments],
) -> SearchPlan:
    """Say what a search with the same arguments would ask of models: requests, tokens, money, seconds; nothing is sent.

    It is worked out on up to ``sample`` of the search questions: unless given, on 100 where candidates are raced, else
    on 15, and on more where there are few pipelines. What requests take is measured on replies in ``cache`` or, as
    the notes of the plan say, assumed: `check_models` with that cache gets a reply to each task. A request takes
    ``latency`` seconds, and ``in_flight`` are answered at once: unless given, as measured, or 1 s, and as many as
    the provider is sent.

    Replies decide when candidates leave a race: before searches of 20 to 60 questions, plans said 0.83 to 1.23 times
    the calls that were then sent, and up to 1.42 times what was left to send once two pipelines were in the cache.
    ``ranges`` of the plan, if all leave a block sooner or later, held 11 times in 12.

    Raises:
        UsageError: as for `search`, or a number is not above 0.
    """
    from ragsmith.runs.plan import plan as work_out  # noqa: PLC0415  a search needs none

    for name, value in (("latency", latency), ("in_flight", in_flight), ("sample", sample)):
        if value is not None and not value > 0:
            raise WrongOption(name, f"is {value}: give a number above 0")
    resources, found, chosen, setup, known = _prepared(dataset, arguments)
    with resources.store() as store:
        return work_out(setup, found, store, chosen, prices=known, latency=latency, in_flight=in_flight, sample=sample)


_Prepared = tuple[Resources, Space, RunSettings, Experiment, Prices]


def _prepared(dataset: Dataset | str | Path, arguments: SearchArguments) -> _Prepared:
    """What a search or its plan goes by, all loaded and checked."""
    resources, found, chosen, known, chunk_size, faithfulness = _read(arguments)
    setup = resources.setup(dataset, chunk_size, faithfulness).searching(found.settings)
    warn_unsupported_languages(setup)
    return resources, found, _priced(chosen, setup, known), setup, known


def _read(
    arguments: SearchArguments,
) -> tuple[Resources, Space, RunSettings, Prices, int | None, bool | None]:
    """What does not depend on the data set."""
    given = dict[str, Any](arguments)
    resources = Resources.taken_from(given)
    preset = given.pop("preset", None)
    found = resolve_space(
        given.pop("space", None), preset, given.pop("without", None)
    )  # it may import measures of a fitness
    prices, chunk_size, faithfulness = (given.pop(name, None) for name in ("prices", "chunk_size", "faithfulness"))
    chosen = settings_of(given.pop("settings", None), preset, given)
    reject_fixed_dimensions(found, chunk_size, resources.models)
    return resources, found, chosen, read_given_prices(prices), chunk_size, faithfulness


def refuse_wrong(arguments: EachArguments) -> None:
    """Refuse arguments of `search` that are wrong whatever the data set is.

    Raises:
        UsageError: one of them is.
    """
    own = ("retry_failed", "engine", "memory", "on_step", "on_progress")
    rest: Any = {name: value for name, value in arguments.items() if name not in own}
    resources, *_ = _read(rest)
    read_engine(arguments.get("engine", PROCESSES))
    resources.named()
    if isinstance(memory := arguments.get("memory"), str):
        parse_size(memory)


def _priced(settings: RunSettings, setup: Experiment, prices: Prices) -> RunSettings:
    """See `with_price`; one price is reckoned with, whatever is searched over."""
    each = [with_price(settings, variant.loaded_models, prices) for variant in setup.variants]
    if any(one != each[0] for one in each):
        problem = (
            "have money, but the language models that are searched over have different prices: weigh calls instead"
        )
        raise WrongOption("objectives", problem)
    return each[0]


def _files(setup: Experiment, winner: str | Path | None, reports: str | Path | None) -> list[Path]:
    """Where the winner is to be written; what could not be is found out before anything is computed."""
    files = [] if winner is None else [Path(winner)]
    if winner is not None and files[0].is_dir():
        raise WrongOption("winner", f"{winner} is a folder: name a file in it")
    if reports is not None:
        files.append(Path(reports) / folder_of(setup.dataset.name) / "winner.yaml")
        _refuse_another(files[-1], setup.dataset)
    with ExitStack() as stack:
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(tempfile.TemporaryFile(dir=file.parent))
    return files


def _refuse_another(winner: Path, dataset: Dataset) -> None:
    """Refuse to write over the report of another data set of the same name that is still where its winner says."""
    if not winner.exists() or not dataset.source:
        return
    try:
        found = ExportedFile(winner)
        source, same = found.source(), found.digest() == dataset.digest
    except UsageError:  # no file of ours, or of a data set that is in no folder: nothing tells that it is another
        return
    there = source in names("datasets") or Path(source).is_dir()
    if there and source != dataset.source and not same:
        raise WrongOption(
            "reports",
            f"has in {winner.parent} the report of another data set of the name {dataset.name!r}, {source}: name "
            "another folder, or change the name in dataset.yaml",
        )
