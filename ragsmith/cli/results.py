"""``ragsmith report | export | runs | cache``: results of earlier searches."""

from __future__ import annotations

import shlex
import warnings
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.options import CACHE, REPORTS, CacheOption, DatasetArgument, ImportsOption, JsonOption
from ragsmith.cli.output import ask_line, print_json, print_line, print_lines, print_rows, print_stderr, show_result
from ragsmith.errors import DamagedRows
from ragsmith.text.terminal import terminal_columns

PASSWORD_MASK = "***"
"""Replacement of the password in the URL of a cache."""


if TYPE_CHECKING:
    from ragsmith.integrations.optuna import Mirror
    from ragsmith.store.store import Damage, RunRow


@app.command()
def report(
    dataset: Annotated[
        str | None,
        typer.Argument(help="A bundled data set by name, or a folder. [default: all in the cache]", show_default=False),
    ] = None,
    cache: CacheOption = str(CACHE),
    output: Annotated[Path, typer.Option("--output", "-o", "--reports", help="Folder to write to.")] = REPORTS,
    marks: Annotated[
        Path | None,
        typer.Option("--marks", help="File with people's marks of answers. [default: REPORTS/NAME/marks.jsonl]"),
    ] = None,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the report of each data set in the cache, and a comparison of all."""
    from ragsmith.reporting import report_json, summary_lines

    written = ragsmith.report(cache, output, dataset, marks)
    paths = [str(path) for path in written.paths]
    if as_json:
        domains = [report_json(run_report) for run_report in written.reports]
        across = {} if written.across is None else {"across": report_json(written.across)}
        print_json({"paths": paths, "domains": domains, **across})
    else:
        print_lines(
            *(line for run_report in written.reports for line in (*summary_lines(run_report, terminal_columns()), "")),
            *paths,
        )


@app.command()
def mark(
    dataset: DatasetArgument,
    cache: CacheOption = str(CACHE),
    run: Annotated[str | None, typer.Option(help="A run's key (see `ragsmith runs`). [default: the latest]")] = None,
    answers: Annotated[int, typer.Option("--answers", min=1, help="Number of answers to mark; 30 to 100.")] = 60,
    seed: Annotated[int, typer.Option(min=0, help="Random seed of the questions and of the order of answers.")] = 0,
    marks: Annotated[
        Path | None, typer.Option("--marks", help="File for the marks. [default: REPORTS/NAME/marks.jsonl]")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", "--reports", help="Folder of the reports.")] = REPORTS,
    reviewer: Annotated[
        str | None, typer.Option("--reviewer", help="Name of the person who marks. [default: your login name]")
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the page, on this machine only; 0 for a free one.")
    ] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Mark answers of a search in the browser: right, partly, wrong or cannot tell.

    The answers are those of the winner and of naive RAG to test questions, in random order and without names. The
    report then compares the judge with people, and estimates scores and their difference by both. No model is called.
    """
    from ragsmith.comparison.marked_answers import FEW_MARKS
    from ragsmith.labelling.marking.marking import Marking
    from ragsmith.labelling.reviewing.page.server import serve_page
    from ragsmith.store.store import open_store

    data = ragsmith.load_dataset(dataset)
    with open_store(cache, read_only=True) as store:
        marking = Marking(store, data, marks, reviewer, reports=output, run=run, count=answers, seed=seed)
    if (count := len(marking.shown)) < FEW_MARKS:
        print_stderr(f"{count} answers are few: intervals from fewer than {FEW_MARKS} marks are not calibrated")
    try:
        serve_page(marking.server(port), browser=browser, say=print_stderr)
    finally:
        counts = {"file": str(marking.file), **marking.counts()}
        said = (f"{name:<12} {count}" for name, count in counts.items())
        command = shlex.join(["ragsmith", "report", "--cache", cache, "--reports", str(output)])
        show_result(as_json, counts, lambda: print_lines(*said, f"report it    {command}"))


@app.command()
def export(
    dataset: Annotated[str, typer.Argument(help="The data set, as given to the search.")],
    cache: CacheOption = str(CACHE),
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write. [default: winner.yaml, or named after --pick]"),
    ] = None,
    run: Annotated[str | None, typer.Option(help="A run's key (see `ragsmith runs`). [default: the latest]")] = None,
    pick: Annotated[
        str,
        typer.Option(
            "--pick",
            help="best (the calibrated winner after a search with --max-risk, else the winner), winner, calibrated, "
            "knee, cheapest, single, recommended, naive, bm25, random, a place in the ranking, calls<=N or "
            "latency<=SECONDS.",
        ),
    ] = "best",
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write the winner of a search as YAML, or another of its pipelines."""
    exported = ragsmith.export(dataset, cache=cache, output=output, run=run, pick=pick)
    plain = {
        "winner": str(exported.path),
        **{name: value for name, value in asdict(exported).items() if name != "path"},
    }
    others = "the calibrated winner" if exported.pick == "calibrated" else f"not the winner, picked by {pick}"
    lines = (
        f"{exported.path}: {exported.label or 'naive RAG'}",
        f"of the search {exported.run[:12]}, {'the winner' if exported.is_winner else others}",
        f"fitness {exported.fitness:.3f} on {exported.questions} search questions, {exported.calls:.1f} calls "
        "a question",
        ask_line(exported.path),
    )
    show_result(as_json, plain, lambda: print_lines(*lines))


@app.command()
def runs(
    cache: CacheOption = str(CACHE),
    mirror: Annotated[
        bool,
        typer.Option(
            "--mirror", help="Also write them to the same database as Optuna studies, for the Optuna dashboard."
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """List the searches in the cache."""
    from ragsmith.records.record import list_searches
    from ragsmith.store.store import open_store

    studies: dict[str, Mirror] = {}
    with open_store(cache, read_only=True) as store:
        names = {row.digest: row.name for row in store.datasets()}
        searches = [
            _run_to_dict(row, names.get(row.dataset, row.dataset), len(store.proposals(row.key)))
            for row in list_searches(store)
        ]
        if mirror:
            from ragsmith.integrations.optuna import mirror_all

            studies = {study.run: study for study in mirror_all(store)}
        place = store.place
    if as_json:
        print_json([{**run, **({"study": studies[run["key"]].study} if mirror else {})} for run in searches])
        return
    head = ["key", "data set", "state", "space", "strategy", "seed", "candidates", "command"]
    rows = [[run["key"][:12], *(str(run[name]) for name in head[1:])] for run in searches]
    print_rows(rows, head, frozenset({5, 6}), fold=True)
    if mirror:
        _print_dashboard(place, list(studies.values()))


def _print_dashboard(place: str, mirrors: list[Mirror]) -> None:
    trials, written = sum(mirror.trials for mirror in mirrors), sum(mirror.written for mirror in mirrors)
    url = place if "://" in place else f"sqlite:///{place}"
    print_lines(
        "",
        f"mirrored as {len(mirrors)} Optuna studies of {trials:,} trials, {written:,} of them new; view them with",
        f"  optuna-dashboard {shlex.quote(url)}",
        f"with the password in place of {PASSWORD_MASK}" if PASSWORD_MASK in url else None,
        "install it with  pip install 'ragsmith[dashboard]'",
    )


def _run_to_dict(row: RunRow, dataset: str, candidates: int) -> dict[str, Any]:
    from ragsmith.records.record import RunRecord

    record = RunRecord.from_dict(row.value, row.key)
    return {
        "key": row.key,
        "data set": dataset,
        "state": record.state(row.state),
        "space": record.space.name,
        "strategy": record.settings.strategy,
        "seed": record.settings.seed,
        "candidates": candidates,
        "command": record.command,
    }


@app.command()
def cache(
    path: Annotated[str, typer.Option("--cache", help="The cache: a file, or any SQLAlchemy URL.")] = str(CACHE),
    verify: Annotated[bool, typer.Option("--verify", help="Read every row and check it.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Show the content of the cache; with --verify, exit code 1 if a row is damaged."""
    from ragsmith.store.store import open_store

    damage: list[Damage] = []
    with warnings.catch_warnings():
        if verify:  # all damage is printed below
            warnings.simplefilter("ignore", DamagedRows)
        with open_store(path, read_only=True) as store:
            statistics: dict[str, Any] = dict(store.statistics())
            if verify:
                damage = store.verify()
                statistics["damaged rows"] = [asdict(row) for row in damage]
    show_result(as_json, statistics, lambda: _print_cache(statistics, damage))
    if damage:
        raise typer.Exit(1)


def _print_cache(statistics: dict[str, Any], damage: list[Damage]) -> None:
    """Print the content of a cache, each damaged row, and the cost of the damage by kind of row."""
    for name, value in statistics.items():
        if name != "damaged rows" or not damage:
            _print_entry(name, value)
    kinds = Counter((row.row.partition(":")[0], row.cost) for row in damage)
    print_lines(
        *(f"damaged: {row.row}, {row.what}" for row in damage),
        *(f"{count:,} of {kind}, each: {cost}" for (kind, cost), count in kinds.items()),
    )


def _print_entry(name: str, value: Any, indent: str = "") -> None:
    if isinstance(value, dict):
        inside = [f"{v:,} {k}" for k, v in value.items() if isinstance(v, int)]
        print_line(f"{indent}{name:<14} {'  '.join(inside)}".rstrip())
        for key, inner in value.items():
            if not isinstance(inner, int):
                _print_entry(str(key), inner, indent + "  ")
    elif isinstance(value, list):
        print_line(f"{indent}{name:<14} {', '.join(map(str, value)) or 'none'}")
    else:
        print_line(f"{indent}{name:<14} {value:,}" if isinstance(value, int) else f"{indent}{name:<14} {value}")
