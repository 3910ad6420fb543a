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
        help="A bundled data set by name, or a folder; several times, or all of the domains, searches each in turn.",
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
        int | None, typer.Option(help="Processes (embedded models) or questions in flight. [default: cores, or 64]")
    ] = None,
    engine: Annotated[
        str,
        typer.Option(
            help="Where answers are computed: processes (and threads) here, ray (a Ray cluster started here), "
            "ray://HOST:PORT (a cluster's client server), ray:HOST:PORT or ray:auto (from a node of it); --workers is "
            "the number of actors there."
        ),
    ] = "processes",
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
    voice = Progress.suited(quiet=quiet, as_json=as_json)
    show_building(voice.building)
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
        "on_start": voice.begin,
        "on_step": voice.step,
        "on_progress": voice.progress,
    }
    if len(dataset) == 1 and not _is_all(dataset[0]):
        _search_one(dataset[0], {**arguments, "accept_spent": budget.accept_spent}, voice, models.base_url, as_json)
        return
    if budget.accept_spent is not None:
        raise WrongOption(
            "accept_spent", "is about the search of one data set: name that one alone, and then all again"
        )
    _search_each(dataset, arguments, voice, as_json)


def _is_all(dataset: str) -> bool:
    from ragsmith.datasets.bundled import ALL

    return dataset == ALL and not Path(ALL).is_dir()


def _search_one(dataset: str, arguments: dict[str, Any], voice: Progress, base_url: str | None, as_json: bool) -> None:
    try:
        found = ragsmith.search(dataset, **arguments)
    except BudgetExhausted as stop:
        voice.clear()
        said = f"paused before any pipeline that the search proposed was complete: {redacted(str(stop))}"
        show_result(as_json, {"state": "interrupted", "why": said}, lambda: None)
        note(f"{said}.")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        voice.clear()
    show_result(as_json, _result_json(found), lambda: _say_result(found, voice.seconds(), base_url))
    if found.state == "interrupted":
        note(f"paused: {redacted(found.why)}.")
    _note_damaged(found)
    if found.no_winner:
        raise typer.Exit(INTERRUPTED if found.state == "interrupted" else 1)


def _search_each(datasets: list[str], arguments: dict[str, Any], voice: Progress, as_json: bool) -> None:
    """Search several data sets: a line for each, and what they say together.

    The exit code is 1 where a search failed or has no winner, else `INTERRUPTED` where one waits, or was paused before
    it had a winner.
    """
    from ragsmith.api.result import Result

    def ended(name: str, result: Result | Exception) -> None:
        voice.clear()
        if isinstance(result, BudgetExhausted):  # it is among those that wait
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
        found = ragsmith.search_each(datasets, **arguments, on_dataset=voice.of_several, on_end=ended)
    finally:
        voice.clear()
    show_result(as_json, _each_json(found), lambda: _say_each(found, voice.seconds()))
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
    """A line for each data set, and what the winners gain over all of them."""
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
        float | None, typer.Option(help="Seconds that a request takes. [default: as measured on the cache, or 1]")
    ] = None,
    in_flight: Annotated[
        int | None, typer.Option(help="Requests that are answered at once. [default: as many as are sent]")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(help="Search questions to work the plan out on. [default: 100, or without races 15 and more]"),
    ] = None,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Say what a search would take, how much of it is in the cache, and what each choice that it has costs."""
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
            f"{found.searches} searches, one for each fold and one on all questions: at most the numbers below, those "
            "of one search as many times; what they share is asked once"
        )
    if found.genomes is None:
        counts = f"about {found.about_pipelines:,} pipelines and {found.about_made:,} {found.made}"
        say_lines(
            "every model is embedded: nothing is sent, and nothing costs money",
            f"{counts}, fewer where races are lost or nothing better is found",
            f"{found.proposed:,} of the pipelines are proposed by the search, which is what --max-evaluations counts; "
            "the others are the baselines and each option alone. What is recommended, and what simplifies the winner "
            "and takes it apart, comes on top",
        )
        return
    say_lines(
        f"about {found.genomes} pipelines on {found.questions} questions, worked out on {found.sampled} of them with "
        "the embedded models in the others' place",
        f"at most {found.proposed:,} of them are proposed by the search, which is what --max-evaluations counts; the "
        "others are baselines, each option alone, and what simplifies the winner and takes it apart",
        "",
    )
    head = ["model", "request", "to be made", "in the cache", "tokens in", "tokens out", "money", "seconds"]
    total = found.totals
    rows = [[_name(line.model), line.request, *_amounts(asdict(line))] for line in found.lines]
    table([*rows, ["all", "", *_amounts(total)]], head, frozenset(range(2, 8)))
    if found.ranges:
        how = "the rehearsals, each on its own questions, came to"
        if found.raced:
            how = (
                "with all that the rehearsal dropped being dropped a block of questions sooner or later, that would be"
            )
        say_lines("", f"replies decide where a search goes: {how} {_between(found)}")
    if found.timed:
        say_lines(
            "",
            f"latency: {found.timed:,} questions are asked once more, one by one; replies of chat models are not asked "
            "for again, but taken from the cache with the seconds they took",
        )
    if found.choices:
        say()
        head = ["what can be left out", "with", "requests", "tokens in", "tokens out", "money"]
        chosen = [[one.what, one.flag, *_amounts(asdict(one))] for one in found.choices]
        table(chosen, head, frozenset(range(2, 6)))
        say("(what is asked for it alone: without a stage other pipelines are searched, so plan with its flag, too)")
    say_lines("", *(f"{_name(model)}: {remark}" for model, remarks in found.notes.items() for remark in remarks))
    if total["cost"] is None:
        say("money: no price is known for all of these; name a file with --prices")


def _between(found: SearchPlan) -> str:
    """The least and the most of a plan's rehearsals."""
    calls, cost = found.ranges["calls"], found.ranges.get("cost")
    money = "" if cost is None else f", and to {cost[0]:.2f} to {cost[1]:.2f} in money"
    return f"{calls[0]:,.0f} to {calls[1]:,.0f} requests{money}"


def _name(model: str) -> str:
    return model.partition("@")[0]


def _amounts(of: Mapping[str, Any]) -> list[str]:
    """The numbers of a line, in the order of the head."""
    counts = [f"{of[name]:,.0f}" for name in ("calls", "cached", "input_tokens", "output_tokens") if name in of]
    money = "?" if of["cost"] is None else f"{of['cost']:.2f}"
    return [*counts, money, *([f"{of['seconds']:,.0f}"] if "seconds" in of else [])]
