"""``ragsmith search``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    FaithfulnessOption,
    JsonOption,
    ModelFlags,
    PresetSpaceOption,
    RunFlags,
    merged,
)
from ragsmith.cli.output import note, say, say_json
from ragsmith.cli.progress import Progress

if TYPE_CHECKING:
    from ragsmith.reporting.result import Result


@app.command()
@merged
def search(
    *,
    dataset: DatasetOption,
    space: PresetSpaceOption = None,
    run: RunFlags,
    time_limit: Annotated[float | None, typer.Option(help="Pause after so many seconds; resumable.")] = None,
    models: ModelFlags,
    budget: BudgetFlags,
    faithfulness: FaithfulnessOption = None,
    chunk_size: ChunkSizeOption = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes (embedded models) or questions in flight. [default: cores, or 64]")
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="Most memory of all processes together, such as 500M or 2G; results do not depend on it. "
            "[default: half of what is available, at most 1.5G a process]"
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again what earlier runs were refused or could not read.")
    ] = False,
    cache: CacheOption = str(CACHE),
    reports: Annotated[Path, typer.Option(help="Folder for report and winner.")] = REPORTS,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Search for the best pipeline; the same command again goes on where it stopped."""
    import ragsmith
    from ragsmith.errors import BudgetExhausted

    voice = Progress.suited(quiet=quiet, as_json=as_json)
    try:
        found = ragsmith.search(
            dataset,
            space=space,
            **asdict(run),
            time_limit=time_limit,
            **models.given(),
            limits=budget.limits(),
            prices=budget.prices,
            accept_spent=budget.accept_spent,
            faithfulness=faithfulness,
            chunk_size=chunk_size,
            retry_failed=retry_failed,
            workers=workers,
            memory=memory,
            cache=cache,
            reports=reports,
            on_start=voice.begin,
            on_step=voice.step,
            on_progress=voice.progress,
        )
    except BudgetExhausted as stop:
        voice.clear()
        said = f"paused before any pipeline that the search proposed was complete: {stop}"
        if as_json:
            say_json({"state": "interrupted", "why": said})
        note(f"{said}.")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        voice.clear()
    if as_json:
        say_json(_plain(found))
    else:
        _say_found(found, voice.seconds(), models.base_url)
    if found.state == "interrupted":
        note(f"paused: {found.why}.")
    for damaged in found.damaged:
        note(f"the cache row {damaged} was damaged and was computed again")
    if found.no_winner:
        raise typer.Exit(INTERRUPTED if found.state == "interrupted" else 1)


def _plain(found: Result) -> dict[str, Any]:
    return {
        "run": found.key,
        "state": found.state,
        "computed": found.computed,
        "reused": found.reused,
        "model_calls": found.calls_made,
        "spent": asdict(found.spent),
        "winner": next((str(path) for path in found.files if _is_winner(path)), None),
        **({"no_winner": found.no_winner} if found.no_winner else {}),
        "report": [str(path) for path in found.files if not _is_winner(path)],
        "summary": found.summary.splitlines(),
    }


def _is_winner(path: Path) -> bool:
    return path.suffix == ".yaml"


def _say_found(found: Result, seconds: float, base_url: str | None) -> None:
    import shlex

    for line in found.summary.splitlines():
        say(line)
    say()
    made = found.domain.about.record.settings.fitness.made
    say(
        f"{found.computed:,} {made} computed, {found.reused:,} from the cache, "
        f"{found.calls_made:,} model calls, {seconds:.1f} s"
    )
    if found.spent.calls:
        money = f", {found.spent.cost:.4f} in money" if found.spent.cost else ""
        say(f"{found.spent.calls:,} requests sent so far, {found.spent.tokens:,} tokens{money}")
    say(f"report  {next(path for path in found.files if path.suffix == '.html')}")
    if found.no_winner:
        note(f"no winner: {found.no_winner}.")
    for winner in filter(_is_winner, found.files):
        say(f"winner  {winner}")
        where = f" --base-url {shlex.quote(base_url)}" if base_url else ""
        say(f'ask it  ragsmith ask {winner} "your question"{where}')
