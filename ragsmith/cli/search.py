"""``ragsmith search``."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragsmith.cli.app import app
from ragsmith.cli.budget_options import (
    MaxCallsOption,
    MaxCostOption,
    MaxTokensOption,
    PricesOption,
    limits_of,
    prices_of,
)
from ragsmith.cli.model_options import (
    BaseUrlOption,
    ControllerOption,
    EmbedderOption,
    JudgeOption,
    LlmOption,
    ModelsOption,
    RerankerOption,
    VectorStoreOption,
    choose,
    named,
)
from ragsmith.cli.output import CACHE, REPORTS, CacheOption, note, say, say_json
from ragsmith.cli.progress import Progress

if TYPE_CHECKING:
    from ragsmith.evaluation.testbed import Setup
    from ragsmith.runs.record import RunSettings
    from ragsmith.runs.run import Outcome
    from ragsmith.store.store import Store


@app.command()
def search(
    dataset: Annotated[str, typer.Option("--dataset", help="A bundled data set by name, or a folder.")],
    space: Annotated[
        str | None,
        typer.Option("--space", help="A bundled search space by name, or a YAML file. [default: the preset's]"),
    ] = None,
    preset: Annotated[str, typer.Option(help="Numbers of the genetic algorithm: default, paper or quick.")] = "default",
    strategy: Annotated[str, typer.Option(help="genetic, random, tpe, greedy or exhaustive.")] = "genetic",
    population: Annotated[int | None, typer.Option(help="Candidates in a generation.")] = None,
    generations: Annotated[int | None, typer.Option(help="Generations after the first.")] = None,
    crossover: Annotated[str | None, typer.Option(help="single_point, multi_point, uniform, order or segment.")] = None,
    mutation: Annotated[
        str | None, typer.Option(help="random, adaptive, categorical, swap, inversion or composite.")
    ] = None,
    selection: Annotated[str | None, typer.Option(help="tournament, roulette, rank or elite.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the search.")] = None,
    max_evaluations: Annotated[int | None, typer.Option(help="Most candidates to evaluate.")] = None,
    time_limit: Annotated[float | None, typer.Option(help="Pause after so many seconds; resumable.")] = None,
    compare: Annotated[
        bool, typer.Option(help="Also evaluate as many random candidates, and every option alone.")
    ] = True,
    models: ModelsOption = None,
    llm: LlmOption = None,
    controller: ControllerOption = None,
    judge: JudgeOption = None,
    embedder: EmbedderOption = None,
    reranker: RerankerOption = None,
    base_url: BaseUrlOption = None,
    vector_store: VectorStoreOption = None,
    max_calls: MaxCallsOption = None,
    max_tokens: MaxTokensOption = None,
    max_cost: MaxCostOption = None,
    prices: PricesOption = None,
    faithfulness: Annotated[
        bool | None, typer.Option(help="Check answers claim by claim, two judge calls each. [default: if embedded]")
    ] = None,
    chunk_size: Annotated[int | None, typer.Option(help="Characters in a chunk, at most.")] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes (embedded models) or questions in flight. [default: cores, or 64]")
    ] = None,
    cache: CacheOption = str(CACHE),
    reports: Annotated[Path, typer.Option(help="Folder for report and winner.")] = REPORTS,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Search for the best pipeline; the same command again goes on where it stopped."""
    from ragsmith.errors import BudgetExhausted
    from ragsmith.evaluation.testbed import CHUNK_SIZE, prepare
    from ragsmith.pipelines.space_file import load_space
    from ragsmith.reporting.run_values import folder_of
    from ragsmith.runs.run import search as run_search
    from ragsmith.store.store import Store

    settings = _settings(
        preset,
        {
            "population": population,
            "generations": generations,
            "crossover": crossover,
            "mutation": mutation,
            "selection": selection,
            "seed": seed,
        },
        strategy,
        max_evaluations,
        time_limit,
    )
    settings = replace(settings, compare=compare)
    if workers is not None and workers < 1:
        from ragsmith.errors import UsageError

        raise UsageError(f"--workers is {workers}: give at least 1")
    names = choose(models, named(llm, controller, judge, embedder, reranker), base_url, vector_store)
    found_space = load_space(space or ("paper" if preset == "paper" else "default"))
    size = CHUNK_SIZE if chunk_size is None else chunk_size
    setup = prepare(dataset, names, size, faithfulness=faithfulness)
    limits = limits_of(max_calls, max_tokens, max_cost)
    known_prices = prices_of(prices, limits, setup.loaded_models)
    voice = Progress.suited(quiet=quiet, as_json=as_json, steps=_steps(settings))
    _check_writable(reports / folder_of(setup.dataset.name))
    with Store.open(cache) as store:
        voice.begin(setup, found_space.name, found_space.feasible_size)
        try:
            outcome = run_search(
                setup,
                found_space,
                store,
                settings,
                workers=workers or names.workers(),
                on_step=voice.step,
                on_progress=voice.progress,
                limits=limits,
                prices=known_prices,
                on_start=voice.watch,
            )
        except KeyboardInterrupt:
            voice.clear()
            note("interrupted; everything computed is kept. Go on with the same command.")
            raise typer.Exit(130) from None
        except BudgetExhausted as stop:
            voice.clear()
            note(f"paused before any pipeline was complete: {stop}.")
            raise typer.Exit(130) from None
        finally:
            voice.clear()
        _finish(store, setup, outcome, dataset, reports, as_json=as_json, seconds=voice.seconds())


def _steps(settings: RunSettings) -> int | None:
    """How many steps a search takes; None where nobody knows before."""
    bounded = settings.strategy == "genetic" and settings.max_evaluations is None
    return settings.genetic.generations + 1 if bounded else None


def _check_writable(folder: Path) -> None:
    """Find out before anything is computed that the results could not be written."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


def _settings(
    preset: str, given: dict[str, Any], strategy: str, max_evaluations: int | None, time_limit: float | None
) -> RunSettings:
    from ragsmith.errors import UsageError
    from ragsmith.runs.record import RunSettings
    from ragsmith.strategies import PRESETS, STRATEGIES
    from ragsmith.text.suggest import did_you_mean

    if preset not in PRESETS:
        raise UsageError(f"unknown preset {preset!r}: {did_you_mean(preset, PRESETS)}")
    if strategy not in STRATEGIES:
        raise UsageError(f"unknown strategy {strategy!r}: {did_you_mean(strategy, STRATEGIES)}")
    if max_evaluations is not None and max_evaluations < 1:
        raise UsageError(f"--max-evaluations is {max_evaluations}: give at least 1")
    if time_limit is not None and not time_limit > 0:
        raise UsageError(f"--time-limit is {time_limit}: give seconds above 0")
    genetic = replace(PRESETS[preset], **{key: value for key, value in given.items() if value is not None})
    return RunSettings(strategy, genetic, max_evaluations, time_limit)


def _finish(
    store: Store,
    setup: Setup,
    outcome: Outcome,
    location: str,
    reports: Path,
    *,
    as_json: bool,
    seconds: float,
) -> None:
    from ragsmith.reporting import folder_of, summary_lines, write_report
    from ragsmith.runs.winner import write_winner

    folder = reports / folder_of(setup.dataset.name)
    winner = write_winner(store, outcome.key, setup, location, folder / "winner.yaml")
    written = write_report(store, reports, setup.dataset.name, run=outcome.key, rows=outcome.rows)
    (domain,) = written.read
    if as_json:
        say_json(
            {
                "run": outcome.key,
                "state": outcome.state,
                "computed": outcome.computed,
                "reused": outcome.reused,
                "model_calls": outcome.calls_made,
                "spent": asdict(outcome.spent),
                "winner": str(winner),
                "report": [str(path) for path in written.paths],
                "summary": summary_lines(domain),
            }
        )
    else:
        for line in summary_lines(domain):
            say(line)
        say()
        say(
            f"{outcome.computed:,} answers computed, {outcome.reused:,} from the cache, "
            f"{outcome.calls_made:,} model calls, {seconds:.1f} s"
        )
        if outcome.spent.calls:
            money = f", {outcome.spent.cost:.4f} in money" if outcome.spent.cost else ""
            say(f"{outcome.spent.calls:,} requests sent so far, {outcome.spent.tokens:,} tokens{money}")
        say(f"report  {folder / 'index.html'}")
        say(f"winner  {winner}")
        say(f'ask it  ragsmith ask {winner} "your question"')
    if outcome.state == "interrupted":
        note(f"paused: {outcome.why}.")
    for damaged in store.damaged:
        note(f"the cache row {damaged} was damaged and was computed again")
