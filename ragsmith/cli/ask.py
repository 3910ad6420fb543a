"""``ragsmith ask | evaluate | verify``, and ``ragsmith index``: use an exported pipeline, and maintain its index."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.commands import CommandTable
from ragsmith.cli.interrupts import NO_RESULT, interrupt_message
from ragsmith.cli.options import (
    CACHE,
    CacheOption,
    FilterOption,
    JsonOption,
    ModelFlags,
    OtherDataset,
    OtherDatasetOption,
    OtherDocuments,
    PipelineArgument,
    PricesOption,
    SystemArgument,
    TraceFlags,
    WorkersOption,
    expand_groups,
)
from ragsmith.cli.output import print_line, print_lines, print_rows, print_stderr, print_table, show_result
from ragsmith.text.files import exists

if TYPE_CHECKING:
    from ragsmith.api.asking import Indexed, IndexStatus
    from ragsmith.assessment.scores import PipelineScores
    from ragsmith.datasets.changes import DocumentChanges
    from ragsmith.exported.collection import IndexUpdate
    from ragsmith.exported.pipeline import Reply
    from ragsmith.exported.reference import Verification


@app.command()
@expand_groups
def ask(
    *,
    pipeline: PipelineArgument,
    question: Annotated[str, typer.Argument(help="The question.")],
    where: FilterOption = None,
    dataset: OtherDatasetOption = None,
    documents: OtherDocuments = None,
    indexed: Annotated[
        bool, typer.Option("--indexed", help="Answer from the index that `ragsmith index` built for it.")
    ] = False,
    prompts: Annotated[
        list[str] | None, typer.Option("--prompt", help="Own prompt of a task, as ROLE=FILE; may be repeated.")
    ] = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    traces: TraceFlags,
    as_json: JsonOption = False,
) -> None:
    """Answer a question, with the passages that the answer cites."""
    file, text = put_in_order(str(pipeline), question)
    with interrupt_message(NO_RESULT):
        reply = ragsmith.ask(
            file,
            text,
            filter=where,
            dataset=dataset,
            documents=documents,
            indexed=indexed,
            prompts=prompts,
            **models.arguments(),
            **traces.arguments(),
            cache=cache,
        )
    if documents is not None or indexed:
        _note_changes(reply.changes)
    show_result(as_json, asdict(reply), lambda: _print_reply(reply))
    if not as_json and not reply.declined and sys.stderr.isatty():
        _note_extraction(file, models)


def _note_extraction(file: str, models: ModelFlags) -> None:
    """Print that the answer is copied from the passages, if the embedded language model answered."""
    from ragsmith.exported.file import ExportedFile
    from ragsmith.models.names import EXTRACTIVE

    if ExportedFile(Path(file)).models().override(models.by_role()).for_role("language_model").name == EXTRACTIVE:
        print_stderr(
            "note: the embedded language model copies sentences from the passages and generates none; name a chat "
            "model with --llm or --models for answers in other words"
        )


def put_in_order(pipeline: str, question: str) -> tuple[str, str]:
    """Return both, exchanged with a note if the second is a file and the first is not."""
    if exists(pipeline) or not exists(question) or not Path(question).is_file():
        return pipeline, question
    print_stderr(f"note: {question} is read as the pipeline, and {pipeline!r} as the question: the pipeline is first")
    return question, pipeline


def _note_changes(changes: DocumentChanges | None) -> None:
    """Print how the documents differ from those that the pipeline was found on."""
    if changes is None:
        print_stderr(
            "how the documents changed since the pipeline was found is unknown: those of the search were edited, moved "
            "or removed, and no earlier command with --documents has stored what they were"
        )
    elif changes:
        print_stderr(f"against the documents that the pipeline was found on: {changes}")


def _print_reply(reply: Reply) -> None:
    """Print the answer and its sources; or, if the pipeline declined, the closest passages."""
    cited = [source for source in reply.sources if source.cited]
    if reply.declined:
        closest = ". Closest:" if reply.sources else ", and nothing in them comes close."
        print_line(f"The documents do not seem to answer this{closest}")
    else:
        print_lines(
            *reply.answer.splitlines(), "", "sources" if cited else "retrieved passages, of which the answer cites none"
        )
    for source in reply.sources if reply.declined or not cited else cited:
        place = f"{source.doc} [{source.start}:{source.end}]  {source.title}"
        print_lines(
            "",
            place,
            *(f"  also in {path}" for path in source.also_in),
            *(f"  | {line}" for line in source.text.splitlines()),
        )


@app.command()
@expand_groups
def evaluate(
    *,
    pipeline: SystemArgument,
    dataset: OtherDataset = None,
    documents: Annotated[
        Path | None,
        typer.Option(
            "--documents", help="A folder of changed documents: compare the scores before and after the changes."
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split",
            help="Questions: search, test or all; test and all count as a use of the test set. [default: those that "
            "its search has used, or all of another data set]",
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
    """Score a pipeline on the questions of its data set, or of another one; or the answers of another system."""
    scores = ragsmith.evaluate(
        pipeline,
        dataset=dataset,
        documents=documents,
        **models.arguments(),
        workers=workers,
        split=split,
        latency=latency,
        prices=prices,
        cache=cache,
        on_look=print_stderr,
    )
    record = asdict(scores)
    extra_names = [*(["latency", "machine"] if latency else []), *(["money"] if scores.money else [])]
    record = {"dataset": scores.dataset, **record["parts"], **{name: record[name] for name in extra_names}}
    show_result(as_json, record, lambda: _print_scores(scores))
    if not scores.complete:
        raise typer.Exit(1)


def _print_scores(scores: PipelineScores) -> None:
    for part, scored in scores.parts.items():
        print_line(f"{scores.dataset}, {part} questions: {scored.table.caption}")
        print_table(scored.table)
        if scored.risk:
            print_line(scored.risk)
        failures = scored.failures.items()
        print_lines(*(f"{question} failed in {why['stage']}: {why['error']}" for question, why in failures), "")
    if scores.flattered:
        print_lines(
            "there are no test questions: the pipeline is the winner of a crossfit, which selected it on all of these",
            "questions, so that its scores are biased upwards; the report has the verdict of the folds",
            "",
        )
    if scores.latency:
        print_line(f"latency in milliseconds, each question alone, on {scores.machine}")
        timed = [
            [
                timing.questions,
                timing.state,
                timing.stage,
                str(timing.n),
                *(f"{ms:.1f}" for ms in (timing.p50_ms, timing.p90_ms, timing.p99_ms)),
            ]
            for timing in scores.latency
        ]
        print_rows(timed, ["questions", "state", "stage", "n", "p50", "p90", "p99"], frozenset({3, 4, 5, 6}))
        print_line()
    if scores.money:
        paid = scores.money.per_1000
        print_line(f"money: {scores.money.why}" if paid is None else f"money: {paid:.4g} for 1,000 questions")


@app.command()
@expand_groups
def verify(
    *,
    pipeline: PipelineArgument,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline again and compare its scores with the exported ones."""
    verified = ragsmith.verify(pipeline, **models.arguments(), cache=cache)
    for role, (then, now) in verified.changed_models.items():
        print_stderr(f"the {role.replace('_', ' ')} has changed since the export: from {then} to {now}")
    record = {"verified": not verified.differences, **asdict(verified)}
    del record["questions"]
    show_result(as_json, record, lambda: _print_verified(verified))
    if verified.differences:
        raise typer.Exit(1)


def _print_verified(verified: Verification) -> None:
    from ragsmith.exported.reference import TOLERANCE

    parts = ", ".join(f"{n} {part} questions" for part, n in verified.questions.items())
    print_lines(
        None if verified.differences else f"verified: every score is reproduced to {TOLERANCE:g} on {parts}",
        *(
            f"{difference.part} {difference.metric}: exported {difference.expected!r}, now {difference.found!r}"
            for difference in verified.differences
        ),
    )


commands = CommandTable(
    help="The index of an exported pipeline: build it and update its documents.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(commands, name="index")

ListOption = Annotated[bool, typer.Option("--list", help="Name every document, one a line.")]

MAX_NAMED = 5
"""Maximum number of documents that are named of a kind of change without ``--list``."""


@commands.command()
@expand_groups
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
    listed: ListOption = False,
    as_json: JsonOption = False,
) -> None:
    """Build the index on the pipeline's documents, or on those in a folder; query it with  ragsmith ask --indexed."""
    built = ragsmith.build_index(pipeline, documents=documents, replace=replace, **models.arguments(), cache=cache)
    show_result(as_json, asdict(built), lambda: _print_index(built, listed))


@commands.command()
@expand_groups
def add(
    *,
    pipeline: PipelineArgument,
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Files or folders of documents.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace documents of these names that were read from other files.")
    ] = False,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    listed: ListOption = False,
    as_json: JsonOption = False,
) -> None:
    """Add documents, or replace those of the same files: a path in the folder of the index is a document's name."""
    built = ragsmith.add_to_index(pipeline, paths, replace=replace, **models.arguments(), cache=cache)
    show_result(as_json, asdict(built), lambda: _print_index(built, listed))


@commands.command()
@expand_groups
def remove(
    *,
    pipeline: PipelineArgument,
    documents: Annotated[list[str], typer.Argument(metavar="DOCUMENT", help="Identifiers or paths of documents.")],
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    listed: ListOption = False,
    as_json: JsonOption = False,
) -> None:
    """Remove documents, by path or identifier: for text, the path without its suffix. Files are not deleted."""
    left = ragsmith.remove_from_index(pipeline, documents, **models.arguments(), cache=cache)
    show_result(as_json, asdict(left), lambda: _print_index(left, listed))


@commands.command()
def status(
    pipeline: Annotated[Path | None, typer.Argument(help="An exported pipeline (winner.yaml).")] = None,
    cache: CacheOption = str(CACHE),
    listed: ListOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the stored indexes, and the content of the index of a pipeline."""
    index_status = ragsmith.index_status(pipeline, cache=cache)
    show_result(as_json, asdict(index_status), lambda: _print_status(index_status, listed))


def _print_status(status: IndexStatus, listed: bool) -> None:
    if status.index:
        _print_index(status.index, listed)
        print_lines(*(status.names if listed else ()), *(_describe_hidden(status.index.hidden) if listed else ()))
    print_line(f"stored in {status.folder} for all pipelines")
    rows = [[total.kind, str(total.volumes), f"{total.size / 2**20:,.1f}"] for total in status.kept]
    print_rows(rows or [["nothing", "0", "0.0"]], ["what", "volumes", "MiB"], frozenset({1, 2}))


def _print_index(index: Indexed, listed: bool) -> None:
    hidden = f", {len(index.hidden):,} more hidden as identical to another" if index.hidden else ""
    print_lines(
        *(_describe_update(index.update, listed) if index.update else ()),
        f"{index.documents:,} documents, {index.chunks:,} chunks{hidden}",
        None if index.update else f"folder of the index: {index.folder}",
        "changes against the documents that the pipeline was found on are unknown: those were edited, moved or removed"
        if index.changes is None
        else f"changes against the documents that the pipeline was found on: {index.changes}",
    )


def _describe_update(update: IndexUpdate, listed: bool) -> Iterator[str]:
    """Yield what a command changed, with the names of documents."""
    changes = {
        "added": update.added,
        "replaced": update.replaced,
        "removed": update.removed,
        "hidden": _describe_hidden(update.hidden),
        "no longer hidden": update.shown,
    }
    if not any(changes.values()):
        yield "no document was added, replaced, removed or hidden"
    for change, names in changes.items():
        if names and listed:
            yield from (f"{len(names):,} {change}", *(f"  {name}" for name in names))
        elif names:
            more = f" and {len(names) - MAX_NAMED:,} more (--list names all)" if len(names) > MAX_NAMED else ""
            yield f"{len(names):,} {change}: {', '.join(names[:MAX_NAMED])}{more}"


def _describe_hidden(hidden: Mapping[str, str]) -> list[str]:
    return [f"{name} (identical to {shown})" for name, shown in hidden.items()]
