"""``ragsmith search | plan``."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.api.arguments import RunArguments
from ragsmith.cli.app import app, listing, registered_strategies
from ragsmith.cli.interrupts import INTERRUPTED
from ragsmith.cli.options import (
    CACHE,
    REPORTS,
    BudgetFlags,
    CacheOption,
    DatasetOption,
    JsonOption,
    ModelFlags,
    PricesOption,
    merged,
)
from ragsmith.cli.output import note, say, say_folded, say_lines, say_table, show_result, table
from ragsmith.cli.progress import Progress, show_building
from ragsmith.errors import BudgetExhausted, WrongOption
from ragsmith.text.redaction import redacted

if TYPE_CHECKING:
    from ragsmith.api.reporting import Searched
    from ragsmith.api.result import Result
    from ragsmith.runs.plan import SearchPlan


DatasetsOption = Annotated[
    list[str],
    typer.Option(
        "--dataset",
        help="A bundled data set by name, or a folder; may be repeated; all stands for all bundled domains.",
    ),
]


@app.command(cls=listing("Strategies", registered_strategies))
@merged
def search(
    *,
    dataset: DatasetsOption,
    run: RunArguments,
    models: ModelFlags,
    budget: BudgetFlags,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of processes (embedded models) or of questions in flight. [default: number of cores, or 64]"
        ),
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Execution engine: processes (and threads), ray (a Ray cluster started on this machine), "
            "ray://HOST:PORT (the client server of a cluster), ray:HOST:PORT or ray:auto (from a node of the cluster); "
            "--workers is then the number of actors."
        ),
    ] = "processes",
    memory: Annotated[
        str | None,
        typer.Option(
            help="Maximum memory of all processes together, such as 500M or 2G; results do not depend on it. "
            "[default: half of the available memory, at most 1.5G per process]"
        ),
    ] = None,
    retry_failed: Annotated[
        bool,
        typer.Option(
            "--retry-failed",
            help="Repeat requests that were refused, or whose replies could not be read, in earlier runs.",
        ),
    ] = False,
    cache: CacheOption = str(CACHE),
    reports: Annotated[Path, typer.Option(help="Folder for the report and the winner.")] = REPORTS,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Search for the best pipeline; the same command resumes an interrupted search."""
    progress = Progress.suited(quiet=quiet, as_json=as_json)
    show_building(progress.building)
    arguments = {
        **run,
        **models.arguments(),
        "limits": budget.limits(),
        "prices": budget.prices,
        "retry_failed": retry_failed,
        "workers": workers,
        "engine": engine,
        "memory": memory,
        "cache": cache,
        "reports": reports,
        "on_start": progress.begin,
        "on_step": progress.step,
        "on_progress": progress.progress,
    }
    if len(dataset) == 1 and not _is_all(dataset[0]):
        _search_one(dataset[0], {**arguments, "accept_spent": budget.accept_spent}, progress, models.base_url, as_json)
        return
    if budget.accept_spent is not None:
        raise WrongOption(
            "accept_spent", "applies to the search of one data set: search that data set alone, then all of them again"
        )
    _search_each(dataset, arguments, progress, as_json)


def _is_all(dataset: str) -> bool:
    from ragsmith.datasets.bundled import ALL

    return dataset == ALL and not Path(ALL).is_dir()


def _search_one(
    dataset: str, arguments: dict[str, Any], progress: Progress, base_url: str | None, as_json: bool
) -> None:
    try:
        found = ragsmith.search(dataset, **arguments)
    except BudgetExhausted as stop:
        progress.clear()
        reason = f"paused before any proposed pipeline was complete: {redacted(str(stop))}"
        show_result(as_json, {"state": "interrupted", "why": reason}, lambda: None)
        note(f"{reason}.")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        progress.clear()
    show_result(as_json, _result_json(found), lambda: _say_result(found, progress.seconds(), base_url))
    if found.state == "interrupted":
        note(f"paused: {redacted(found.why)}.")
    _note_damaged(found)
    if found.no_winner:
        raise typer.Exit(INTERRUPTED if found.state == "interrupted" else 1)


def _search_each(datasets: list[str], arguments: dict[str, Any], progress: Progress, as_json: bool) -> None:
    """Search several data sets; print a line for each, and the pooled comparison.

    The exit code is 1 if a search failed or has no winner, else `INTERRUPTED` if a search is waiting, or was paused
    before it had a winner.
    """
    from ragsmith.api.result import Result

    def ended(name: str, result: Result | Exception) -> None:
        progress.clear()
        if isinstance(result, BudgetExhausted):  # reported as waiting
            return
        if not isinstance(result, Result):
            note(f"error: {name}: {redacted(str(result))}")
            return
        if result.state == "interrupted":
            note(f"paused: {name}: {redacted(result.why)}.")
        if result.no_winner:
            note(f"no winner: {name}: {redacted(result.no_winner)}.")
        _note_damaged(result)

    try:
        found = ragsmith.search_each(datasets, **arguments, on_dataset=progress.of_several, on_end=ended)
    finally:
        progress.clear()
    show_result(as_json, _each_json(found), lambda: _say_each(found, progress.seconds()))
    for name, why in found.waiting.items():
        note(f"waiting: {name}: {redacted(why)}.")
    if found.failed or any(one.no_winner and one.state != "interrupted" for one in found.found.values()):
        raise typer.Exit(1)
    if found.waiting or any(one.no_winner for one in found.found.values()):
        raise typer.Exit(INTERRUPTED)


def _note_damaged(found: Result) -> None:
    for damaged in found.damaged:
        note(f"the cache row {damaged} was damaged and was computed again")


def _each_json(found: Searched) -> dict[str, Any]:
    from ragsmith.reporting.report_files import report_json

    return {
        "datasets": {
            **{name: _result_json(one) for name, one in found.found.items()},
            **{name: {"state": "failed", "why": redacted(why)} for name, why in found.failed.items()},
            **{name: {"state": "waiting", "why": redacted(why)} for name, why in found.waiting.items()},
        },
        **({} if found.across is None else {"across": report_json(found.across)}),
        "report": [str(path) for path in found.files],
    }


def _say_each(found: Searched, seconds: float) -> None:
    """Print a line for each data set, and the pooled gains of the winners."""
    from ragsmith.reporting.overview import describe_pooled, summary_table

    results = found.found.values()
    unfinished = {**dict.fromkeys(found.failed, "failed"), **dict.fromkeys(found.waiting, "waiting")}
    summary = summary_table([one.run_report for one in results], unfinished)
    say_table(summary)
    pooled = [describe_pooled(rival) or None for rival in found.across.tested] if found.across else []
    say_folded(f"({summary.caption})", *pooled)
    computed, reused, calls = (
        sum(getattr(one, name) for one in results) for name in ("computed", "reused", "calls_made")
    )
    sent, tokens, cost = (sum(getattr(one.spent, name) for one in results) for name in ("calls", "tokens", "cost"))
    say_lines(
        "",
        f"{computed:,} answers computed, {reused:,} from the cache, {calls:,} model calls, {seconds:.1f} s",
        _spent_line(sent, tokens, cost),
        *(f"report  {page}" for page in found.files if page.suffix == ".html"),
        *(f"winner  {winner}" for one in results for winner in filter(_is_winner, one.files)),
    )


def _spent_line(calls: int, tokens: int, cost: float) -> str | None:
    money = f", {cost:.4f} in money" if cost else ""
    return f"{calls:,} requests sent so far, {tokens:,} tokens{money}" if calls else None


def _result_json(found: Result) -> dict[str, Any]:

    return {
        "run": found.key,
        "state": found.state,
        "computed": found.computed,
        "reused": found.reused,
        "model_calls": found.calls_made,
        "spent": asdict(found.spent),
        "winner": next((str(path) for path in found.files if _is_winner(path)), None),
        **({"no_winner": redacted(found.no_winner)} if found.no_winner else {}),
        "report": [str(path) for path in found.files if not _is_winner(path)],
        "summary": found.summary.splitlines(),
    }


def _is_winner(path: Path) -> bool:
    return path.suffix == ".yaml"


def _say_result(found: Result, seconds: float, base_url: str | None) -> None:
    made = found.run_report.about.record.settings.fitness.made
    say_lines(
        *found.summary.splitlines(),
        "",
        f"{found.computed:,} {made} computed, {found.reused:,} from the cache, "
        f"{found.calls_made:,} model calls, {seconds:.1f} s",
        _spent_line(found.spent.calls, found.spent.tokens, found.spent.cost),
        f"report  {next(path for path in found.files if path.suffix == '.html')}",
    )
    if found.no_winner:
        note(f"no winner: {redacted(found.no_winner)}.")
    where = f" --base-url {shlex.quote(base_url)}" if base_url else ""
    for winner in filter(_is_winner, found.files):
        say_lines(f"winner  {winner}", f'ask it  ragsmith ask {winner} "your question"{where}')


@app.command(cls=listing("Strategies", registered_strategies))
@merged
def plan(
    *,
    dataset: DatasetOption,
    run: RunArguments,
    models: ModelFlags,
    prices: PricesOption = None,
    latency: Annotated[
        float | None, typer.Option(help="Latency of a request in seconds. [default: as measured in the cache, or 1]")
    ] = None,
    in_flight: Annotated[
        int | None, typer.Option(help="Number of requests that are answered concurrently. [default: all that are sent]")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            help="Number of search questions the plan is estimated on. [default: 100; at least 15 without races]"
        ),
    ] = None,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Estimate the requests, tokens, money and time of a search, and the cost of each of its options."""
    found = ragsmith.plan(
        dataset,
        **run,
        **models.arguments(),
        prices=prices,
        latency=latency,
        in_flight=in_flight,
        sample=sample,
        cache=cache,
    )
    show_result(as_json, {**asdict(found), "totals": found.totals}, lambda: _say_plan(found))


def _say_plan(found: SearchPlan) -> None:
    if found.searches > 1:
        say(
            f"{found.searches} searches, one for each fold and one on all questions: the numbers below are for one "
            f"search times {found.searches}, an upper bound, as requests that they share are sent once"
        )
    if found.genomes is None:
        counts = f"about {found.about_pipelines:,} pipelines and {found.about_made:,} {found.made}"
        say_lines(
            "all models are embedded: no requests are sent, and the search costs no money",
            f"{counts}, fewer if candidates lose races or the search converges",
            f"{found.proposed:,} of the pipelines are proposed by the search, which is what --max-evaluations counts; "
            "the others are the baselines and each option alone. The recommended pipeline, and the simplification and "
            "ablation of the winner, are additional",
        )
        return
    say_lines(
        f"about {found.genomes} pipelines on {found.questions} questions, estimated on {found.sampled} of them with "
        "embedded models in place of the others",
        f"at most {found.proposed:,} of them are proposed by the search, which is what --max-evaluations counts; the "
        "others are baselines, each option alone, and the simplification and ablation of the winner",
        "",
    )
    head = ["model", "request", "to be sent", "in the cache", "tokens in", "tokens out", "money", "seconds"]
    total = found.totals
    rows = [[_name(line.model), line.request, *_amounts(asdict(line))] for line in found.lines]
    table([*rows, ["all", "", *_amounts(total)]], head, frozenset(range(2, 8)))
    if found.ranges:
        how = "the simulated searches, each on its own questions, took"
        if found.raced:
            how = "if all pruned candidates are pruned one block of questions earlier or later, it takes"
        say_lines("", f"the course of a search depends on the replies: {how} {_describe_range(found)}")
    if found.timed:
        say_lines(
            "",
            f"latency: {found.timed:,} questions are answered once more, one by one; replies of chat models are taken "
            "from the cache with their measured seconds",
        )
    if found.choices:
        say()
        head = ["can be left out", "with", "requests", "tokens in", "tokens out", "money"]
        chosen = [[one.what, one.flag, *_amounts(asdict(one))] for one in found.choices]
        table(chosen, head, frozenset(range(2, 6)))
        say(
            "(requests of each alone; without a stage other pipelines are searched, so run the plan with its flag, too)"
        )
    say_lines("", *(f"{_name(model)}: {remark}" for model, remarks in found.notes.items() for remark in remarks))
    if total["cost"] is None:
        say("money: not all prices are known; give a file with --prices")


def _describe_range(found: SearchPlan) -> str:
    """Return the minimum and maximum over the simulated searches of a plan."""
    calls, cost = found.ranges["calls"], found.ranges.get("cost")
    money = "" if cost is None else f", and {cost[0]:.2f} to {cost[1]:.2f} in money"
    return f"{calls[0]:,.0f} to {calls[1]:,.0f} requests{money}"


def _name(model: str) -> str:
    return model.partition("@")[0]


def _amounts(of: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row, in the order of the header."""
    counts = [f"{of[name]:,.0f}" for name in ("calls", "cached", "input_tokens", "output_tokens") if name in of]
    money = "?" if of["cost"] is None else f"{of['cost']:.2f}"
    return [*counts, money, *([f"{of['seconds']:,.0f}"] if "seconds" in of else [])]
