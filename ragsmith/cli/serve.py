"""``ragsmith serve | deploy``: an exported pipeline over HTTP or as tools of an agent, and a starter kit of it."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.ask import OtherDataset, OtherDocuments, PipelineArgument
from ragsmith.cli.options import CACHE, CacheOption, ImportsOption, JsonOption, ModelFlags, merged
from ragsmith.cli.output import say_folded, say_lines, show_result

if TYPE_CHECKING:
    from ragsmith.deploying.kit import Kit


@app.command()
@merged
def serve(
    *,
    pipeline: PipelineArgument,
    dataset: OtherDataset = None,
    documents: OtherDocuments = None,
    indexed: Annotated[
        bool, typer.Option("--indexed", help="Ask the documents that `ragsmith index` holds for it instead.")
    ] = False,
    host: Annotated[str, typer.Option("--host", help="Where to listen; others than this machine need a token.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", help="Port; 0 for a free one.")] = 8000,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file", help="A file with the token that requests must bear. [default: the variable RAGSMITH_TOKEN]"
        ),
    ] = None,
    feedback: Annotated[
        Path | None,
        typer.Option("--feedback", help="A file to keep what people say of answers, as drafted questions (.jsonl)."),
    ] = None,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Serve tools of the Model Context Protocol on standard input and output.")
    ] = False,
    concurrency: Annotated[
        int | None,
        typer.Option("--concurrency", help="Questions answered at a time. [default: 2, or 16 with served models]"),
    ] = None,
    queue: Annotated[int, typer.Option("--queue", help="Questions that wait beyond that; others get 503.")] = 64,
    seconds: Annotated[float, typer.Option("--seconds", help="Longest time that a request may take.")] = 120.0,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Answer questions over HTTP: OpenAI's chat completions, a page, passages and places, metrics; or as MCP tools.

    It listens on this machine alone unless told otherwise, and stops on Ctrl-C or SIGTERM when what it has accepted is
    answered. The log goes to standard error, one JSON object a line.
    """

    def started(url: str) -> None:
        chat = f"chat clients  base URL {url}v1, model ragsmith"
        show_result(as_json, {"url": url}, lambda: say_lines(f"ask at  {url}", chat))
        sys.stdout.flush()  # a program that started it may be waiting

    ragsmith.serve(
        pipeline,
        dataset=dataset,
        documents=documents,
        indexed=indexed,
        **models.arguments(),
        cache=cache,
        host=host,
        port=port,
        token_file=token_file,
        limits=ragsmith.ServingLimits(concurrency=concurrency, queue=queue, seconds=seconds),
        feedback=feedback,
        mcp=mcp,
        on_start=started,
    )


@app.command()
def deploy(
    pipeline: PipelineArgument,
    folder: Annotated[Path, typer.Option("-o", "--output", help="The folder of the kit, a new one.")],
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="Other documents and questions than those it was found on.")
    ] = None,
    documents: Annotated[
        Path | None, typer.Option("--documents", help="A folder of documents to answer from, without questions.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Replace an earlier kit there, unless a file of your own, or an edit, would be lost."
        ),
    ] = False,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a starter kit that stands alone: documents, server, container files, tests, a gate, a Python script."""
    kit = ragsmith.deploy(pipeline, folder, dataset=dataset, documents=documents, imports=imports or (), force=force)
    show_result(as_json, {**asdict(kit), "folder": str(kit.folder)}, lambda: _say_kit(kit))


def _say_kit(kit: Kit) -> None:
    say_lines(
        f"starter kit  {kit.folder}  ({len(kit.files):,} files; begin with README.md)",
        f"needs        ragsmith with {', '.join(kit.extras)}, which comes along",
        f"keys         {', '.join(kit.keys)}: set them where it runs" if kit.keys else None,
        f"can use      {', '.join(kit.services)}" if kit.services else None,
    )
    say_folded(*kit.notes)
