"""``ragsmith ask | evaluate | verify``, and ``ragsmith index``: an exported pipeline at work, and its index."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.options import CACHE, CacheOption, JsonOption, ModelFlags, PricesOption, WorkersOption, merged
from ragsmith.cli.output import note, say, say_json, table

if TYPE_CHECKING:
    from ragsmith.api.asking import Indexed
    from ragsmith.assessment.scores import PipelineScores
    from ragsmith.datasets.changes import DocumentChanges
    from ragsmith.exported.pipeline import CitedSource, Reply


PipelineArgument = Annotated[Path, typer.Argument(help="An exported pipeline (winner.yaml).")]
OtherDocuments = Annotated[
    Path | None, typer.Option("--documents", help="A folder of documents to ask instead, without questions.")
]
OtherDataset = Annotated[str | None, typer.Option("--dataset", help="Other documents than the exported ones.")]


@app.command()
@merged
def ask(
    *,
    pipeline: PipelineArgument,
    question: Annotated[str, typer.Argument(help="The question.")],
    dataset: OtherDataset = None,
    documents: OtherDocuments = None,
    indexed: Annotated[
        bool, typer.Option("--indexed", help="Ask the documents that `ragsmith index` holds for it instead.")
    ] = False,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Answer a question, with the passages the answer rests on."""
    reply = ragsmith.ask(
        pipeline, question, dataset=dataset, documents=documents, indexed=indexed, **models.arguments(), cache=cache
    )
    if documents is not None or indexed:
        _note_changes(reply.changes)
    if as_json:
        say_json(asdict(reply))
        return
    if reply.declined:
        _say_closest(reply)
        return
    for line in reply.answer.splitlines():
        say(line)
    cited = [source for source in reply.sources if source.cited]
    say()
    say("rests on" if cited else "was shown, and cites none of")
    for source in cited or reply.sources:
        _say_source(source)


def _note_changes(changes: DocumentChanges | None) -> None:
    """Say how the documents differ from those that the pipeline was found on."""
    if changes is None:
        note("the documents that the pipeline was found on are not there any more, so how these differ is not known")
    elif changes:
        note(f"against the documents that the pipeline was found on: {changes}")


def _say_closest(reply: Reply) -> None:
    """Say that there is no answer, and what was looked at: whoever asked may see one in it."""
    if not reply.sources:
        say("The documents do not seem to answer this, and nothing in them comes close.")
        return
    say("The documents do not seem to answer this. Closest:")
    for source in reply.sources:
        _say_source(source)


def _say_source(source: CitedSource) -> None:
    say()
    say(f"{source.doc} [{source.start}:{source.end}]  {source.title}")
    for line in source.text.splitlines():
        say(f"  | {line}")


@app.command()
@merged
def evaluate(
    *,
    pipeline: PipelineArgument,
    dataset: OtherDataset = None,
    documents: Annotated[
        Path | None,
        typer.Option(
            "--documents", help="A folder of documents: scores before and after, where evidence is still there."
        ),
    ] = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    workers: WorkersOption = None,
    latency: Annotated[
        bool, typer.Option("--latency", help="Also time every question, by station; models are asked anew.")
    ] = False,
    prices: PricesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Score a pipeline on the questions of its data set, or of another."""
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
    if as_json:
        plain = asdict(found)
        further = [*(["latency", "machine"] if latency else []), *(["money"] if prices else [])]
        say_json({"dataset": found.dataset, **plain["parts"], **{name: plain[name] for name in further}})
    else:
        _say_found(found)
    if not found.complete:
        raise typer.Exit(1)


def _say_found(found: PipelineScores) -> None:
    from ragsmith.text.numbers import interval

    for part, scored in found.parts.items():
        counts = f"{scored.attempted} attempted = {scored.scored} scored + {scored.failed} failed"
        say(f"{found.dataset}, {part} questions: {counts}")
        shown = {name: name if m.n is None else f"{name} (n {m.n})" for name, m in scored.metrics.items()}
        rows = [[shown[name], f"{m.mean:.4f}", interval(m.low, m.high, digits=4)] for name, m in scored.metrics.items()]
        table(rows, ["metric", "mean", "95 % interval"], frozenset({1}))
        for question, failure in scored.failures.items():
            say(f"{question} failed in {failure['stage']}: {failure['error']}")
        say()
    if found.flattered:
        say("there are no test questions: it is the winner of a crossfit, which was chosen on all of these, so that")
        say("they flatter it; the report has the verdict of the folds")
        say()
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
    """Run a pipeline again and compare with the scores it was exported with."""
    from ragsmith.exported.reference import TOLERANCE

    found = ragsmith.verify(pipeline, **models.arguments(), cache=cache)
    for role, (then, now) in found.changed_models.items():
        note(f"the {role.replace('_', ' ')} is not what it was: {then} then, {now} now")
    if as_json:
        plain = asdict(found)
        del plain["questions"]
        say_json({"verified": not found.differences, **plain})
    elif not found.differences:
        parts = ", ".join(f"{n} {part} questions" for part, n in found.questions.items())
        say(f"verified: every score is reproduced to {TOLERANCE:g} on {parts}")
    for difference in () if as_json else found.differences:
        say(f"{difference.part} {difference.metric}: exported {difference.expected!r}, now {difference.found!r}")
    if found.differences:
        raise typer.Exit(1)


commands = typer.Typer(
    help="The index of an exported pipeline, kept as its documents change.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(commands, name="index")


@commands.command()
@merged
def build(
    *,
    pipeline: PipelineArgument,
    documents: Annotated[
        Path | None, typer.Option("--documents", help="A folder of documents. [default: those it was found on]")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Give up documents that the index holds besides.")] = False,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Build the index on the pipeline's documents, or on those in a folder; ask it with  ragsmith ask --indexed."""
    _say_index(
        ragsmith.build_index(pipeline, documents=documents, replace=replace, **models.arguments(), cache=cache), as_json
    )


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
    """Add documents; those of the same names are replaced. Only their texts are read and embedded."""
    _say_index(ragsmith.add_to_index(pipeline, paths, **models.arguments(), cache=cache), as_json)


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
    """Remove documents, by identifier: a file's name without its ending, for text; the files are left alone."""
    _say_index(ragsmith.remove_from_index(pipeline, documents, **models.arguments(), cache=cache), as_json)


@commands.command()
def status(
    pipeline: Annotated[Path | None, typer.Argument(help="An exported pipeline (winner.yaml).")] = None,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Say what is kept beside the cache, and what the index of a pipeline holds."""
    found = ragsmith.index_status(pipeline, cache=cache)
    if as_json:
        say_json(asdict(found))
        return
    if found.index:
        _say_index(found.index)
    say(f"kept in {found.folder}, of all pipelines")
    rows = [[kept.kind, str(kept.volumes), f"{kept.size / 2**20:,.1f}"] for kept in found.kept]
    table(rows or [["nothing", "0", "0.0"]], ["what", "volumes", "MiB"], frozenset({1, 2}))


def _say_index(index: Indexed, as_json: bool = False) -> None:
    if as_json:
        say_json(asdict(index))
        return
    say(f"{index.documents:,} documents, {index.chunks:,} chunks")
    if index.changes is None:
        say("how they differ from what the pipeline was found on is not known: those documents are not there any more")
    else:
        say(f"against what the pipeline was found on: {index.changes}")
