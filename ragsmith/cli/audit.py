"""``ragsmith audit``: what every option does by itself."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ragsmith.cli.app import app
from ragsmith.cli.options import (
    CACHE,
    CacheOption,
    ChunkSizeOption,
    DatasetOption,
    FitnessOption,
    JsonOption,
    ModelFlags,
    WorkersOption,
    merged,
)
from ragsmith.cli.output import say, say_json


@app.command()
@merged
def audit(
    *,
    dataset: DatasetOption,
    space: Annotated[str, typer.Option(help="A bundled search space by name, or a YAML file.")] = "seeds",
    sample: Annotated[int, typer.Option(help="Search questions to try the options on, at most.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    models: ModelFlags,
    fitness: FitnessOption = None,
    chunk_size: ChunkSizeOption = None,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the table as Markdown, too.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Switch every option of a space on alone: what it changes, costs and gains; options that do nothing are named."""
    import ragsmith
    from ragsmith.reporting.audit import audit_markdown

    found = ragsmith.audit(
        dataset,
        space=space,
        sample=sample,
        seed=seed,
        **models.given(),
        fitness=fitness,
        chunk_size=chunk_size,
        workers=workers,
        cache=cache,
        output=output,
    )
    if as_json:
        say_json([{**asdict(finding), "inert": finding.inert} for finding in found.findings])
    else:
        for line in audit_markdown(found).splitlines():
            say(line)
    if any(finding.failed for finding in found.findings):
        raise typer.Exit(1)
