"""``ragsmith index build | add | remove | status``: the documents and the index of an exported pipeline."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.options import CACHE, CacheOption, JsonOption, ModelFlags, merged
from ragsmith.cli.output import say, say_json, table

if TYPE_CHECKING:
    from ragsmith.api.indexing import Indexed

commands = typer.Typer(
    help="The index of an exported pipeline, kept as its documents change.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(commands, name="index")

PipelineArgument = Annotated[Path, typer.Argument(help="An exported pipeline (winner.yaml).")]


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
    _say(
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
    _say(ragsmith.add_to_index(pipeline, paths, **models.arguments(), cache=cache), as_json)


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
    _say(ragsmith.remove_from_index(pipeline, documents, **models.arguments(), cache=cache), as_json)


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
        _say(found.index)
    say(f"kept in {found.folder}, of all pipelines")
    rows = [[kept.kind, str(kept.volumes), f"{kept.size / 2**20:,.1f}"] for kept in found.kept]
    table(rows or [["nothing", "0", "0.0"]], ["what", "volumes", "MiB"], frozenset({1, 2}))


def _say(index: Indexed, as_json: bool = False) -> None:
    if as_json:
        say_json(asdict(index))
        return
    say(f"{index.documents:,} documents, {index.chunks:,} chunks")
    if index.changes is None:
        say("how they differ from what the pipeline was found on is not known: those documents are not there any more")
    else:
        say(f"against what the pipeline was found on: {index.changes}")
