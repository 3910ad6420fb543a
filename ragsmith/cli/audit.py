"""``ragsmith audit``: what every option does by itself."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragsmith.cli.app import app
from ragsmith.cli.options import (
    CACHE,
    CacheOption,
    ChunkSizeOption,
    DatasetOption,
    JsonOption,
    ModelFlags,
    WorkersOption,
    merged,
)
from ragsmith.cli.output import say, say_json

if TYPE_CHECKING:
    from ragsmith.runs.audit import Finding


@app.command()
@merged
def audit(
    *,
    dataset: DatasetOption,
    space: Annotated[str, typer.Option(help="A bundled search space by name, or a YAML file.")] = "seeds",
    sample: Annotated[int, typer.Option(help="Search questions to try the options on, at most.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    models: ModelFlags,
    chunk_size: ChunkSizeOption = None,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the table as Markdown, too.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Switch every option of a space on alone: what it changes, costs and gains; options that do nothing are named."""
    from ragsmith.errors import UsageError
    from ragsmith.evaluation.testbed import CHUNK_SIZE, prepare
    from ragsmith.pipelines.space_file import load_space
    from ragsmith.runs.audit import audit as run_audit
    from ragsmith.runs.audit import sample as draw
    from ragsmith.store.store import Store

    if workers is not None and workers < 1:
        raise UsageError(f"--workers is {workers}: give at least 1")
    if output is not None and not output.parent.is_dir():
        raise UsageError(f"--output {output}: there is no folder {output.parent}: make it first")
    names = models.chosen()
    found_space = load_space(space)
    setup = prepare(dataset, names, CHUNK_SIZE if chunk_size is None else chunk_size)
    questions = draw(setup, sample, seed)
    with Store.open(cache) as store:
        findings = run_audit(setup, found_space, store, questions, workers=workers or names.workers())
    lines = _markdown(findings, setup.dataset.name, found_space.name, len(questions), setup.loaded_models.ids())
    if output is not None:
        output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    if as_json:
        say_json([_plain(finding) for finding in findings])
    else:
        for line in lines:
            say(line)
    if any(finding.failed for finding in findings):
        raise typer.Exit(1)


def _plain(finding: Finding) -> dict[str, Any]:
    return {**asdict(finding), "inert": finding.inert}


def _markdown(findings: list[Finding], dataset: str, space: str, n: int, models: dict[str, str]) -> list[str]:
    head = ["option alone", "against naive RAG", "changes", "calls", "ΔF", "95 % interval", "p (Holm)", "ΔR"]
    lines = [
        f"# Audit of `{space}` on `{dataset}`",
        "",
        f"Every option switched on alone, on {n} search questions: the share of questions for which the output of its "
        "stage changes, model calls it adds per question, and what it adds to fitness (F) and retrieval (R), paired by "
        "question. p is the sign-flip test's for F, adjusted for all options that were tried: of so many, some "
        f"intervals lie beside 0 by chance. Language model `{models['language_model'].split(':')[0]}`, embedder "
        f"`{models['embedder']}`.",
        "",
        f"| {' | '.join(head)} |",
        "| --- | --- | ---: | ---: | ---: | --- | ---: | ---: |",
    ]
    for f in findings:
        cells = [f"{f.family} `{f.option}`" + (" (reads the gold)" if f.analysis_only else "")]
        cells.append(f.difference + (f"; same results as {f.same_as}" if f.same_as else ""))
        cells += ["" if f.activity is None else f"{f.activity:.0%}", "" if f.calls is None else f"{f.calls:+.1f}"]
        if f.fitness is None:
            cells += [f"{f.failed} failed", "", "", ""]
        else:
            cells += [f"{f.fitness.mean_difference:+.3f}", f"[{f.fitness.low:+.3f}, {f.fitness.high:+.3f}]"]
            cells += ["" if f.p is None else f"{f.p:.3f}", f"{f.retrieval.mean_difference:+.3f}" if f.retrieval else ""]
        lines.append(f"| {' | '.join(cells)} |")
    inert = [f"{f.family} `{f.option}`" for f in findings if f.inert]
    lines += ["", f"Inert here (no output changes): {', '.join(inert)}." if inert else "No option is inert here."]
    return lines
