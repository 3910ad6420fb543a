"""``ragsmith serve | agent | deploy | translate``: serve a pipeline, serve tools for agents, and write programs."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.options import (
    CACHE,
    REPORTS,
    BudgetFlags,
    CacheOption,
    ImportsOption,
    JsonOption,
    ModelFlags,
    OtherDataset,
    OtherDocuments,
    PipelineArgument,
    PricesOption,
    TraceFlags,
    WorkersOption,
    expand_groups,
)
from ragsmith.cli.output import print_lines, print_wrapped, show_result

if TYPE_CHECKING:
    from ragsmith.deploying.kit import Kit


HostOption = Annotated[
    str, typer.Option("--host", help="Address to listen on; any other than this machine requires a token.")
]
PortOption = Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for a free one.")]
TokenFileOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--token-file",
        help="File of the bearer tokens of which requests must have one; 'TOKEN: FILTER' limits it to some documents. "
        "May be repeated. [default: the variable RAGSMITH_TOKEN]",
    ),
]


@app.command()
@expand_groups
def serve(
    *,
    pipeline: PipelineArgument,
    dataset: OtherDataset = None,
    documents: OtherDocuments = None,
    indexed: Annotated[
        bool, typer.Option("--indexed", help="Answer from the index that `ragsmith index` built for it.")
    ] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    token_file: TokenFileOption = None,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            "--origin", help="Origin of pages that may send requests, as https://rag.example.org; may be repeated."
        ),
    ] = None,
    feedback: Annotated[
        Path | None,
        typer.Option("--feedback", help="File for feedback on answers, stored as drafted questions (.jsonl)."),
    ] = None,
    prices: PricesOption = None,
    mcp: Annotated[
        bool, typer.Option("--mcp", help="Serve tools of the Model Context Protocol on standard input and output.")
    ] = False,
    concurrency: Annotated[
        int | None,
        typer.Option(
            "--concurrency",
            help="Maximum number of questions answered concurrently. [default: 2, or 16 with served models]",
        ),
    ] = None,
    queue: Annotated[
        int, typer.Option("--queue", help="Maximum number of waiting questions; further ones get 503.")
    ] = 64,
    seconds: Annotated[float, typer.Option("--seconds", help="Maximum number of seconds of a request.")] = 120.0,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    traces: TraceFlags,
    as_json: JsonOption = False,
) -> None:
    """Answer questions over HTTP: OpenAI's chat completions, a web page, passages, metrics; or as MCP tools.

    The server listens on this machine only by default, and stops on Ctrl-C or SIGTERM after it has answered accepted
    requests. The log is written to standard error, one JSON object per line.
    """

    ragsmith.serve(
        pipeline,
        dataset=dataset,
        documents=documents,
        indexed=indexed,
        **models.arguments(),
        **traces.arguments(),
        cache=cache,
        host=host,
        port=port,
        token_file=token_file,
        origins=origin or (),
        limits=ragsmith.ServingLimits(concurrency=concurrency, queue=queue, seconds=seconds),
        feedback=feedback,
        prices=prices,
        mcp=mcp,
        on_start=lambda url: _print_address(
            url, as_json, f"ask at  {url}", f"chat clients  base URL {url}v1, model ragsmith"
        ),
    )


@app.command()
@expand_groups
def agent(
    *,
    dataset: Annotated[list[str], typer.Argument(help="Bundled data sets by name, or folders.")],
    folder: Annotated[
        list[Path] | None,
        typer.Option("--folder", help="Folder of pipelines and spaces, whose files are trusted; may be repeated."),
    ] = None,
    reports: Annotated[Path, typer.Option(help="Folder for the reports and the winners.")] = REPORTS,
    budget: BudgetFlags,
    max_looks: Annotated[
        int, typer.Option("--max-looks", help="Maximum number of looks at the same test questions, with earlier ones.")
    ] = 1,
    http: Annotated[bool, typer.Option("--http", help="Serve over HTTP instead of standard input and output.")] = False,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    token_file: TokenFileOption = None,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    models: ModelFlags,
    as_json: JsonOption = False,
) -> None:
    """Serve tools for a coding agent, over MCP: plan, search, explain, compare and gate, within your limits.

    The limits apply to all tools together, over all resumes and restarts with the same cache; the agent can only lower
    them.
    """

    ragsmith.agent(
        dataset,
        folders=folder or (),
        reports=reports,
        limits=budget.limits(),
        accept_spent=budget.accept_spent,
        prices=budget.prices,
        max_looks=max_looks,
        http=http,
        host=host,
        port=port,
        token_file=token_file,
        workers=workers,
        cache=cache,
        **models.arguments(),
        on_start=lambda url: _print_address(f"{url}mcp", as_json, f"tools at  {url}mcp"),
    )


def _print_address(url: str, as_json: bool, *lines: str) -> None:
    show_result(as_json, {"url": url}, lambda: print_lines(*lines))
    sys.stdout.flush()  # a program that started the server may be waiting


@app.command()
def deploy(
    pipeline: PipelineArgument,
    folder: Annotated[Path, typer.Option("-o", "--output", help="New folder for the kit.")],
    dataset: OtherDataset = None,
    documents: Annotated[
        Path | None, typer.Option("--documents", help="Folder of documents to answer from, without questions.")
    ] = None,
    force: Annotated[
        bool,
        typer.Option("--force", help="Replace an earlier kit, unless files that you added or edited would be lost."),
    ] = False,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a self-contained starter kit: documents, server, container files, tests, a gate, a Python script."""
    kit = ragsmith.deploy(pipeline, folder, dataset=dataset, documents=documents, imports=imports or (), force=force)
    show_result(as_json, {**asdict(kit), "folder": str(kit.folder)}, lambda: _print_kit(kit))


def _print_kit(kit: Kit) -> None:
    print_lines(
        f"starter kit  {kit.folder}  ({len(kit.files):,} files; start with README.md)",
        f"needs        ragsmith with {', '.join(kit.extras)}, which is included",
        f"keys         {', '.join(kit.keys)}: set them where it runs" if kit.keys else None,
        f"can use      {', '.join(kit.services)}" if kit.services else None,
    )
    print_wrapped(*kit.notes)


@app.command()
def translate(
    pipeline: PipelineArgument,
    to: Annotated[str, typer.Option("--to", help="The framework: langchain, haystack or llama-index.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Program to write, such as my_rag.py.")],
    dataset: OtherDataset = None,
    documents: OtherDocuments = None,
    llm: Annotated[
        str | None, typer.Option("--llm", help="Chat model that answers, as openai:MODEL. [default: the pipeline's]")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a pipeline as a program of LangChain, Haystack or LlamaIndex.

    The program does not need ragsmith, and has the same contexts and answers. A pipeline with an option that has no
    equivalent in the framework is refused. Documents and chunks are in a file beside the program.
    """
    written = ragsmith.translate(
        pipeline,
        to,
        output,
        dataset=dataset,
        documents=documents,
        models={"language_model": llm} if llm else None,
        imports=imports or (),
        force=force,
    )
    plain = {**asdict(written), "path": str(written.path), "data": str(written.data)}
    lines = (
        f"program    {written.path}, with its documents in {written.data}",
        f"needs      pip install {shlex.join(written.packages)}",
        f"score it   {shlex.join(['ragsmith', 'compare', f'{written.path}:answer', str(pipeline)])}",
    )
    show_result(as_json, plain, lambda: print_lines(*lines))
