"""``ragsmith search``."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ragsmith.cli.app import app
from ragsmith.cli.interrupts import INTERRUPTED
from ragsmith.cli.options import (
    CACHE,
    REPORTS,
    BudgetFlags,
    CacheOption,
    ChunkSizeOption,
    DatasetOption,
    ModelFlags,
    RunFlags,
    merged,
)
from ragsmith.cli.output import note, say, say_json
from ragsmith.cli.progress import Progress

if TYPE_CHECKING:
    from ragsmith.evaluation.testbed import Setup
    from ragsmith.runs.run import Outcome
    from ragsmith.store.store import Store


@app.command()
@merged
def search(
    *,
    dataset: DatasetOption,
    space: Annotated[
        str | None,
        typer.Option("--space", help="A bundled search space by name, or a YAML file. [default: the preset's]"),
    ] = None,
    run: RunFlags,
    time_limit: Annotated[float | None, typer.Option(help="Pause after so many seconds; resumable.")] = None,
    models: ModelFlags,
    budget: BudgetFlags,
    faithfulness: Annotated[
        bool | None, typer.Option(help="Check answers claim by claim, two judge calls each. [default: if embedded]")
    ] = None,
    chunk_size: ChunkSizeOption = None,
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
    from ragsmith.reporting.values import folder_of
    from ragsmith.runs.run import Run
    from ragsmith.store.store import Store

    settings = run.settings(time_limit)
    if workers is not None and workers < 1:
        from ragsmith.errors import UsageError

        raise UsageError(f"--workers is {workers}: give at least 1")
    names = models.chosen()
    found_space = load_space(space or ("paper" if run.preset == "paper" else "default"))
    size = CHUNK_SIZE if chunk_size is None else chunk_size
    setup = prepare(dataset, names, size, faithfulness=faithfulness)
    voice = Progress.suited(quiet=quiet, as_json=as_json)
    _check_writable(reports / folder_of(setup.dataset.name))
    with Store.open(cache) as store:
        try:
            outcome = Run(
                setup,
                found_space,
                store,
                settings,
                workers=workers or names.workers(),
                on_step=voice.step,
                on_progress=voice.progress,
                on_start=voice.begin,
                limits=budget.limits(),
                prices=budget.known_prices(),
            ).go()
        except BudgetExhausted as stop:
            voice.clear()
            note(f"paused before any pipeline was complete: {stop}.")
            raise typer.Exit(INTERRUPTED) from None
        finally:
            voice.clear()
        _finish(store, setup, outcome, dataset, reports, as_json=as_json, seconds=voice.seconds())


def _check_writable(folder: Path) -> None:
    """Find out before anything is computed that the results could not be written."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=folder):
        pass


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
