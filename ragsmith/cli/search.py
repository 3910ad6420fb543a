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
from ragsmith.cli.app import app, listing
from ragsmith.cli.interrupts import EXIT_INTERRUPTED
from ragsmith.cli.options import (
    CACHE,
    REPORTS,
    BudgetFlags,
    CacheOption,
    DatasetArgument,
    DatasetsArgument,
    JsonOption,
    ModelFlags,
    PricesOption,
    TraceFlags,
    expand_groups,
)
from ragsmith.cli.output import (
    print_line,
    print_lines,
    print_rows,
    print_stderr,
    print_table,
    print_wrapped,
    show_result,
)
from ragsmith.cli.progress import Progress, show_task_progress
from ragsmith.errors import BudgetExhausted, WrongOption
from ragsmith.text.redaction import redacted
from ragsmith.text.table import round_values
from ragsmith.text.terminal import terminal_columns

if TYPE_CHECKING:
    from ragsmith.api.reporting import Searched
    from ragsmith.api.result import Result
    from ragsmith.runs.plan import SearchPlan


@app.command(cls=listing("Strategies", "ragsmith.strategies", "STRATEGIES"))
@expand_groups
def search(
    *,
    context: typer.Context,
    dataset: DatasetsArgument,
    run: RunArguments,
    models: ModelFlags,
    budget: BudgetFlags,
    traces: TraceFlags,
    trace_share: Annotated[
        float, typer.Option(help="Share of the answers that --traces sends, by a hash of pipeline and question.")
    ] = 0.01,
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
            "--workers is then the number of actors. A cluster is for embedded models."
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
    mlflow: Annotated[
        str | None, typer.Option(help="Tracking store of MLflow that has the search as a run, such as a server's URL.")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Search for the best pipeline; the same command resumes an interrupted search."""
    progress = Progress.for_output(quiet=quiet, as_json=as_json)
    show_task_progress(progress.task_progress)
    arguments = {
        **run,
        **models.arguments(),
        **traces.arguments(trace_share),
        "limits": budget.limits(),
        "prices": budget.prices,
        "retry_failed": retry_failed,
        "workers": workers,
        "engine": engine,
        "memory": memory,
        "cache": cache,
        "reports": reports,
        "mlflow": mlflow,
        "command": redacted(context.obj),
        "on_start": progress.begin,
        "on_step": progress.step,
        "on_progress": progress.progress,
    }
    if len(dataset) == 1 and not _is_all_domains(dataset[0]):
        _search_one(dataset[0], {**arguments, "accept_spent": budget.accept_spent}, progress, models.base_url, as_json)
        return
    if budget.accept_spent is not None:
        raise WrongOption(
            "accept_spent", "applies to the search of one data set: search that data set alone, then all of them again"
        )
    _search_each(dataset, arguments, progress, as_json)


def _is_all_domains(dataset: str) -> bool:
    from ragsmith.datasets.bundled import ALL_DOMAINS

    return dataset == ALL_DOMAINS and not Path(ALL_DOMAINS).is_dir()


def _search_one(
    dataset: str, arguments: dict[str, Any], progress: Progress, base_url: str | None, as_json: bool
) -> None:
    try:
        result = ragsmith.search(dataset, **arguments)
    except BudgetExhausted as stop:
        progress.clear()
        reason = f"paused before any proposed pipeline was complete: {redacted(str(stop))}"
        show_result(as_json, {"state": "interrupted", "why": reason}, lambda: None)
        print_stderr(f"{reason}.")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        progress.clear()
    show_result(as_json, _result_json(result), lambda: _print_result(result, progress.seconds(), base_url))
    if result.state == "interrupted":
        print_stderr(f"paused: {redacted(result.why)}.")
    _note_damaged(result)
    if result.no_winner:
        raise typer.Exit(EXIT_INTERRUPTED if result.state == "interrupted" else 1)


def _search_each(datasets: list[str], arguments: dict[str, Any], progress: Progress, as_json: bool) -> None:
    """Search several data sets; print a line for each, and the pooled comparison.

    The exit code is 1 if a search failed or has no winner, else `EXIT_INTERRUPTED` if a search is waiting, or was
    paused before it had a winner.
    """
    from ragsmith.api.result import Result

    def ended(name: str, outcome: Result | Exception) -> None:
        progress.clear()
        if isinstance(outcome, BudgetExhausted):  # reported as waiting
            return
        if not isinstance(outcome, Result):
            print_stderr(f"error: {name}: {redacted(str(outcome))}")
            return
        if outcome.state == "interrupted":
            print_stderr(f"paused: {name}: {redacted(outcome.why)}.")
        if outcome.no_winner:
            print_stderr(f"no winner: {name}: {redacted(outcome.no_winner)}.")
        _note_damaged(outcome)

    try:
        searched = ragsmith.search_each(datasets, **arguments, on_dataset=progress.begin_dataset, on_end=ended)
    finally:
        progress.clear()
    show_result(as_json, _each_json(searched), lambda: _print_each(searched, progress.seconds()))
    for name, why in searched.waiting.items():
        print_stderr(f"waiting: {name}: {redacted(why)}.")
    if searched.failed or any(result.no_winner and result.state != "interrupted" for result in searched.found.values()):
        raise typer.Exit(1)
    if searched.waiting or any(result.no_winner for result in searched.found.values()):
        raise typer.Exit(EXIT_INTERRUPTED)


def _note_damaged(result: Result) -> None:
    for row in result.damaged:
        print_stderr(f"the cache row {row} was damaged and was computed again")


def _each_json(searched: Searched) -> dict[str, Any]:
    from ragsmith.reporting.report_files import report_json

    return {
        "datasets": {
            **{name: _result_json(result) for name, result in searched.found.items()},
            **{name: {"state": "failed", "why": redacted(why)} for name, why in searched.failed.items()},
            **{name: {"state": "waiting", "why": redacted(why)} for name, why in searched.waiting.items()},
        },
        **({} if searched.across is None else {"across": report_json(searched.across)}),
        "report": [str(path) for path in searched.files],
    }


def _print_each(searched: Searched, seconds: float) -> None:
    """Print a line for each data set, and the pooled gains of the winners."""
    from ragsmith.reporting.overview import describe_pooled, summary_table

    results = searched.found.values()
    unfinished = {**dict.fromkeys(searched.failed, "failed"), **dict.fromkeys(searched.waiting, "waiting")}
    summary = summary_table([result.run_report for result in results], unfinished)
    print_table(summary)
    pooled = [describe_pooled(rival) or None for rival in searched.across.tested] if searched.across else []
    untested = (
        f"{name}: {result.verdict.words}"
        for name, result in searched.found.items()
        if result.run_report.about.record.untested
    )
    print_wrapped(f"({summary.caption})", *untested, *pooled)
    computed, reused, calls = (
        sum(getattr(result, name) for result in results) for name in ("computed", "reused", "calls_made")
    )
    calls_sent, tokens, cost = (
        sum(getattr(result.spent, name) for result in results) for name in ("calls", "tokens", "cost")
    )
    print_lines(
        "",
        f"{computed:,} answers computed, {reused:,} from the cache, {calls:,} model calls"
        f"{', none to a server' * (not calls_sent)}, {seconds:.1f} s",
        _spent_line(calls_sent, tokens, cost),
        *(f"report  {page}" for page in searched.files if page.suffix == ".html"),
        *(f"winner  {winner}" for result in results for winner in filter(_is_winner, result.files)),
    )


def _spent_line(calls: int, tokens: int, cost: float) -> str | None:
    money = f", {cost:.4f} in money" if cost else ""
    return f"{calls:,} requests sent so far, {tokens:,} tokens{money}" if calls else None


def _result_json(result: Result) -> dict[str, Any]:
    verdict, record, decided = result.verdict, result.run_report.about.record, result.decision
    return {
        "run": result.key,
        "state": result.state,
        "computed": result.computed,
        "reused": result.reused,
        "model_calls": result.calls_made,
        "spent": asdict(result.spent),
        "winner": next((str(path) for path in result.files if _is_winner(path)), None),
        **({"no_winner": redacted(result.no_winner)} if result.no_winner else {}),
        **({"note": note} if (note := _strategy_note(result)) else {}),
        **({"not_tested": verdict.words, "estimates": list(map(asdict, verdict.estimates))} if record.untested else {}),
        **({"risk": {"said": decided.risk, **asdict(found)}} if decided and (found := record.declining) else {}),
        "report": [str(path) for path in result.files if not _is_winner(path)],
        "decision": round_values(decided.to_dict()) if decided else None,
        "summary": result.summary.splitlines(),
    }


def _strategy_note(result: Result) -> str:
    return result.run_report.about.record.strategy_note


def _is_winner(path: Path) -> bool:
    return path.suffix == ".yaml"


def _print_result(result: Result, seconds: float, base_url: str | None) -> None:
    from ragsmith.reporting import summary_lines

    noun = result.run_report.about.record.settings.fitness.output_name
    print_lines(
        *summary_lines(result.run_report, terminal_columns()),
        "",
        f"{result.computed:,} {noun} computed, {result.reused:,} from the cache, "
        f"{result.calls_made:,} model calls{', none to a server' * (not result.spent.calls)}, {seconds:.1f} s",
        _spent_line(result.spent.calls, result.spent.tokens, result.spent.cost),
        f"report  {next(path for path in result.files if path.suffix == '.html')}",
    )
    if note := _strategy_note(result):
        print_stderr(f"note: {note}.")
    if result.no_winner:
        print_stderr(f"no winner: {redacted(result.no_winner)}.")
    where = f" --base-url {shlex.quote(base_url)}" if base_url else ""
    for winner in filter(_is_winner, result.files):
        then = f'ask it  ragsmith ask {winner} "your question"{where}'
        if result.setup.system:
            then = f"compare it  ragsmith compare {winner} recommended bm25{where}"
        elif (report := result.run_report).take != "winner":
            asked = report.about.use("ask", report.about.taken_file, "your question")
            then = f"ask the one to take, once exported  {asked}{where}"
        print_lines(f"winner  {winner}", then)


@app.command(cls=listing("Strategies", "ragsmith.strategies", "STRATEGIES"))
@expand_groups
def plan(
    *,
    dataset: DatasetArgument,
    run: RunArguments,
    models: ModelFlags,
    prices: PricesOption = None,
    latency: Annotated[
        float | None,
        typer.Option(help="Latency of a request in seconds, such as 0.8. [default: as measured in the cache, or 1]"),
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            help="Number of search questions that the plan is estimated on. [default: 100; at least 15 without races]"
        ),
    ] = None,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Estimate the requests, tokens, money and time of a search, and the cost of each of its options."""
    estimate = ragsmith.plan(
        dataset,
        **run,
        **models.arguments(),
        prices=prices,
        latency=latency,
        in_flight=models.requests_in_flight,
        sample=sample,
        cache=cache,
    )
    show_result(as_json, {**asdict(estimate), "totals": estimate.totals}, lambda: _print_plan(estimate))


def _print_plan(plan: SearchPlan) -> None:
    if plan.searches > 1:
        print_line(
            f"{plan.searches} searches, one for each fold and one on all questions: the numbers below are for one "
            f"search times {plan.searches}, an upper bound, as requests that they share are sent once"
        )
    if plan.genomes is None:
        counts = f"about {plan.about_pipelines:,} of {plan.feasible:,} pipelines and {plan.about_made:,} {plan.made}"
        print_lines(
            "all models are embedded: no requests are sent, and the search costs no money",
            f"{counts}, fewer if candidates lose races or the search converges",
            f"{plan.proposed:,} of the pipelines are proposed by the search, which is what --max-evaluations counts; "
            "the others are the baselines and each option alone. The recommended pipeline, and the simplification and "
            "ablation of the winner, are additional",
        )
        return
    print_lines(
        f"about {plan.genomes} of {plan.feasible:,} pipelines on {plan.questions} questions, estimated on "
        f"{plan.sampled} of them with embedded models in place of the others",
        f"at most {plan.proposed:,} of them are proposed by the search, which is what --max-evaluations counts; the "
        "others are baselines, each option alone, and the simplification and ablation of the winner",
        "",
    )
    head = ["model", "request", "to be sent", "in the cache", "tokens in", "tokens out", "money", "seconds"]
    total = plan.totals
    rows = [[_model_name(line.model), line.request, *_amount_cells(asdict(line))] for line in plan.lines]
    print_rows([*rows, ["all", "", *_amount_cells(total)]], head, frozenset(range(2, 8)))
    if plan.ranges:
        how = "the simulated searches, each on its own questions, took"
        if plan.raced:
            how = "if all pruned candidates are pruned one block of questions earlier or later, it takes"
        print_lines("", f"the course of a search depends on the replies: {how} {_describe_range(plan)}")
    if plan.timed:
        print_lines(
            "",
            f"latency: {plan.timed:,} questions are answered once more, one by one; replies of chat models are taken "
            "from the cache with their measured seconds",
        )
    if plan.choices:
        print_line()
        head = ["can be left out", "with", "requests", "tokens in", "tokens out", "money"]
        chosen = [[choice.what, choice.flag, *_amount_cells(asdict(choice))] for choice in plan.choices]
        print_rows(chosen, head, frozenset(range(2, 6)))
        print_line(
            "(requests of each alone; without a stage other pipelines are searched, so run the plan with its flag, too)"
        )
    print_lines("", *(f"{_model_name(model)}: {remark}" for model, remarks in plan.notes.items() for remark in remarks))
    if total["cost"] is None:
        print_line("money: not all prices are known; give a file with --prices")


def _describe_range(plan: SearchPlan) -> str:
    """Return the minimum and maximum over the simulated searches of a plan."""
    calls, cost = plan.ranges["calls"], plan.ranges.get("cost")
    money = "" if cost is None else f", and {cost[0]:.2f} to {cost[1]:.2f} in money"
    return f"{calls[0]:,.0f} to {calls[1]:,.0f} requests{money}"


def _model_name(model: str) -> str:
    return model.partition("@")[0]


def _amount_cells(row: Mapping[str, Any]) -> list[str]:
    """Return the counts, cost and seconds of a row as cells, in the order of the header."""
    counts = [f"{row[name]:,.0f}" for name in ("calls", "cached", "input_tokens", "output_tokens") if name in row]
    money = "?" if row["cost"] is None else f"{row['cost']:.2f}"
    return [*counts, money, *([f"{row['seconds']:,.0f}"] if "seconds" in row else [])]
