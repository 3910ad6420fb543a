"""What the command line does, from Python: the commands parse their flags, call these functions and print.

Names, paths and objects are taken alike: a data set or space by bundled name, by path or as loaded; models by name, as
a mapping by role, as a file or as objects; prices as a mapping or a file; a cache as a file, a URL or an open store.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ragsmith.errors import WrongOption
from ragsmith.evaluation.fitness import Fitness, Weights
from ragsmith.evaluation.testbed import CHUNK_SIZE, Setup, prepare
from ragsmith.gateway.budget import Limits, Price, Prices, read_prices
from ragsmith.models.file import read_models
from ragsmith.models.given import apart
from ragsmith.models.names import ModelNames
from ragsmith.pipelines.space import Space
from ragsmith.pipelines.space_file import load_space
from ragsmith.reporting import folder_of, write_report
from ragsmith.reporting.result import Result
from ragsmith.runs.plan import SAMPLE, Plan
from ragsmith.runs.plan import plan as work_out
from ragsmith.runs.record import RunSettings
from ragsmith.runs.run import Run, Start, Step
from ragsmith.store.store import Store, opened
from ragsmith.strategies.genetic import PRESETS, GeneticSettings, check_choice
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
    compare: bool | None
    fitness: GivenFitness
    population: int | None
    generations: int | None
    crossover: str | None
    mutation: str | None
    selection: str | None
    elitism: int | None
    tournament: int | None
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
    settings: RunSettings | None = None,
    preset: str | None = None,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    limits: Limits | None = None,
    prices: GivenPrices = None,
    faithfulness: bool | None = None,
    chunk_size: int | None = None,
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

    >>> found = search("law", space="quick", max_evaluations=6, generations=1, compare=False, workers=1)
    >>> found.state
    'finished'
    >>> found.winner.ask("When does the limitation period start?").sources[0].doc
    'statuteoflimitations_a53d29f0'

    ``settings`` says how the search goes, or else ``preset`` does: ``default``, ``paper`` or ``quick``. Single settings
    are changed by name: ``seed=7``, ``strategy="tpe"`` and all others of `RunSettings` and `GeneticSettings`;
    ``fitness`` may be `Weights`, ``FILE.py:function``, or a function that is defined in a file. ``space`` is the one of
    the preset unless given.

    ``models`` are names, or by role a name or an object: a LlamaIndex ``LLM`` or ``BaseEmbedding``, or anything with
    the protocol that its role has in `ragsmith.models`, whose ``id`` says what its results depend on. Objects are asked
    from ``workers`` threads at once; what they return is kept on disk if they are chat models, or have an attribute
    ``slow`` that is true. `Pipeline.load` must be handed them again. ``base_url`` is where ``openai:`` models are
    asked, and ``vector_store`` where vectors lie. ``limits`` bound what may be spent, over all resumes; one on cost
    needs ``prices``. ``faithfulness`` checks answers claim by claim: unless given, where the judge costs nothing.

    ``workers`` is questions in flight for models that are elsewhere, and processes for the embedded ones: every core
    unless given. A script that uses more than one process needs the usual ``if __name__ == "__main__":``.

    ``winner`` names a file for the winning pipeline, and ``reports`` a folder for report and winner. A data set that
    was read from no folder is in the file by name and digest only, and has to be handed to `Pipeline.load` again.
    ``on_start`` is told what is searched, ``on_step`` how each step ended, and ``on_progress`` how many answers of how
    many in the step are there; they are called between answers, so they should be quick.

    Raises:
        UsageError: the data set, the space, a setting or a model cannot be used; nothing was computed.
        BudgetExhausted: ``limits`` were reached before any pipeline was complete; the same search goes on.
        RagsmithError: no candidate could be evaluated on every question; what was computed is kept.
    """
    _refuse_no_workers(workers)
    chosen, found = _settings(settings, preset, changes), _space(space, preset)
    known = _prices(prices)
    setup = _setup(dataset, models, base_url, vector_store, chunk_size, faithfulness)
    if limits and limits.cost is not None:
        known.refuse_unknown(setup.loaded_models.served())
    files = _files(setup, winner, reports)
    with opened(cache) as store:
        outcome = Run(
            setup,
            found,
            store,
            chosen,
            workers=workers or setup.models.workers(),
            on_start=on_start,
            on_step=on_step,
            on_progress=on_progress,
            limits=limits,
            prices=known,
        ).go()
        damaged = store.damaged
    result = Result(outcome, setup, cache, damaged)
    for file in files:
        result.export(file)
    if reports is not None:
        result.report(reports)
    return result


def plan(
    dataset: Dataset | str | Path,
    *,
    space: Space | str | Path | None = None,
    settings: RunSettings | None = None,
    preset: str | None = None,
    models: GivenModels = None,
    base_url: str | None = None,
    vector_store: str | None = None,
    prices: GivenPrices = None,
    faithfulness: bool | None = None,
    chunk_size: int | None = None,
    latency: float = 1.0,
    in_flight: int = 32,
    sample: int = SAMPLE,
    cache: Store | str | Path = CACHE,
    **changes: Unpack[Changes],
) -> Plan:
    """Say what a search with the same arguments would ask of models: requests, tokens, money, seconds; nothing is sent.

    It is worked out on up to ``sample`` of the search questions. A request is expected to take ``latency`` seconds,
    and ``in_flight`` of them to be answered at once.

    Raises:
        UsageError: as for `search`, or a number is not above 0.
    """
    for name, value in (("latency", latency), ("in_flight", in_flight), ("sample", sample)):
        if not value > 0:
            raise WrongOption(name, f"is {value}: give a number above 0")
    chosen, found = _settings(settings, preset, changes), _space(space, preset)
    known = _prices(prices)
    setup = _setup(dataset, models, base_url, vector_store, chunk_size, faithfulness)
    with opened(cache) as store:
        return work_out(setup, found, store, chosen, prices=known, latency=latency, in_flight=in_flight, sample=sample)


def report(cache: Store | str | Path, folder: str | Path, dataset: str | None = None) -> list[Path]:
    """Write the report of the searches in ``cache``, of one data set or of all, and return the files written."""
    with opened(cache, read_only=True) as store:
        return list(write_report(store, Path(folder), dataset).paths)


def _settings(settings: RunSettings | None, preset: str | None, changes: Mapping[str, Any]) -> RunSettings:
    """``settings``, or those of ``preset``, with what ``changes`` has a value for.

    Raises:
        UsageError: there is no such preset or setting, or both are given.
    """
    if settings is None:
        check_choice("preset", preset or "default", PRESETS)
        settings = RunSettings(genetic=PRESETS[preset or "default"])
    elif preset is not None:
        raise WrongOption("preset", "was given beside settings, which say the same: leave one of them out")
    given = {name: value for name, value in changes.items() if value is not None}
    if "fitness" in given:
        given["fitness"] = Fitness.of(given["fitness"])
    of_the_run, genetic = (
        {field.name: given.pop(field.name) for field in fields(part) if field.name in given}
        for part in (RunSettings, GeneticSettings)
    )
    for unknown in given:
        check_choice("setting", unknown, Changes.__annotations__)
    return replace(settings, genetic=replace(settings.genetic, **genetic), **of_the_run)


def _space(space: Space | str | Path | None, preset: str | None) -> Space:
    """A space as it was given; unless it was, that of the preset."""
    if isinstance(space, Space):
        return space
    return load_space(space or ("paper" if preset == "paper" else "default"))


def _setup(
    dataset: Dataset | str | Path,
    models: GivenModels,
    base_url: str | None,
    vector_store: str | None,
    chunk_size: int | None,
    faithfulness: bool | None = None,
) -> Setup:
    """Data set and models, loaded and checked."""
    if isinstance(models, str | Path):
        models = read_models(Path(models))
    named, given = ({}, {}) if isinstance(models, ModelNames) else apart(models or {})
    names = models if isinstance(models, ModelNames) else ModelNames()
    chosen = names.overridden(named, base_url, vector_store)
    chosen.check()
    size = CHUNK_SIZE if chunk_size is None else chunk_size
    return prepare(dataset, chosen, size, faithfulness=faithfulness, given=given)


def _prices(prices: GivenPrices) -> Prices:
    return prices if isinstance(prices, Prices) else read_prices(prices or {})


def _refuse_no_workers(workers: int | None) -> None:
    """Raise UsageError where there would be no worker; None leaves their number to the models."""
    if workers is not None and workers < 1:
        raise WrongOption("workers", f"is {workers}: give at least 1")


def _files(setup: Setup, winner: str | Path | None, reports: str | Path | None) -> list[Path]:
    """Where the winner is to be written; what could not be is found out before anything is computed."""
    files = [] if winner is None else [Path(winner)]
    if reports is not None:
        files.append(Path(reports) / folder_of(setup.dataset.name) / "winner.yaml")
    with ExitStack() as stack:
        for file in files:
            file.parent.mkdir(parents=True, exist_ok=True)
            stack.enter_context(tempfile.TemporaryFile(dir=file.parent))
    return files
