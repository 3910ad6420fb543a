"""``ragsmith deploy``: a starter kit of an exported pipeline."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.ask import PipelineArgument
from ragsmith.cli.options import ImportsOption, JsonOption
from ragsmith.cli.output import say, say_folded, say_json


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
    if as_json:
        say_json({**asdict(kit), "folder": str(kit.folder)})
        return
    say(f"starter kit  {kit.folder}  ({len(kit.files):,} files; begin with README.md)")
    say(f"needs        ragsmith with {', '.join(kit.extras)}, which comes along")
    if kit.keys:
        say(f"keys         {', '.join(kit.keys)}: set them where it runs")
    if kit.services:
        say(f"can use      {', '.join(kit.services)}")
    for told in kit.notes:
        say_folded(told)
