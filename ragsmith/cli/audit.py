"""``ragsmith audit``: what every option does by itself."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.options import (
    CACHE,
    CacheOption,
    ChunkSizeOption,
    FitnessOption,
    JsonOption,
    ModelFlags,
    WorkersOption,
    merged,
)
from ragsmith.cli.output import say, say_json

if TYPE_CHECKING:
    from ragsmith.records.audit import Audit


@app.command()
@merged
def audit(
    *,
    dataset: Annotated[
        list[str], typer.Option(help="A bundled data set by name, or a folder; may be given several times.")
    ],
    space: Annotated[str, typer.Option(help="A bundled search space by name, or a YAML file.")] = "seeds",
    sample: Annotated[int, typer.Option(help="Search questions to try the options on, at most.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    models: ModelFlags,
    fitness: FitnessOption = None,
    chunk_size: ChunkSizeOption = None,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write it to a file, too: a page (.html), or Markdown.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Switch every option of a space on alone: what it changes, costs and gains.

    Options that do nothing are named, and pairs of options that never differ; with several data sets, a table of the
    pairs says on which they do.
    """
    from ragsmith.reporting.audit import audit_markdown

    found = ragsmith.audits(
        dataset,
        space=space,
        sample=sample,
        seed=seed,
        **models.arguments(),
        fitness=fitness,
        chunk_size=chunk_size,
        workers=workers,
        cache=cache,
        output=output,
    )
    if as_json:
        say_json([_plain(audit) for audit in found])
    else:
        for line in audit_markdown(found).splitlines():
            say(line)
    if any(finding.failed for audit in found for finding in audit.findings):
        raise typer.Exit(1)


def _plain(audit: Audit) -> dict[str, Any]:
    findings = [{**asdict(finding), "inert": finding.inert} for finding in audit.findings]
    pairs = [{**asdict(pair), "alike": pair.alike} for pair in audit.pairs]
    return {"dataset": audit.dataset, "space": audit.space, "findings": findings, "pairs": pairs}
