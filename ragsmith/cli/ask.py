"""``ragsmith ask | evaluate | verify``, and ``ragsmith index``: use an exported pipeline, and maintain its index."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.interrupts import NO_RESULT, interrupted_with
from ragsmith.cli.options import CACHE, CacheOption, JsonOption, ModelFlags, PricesOption, WorkersOption, merged
from ragsmith.cli.output import note, say, say_lines, show_result, table
from ragsmith.text import numbers

if TYPE_CHECKING:
    from ragsmith.api.asking import Indexed, IndexStatus
    from ragsmith.assessment.scores import PipelineScores
    from ragsmith.datasets.changes import DocumentChanges
    from ragsmith.exported.pipeline import Reply
    from ragsmith.exported.reference import Verified


PipelineArgument = Annotated[Path, typer.Argument(help="An exported pipeline (winner.yaml).")]
OtherDocuments = Annotated[
    Path | None, typer.Option("--documents", help="Answer from this folder of documents instead.")
]
OtherDataset = Annotated[
    str | None, typer.Option("--dataset", help="Another data set than the one it was exported on.")
]


@app.command()
@merged
def ask(
    *,
    pipeline: PipelineArgument,
    question: Annotated[str, typer.Argument(help="The question.")],
    dataset: OtherDataset = None,
    documents: OtherDocuments = None,
    indexed: Annotated[
        bool, typer.Option("--indexed", help="Answer from the index that `ragsmith index` built for it.")
    ] = False,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Answer a question, with the passages that the answer cites."""
    with interrupted_with(NO_RESULT):
        reply = ragsmith.ask(
            pipeline, question, dataset=dataset, documents=documents, indexed=indexed, **models.arguments(), cache=cache
        )
    if documents is not None or indexed:
        _note_changes(reply.changes)
    show_result(as_json, asdict(reply), lambda: _say_reply(reply))


def _note_changes(changes: DocumentChanges | None) -> None:
    """Print how the documents differ from those that the pipeline was found on."""
    if changes is None:
        note("the documents that the pipeline was found on no longer exist, so that changes to them are unknown")
    elif changes:
        note(f"against the documents that the pipeline was found on: {changes}")


def _say_reply(reply: Reply) -> None:
    """Print the answer and its sources; or, if the pipeline declined, the closest passages."""
    cited = [source for source in reply.sources if source.cited]
    if reply.declined:
        closest = ". Closest:" if reply.sources else ", and nothing in them comes close."
        say(f"The documents do not seem to answer this{closest}")
    else:
        say_lines(
            *reply.answer.splitlines(), "", "sources" if cited else "retrieved passages, of which the answer cites none"
        )
    for source in reply.sources if reply.declined or not cited else cited:
        place = f"{source.doc} [{source.start}:{source.end}]  {source.title}"
        say_lines("", place, *(f"  | {line}" for line in source.text.splitlines()))


@app.command()
@merged
def evaluate(
    *,
    pipeline: PipelineArgument,
    dataset: OtherDataset = None,
    documents: Annotated[
        Path | None,
        typer.Option(
            "--documents", help="A folder of changed documents: compare the scores before and after the changes."
        ),
    ] = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    workers: WorkersOption = None,
    latency: Annotated[
        bool, typer.Option("--latency", help="Also time every question by stage; model calls are repeated.")
    ] = False,
    prices: PricesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a pipeline on the questions of its data set, or of another one."""
    found = ragsmith.evaluate(
        pipeline,
        dataset=dataset,
        documents=documents,
        **models.arguments(),
        workers=workers,
        latency=latency,
        prices=prices,
        cache=cache,
    )
    record = asdict(found)
    more = [*(["latency", "machine"] if latency else []), *(["money"] if prices else [])]
    record = {"dataset": found.dataset, **record["parts"], **{name: record[name] for name in more}}
    show_result(as_json, record, lambda: _say_scores(found))
    if not found.complete:
        raise typer.Exit(1)


def _say_scores(found: PipelineScores) -> None:
    for part, scored in found.parts.items():
        counts = f"{scored.attempted} attempted = {scored.scored} scored + {scored.failed} failed"
        say(f"{found.dataset}, {part} questions: {counts}")
        shown = {name: name if m.n is None else f"{name} (n {m.n})" for name, m in scored.metrics.items()}
        rows = [
            [shown[name], f"{m.mean:.4f}", numbers.interval(m.low, m.high, digits=4)]
            for name, m in scored.metrics.items()
        ]
        table(rows, ["metric", "mean", "95 % interval"], frozenset({1}))
        failures = scored.failures.items()
        say_lines(*(f"{question} failed in {why['stage']}: {why['error']}" for question, why in failures), "")
    if found.flattered:
        say_lines(
            "there are no test questions: the pipeline is the winner of a crossfit, which selected it on all of these",
            "questions, so that its scores are biased upwards; the report has the verdict of the folds",
            "",
        )
    if found.latency:
        say(f"latency in milliseconds, each question alone, on {found.machine}")
        timed = [
            [t.questions, t.state, t.station, str(t.n), *(f"{ms:.1f}" for ms in (t.p50_ms, t.p90_ms, t.p99_ms))]
            for t in found.latency
        ]
        table(timed, ["questions", "state", "station", "n", "p50", "p90", "p99"], frozenset({3, 4, 5, 6}))
        say()
    if found.money:
        paid = found.money.per_1000
        say(f"money: {found.money.why}" if paid is None else f"money: {paid:.4g} for 1,000 questions")


@app.command()
@merged
def verify(
    *,
    pipeline: PipelineArgument,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline again and compare its scores with the exported ones."""
    found = ragsmith.verify(pipeline, **models.arguments(), cache=cache)
    for role, (then, now) in found.changed_models.items():
        note(f"the {role.replace('_', ' ')} has changed since the export: from {then} to {now}")
    record = {"verified": not found.differences, **asdict(found)}
    del record["questions"]
    show_result(as_json, record, lambda: _say_verified(found))
    if found.differences:
        raise typer.Exit(1)


def _say_verified(found: Verified) -> None:
    from ragsmith.exported.reference import TOLERANCE

    parts = ", ".join(f"{n} {part} questions" for part, n in found.questions.items())
    say_lines(
        None if found.differences else f"verified: every score is reproduced to {TOLERANCE:g} on {parts}",
        *(f"{one.part} {one.metric}: exported {one.expected!r}, now {one.found!r}" for one in found.differences),
    )


commands = typer.Typer(
    help="The index of an exported pipeline: build it and update its documents.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(commands, name="index")


@commands.command()
@merged
def build(
    *,
    pipeline: PipelineArgument,
    documents: Annotated[
        Path | None,
        typer.Option("--documents", help="A folder of documents. [default: those that the pipeline was found on]"),
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Remove all other documents from the index.")] = False,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Build the index on the pipeline's documents, or on those in a folder; query it with  ragsmith ask --indexed."""
    built = ragsmith.build_index(pipeline, documents=documents, replace=replace, **models.arguments(), cache=cache)
    show_result(as_json, asdict(built), lambda: _say_index(built))


@commands.command()
@merged
def add(
    *,
    pipeline: PipelineArgument,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files or folders of documents.")],
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Add documents, and replace those of the same name. Only their texts are read and embedded."""
    built = ragsmith.add_to_index(pipeline, paths, **models.arguments(), cache=cache)
    show_result(as_json, asdict(built), lambda: _say_index(built))


@commands.command()
@merged
def remove(
    *,
    pipeline: PipelineArgument,
    documents: Annotated[list[str], typer.Argument(metavar="DOCUMENT...", help="Identifiers of documents.")],
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Remove documents, by identifier: for text, the file name without its suffix. Files are not deleted."""
    left = ragsmith.remove_from_index(pipeline, documents, **models.arguments(), cache=cache)
    show_result(as_json, asdict(left), lambda: _say_index(left))


@commands.command()
def status(
    pipeline: Annotated[Path | None, typer.Argument(help="An exported pipeline (winner.yaml).")] = None,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Show the stored indexes, and the content of the index of a pipeline."""
    found = ragsmith.index_status(pipeline, cache=cache)
    show_result(as_json, asdict(found), lambda: _say_status(found))


def _say_status(found: IndexStatus) -> None:
    if found.index:
        _say_index(found.index)
    say(f"stored in {found.folder} for all pipelines")
    rows = [[total.kind, str(total.volumes), f"{total.size / 2**20:,.1f}"] for total in found.kept]
    table(rows or [["nothing", "0", "0.0"]], ["what", "volumes", "MiB"], frozenset({1, 2}))


def _say_index(index: Indexed) -> None:
    say_lines(
        f"{index.documents:,} documents, {index.chunks:,} chunks",
        "changes against the documents that the pipeline was found on are unknown: those no longer exist"
        if index.changes is None
        else f"changes against the documents that the pipeline was found on: {index.changes}",
    )
