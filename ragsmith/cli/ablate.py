"""``ragsmith ablate | audit | transfer``: estimate the effects of parts and options, and evaluate winners elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.ask import OtherDataset, PipelineArgument
from ragsmith.cli.options import (
    CACHE,
    CacheOption,
    ChunkSizeOption,
    FitnessOption,
    ImportsOption,
    JsonOption,
    ModelFlags,
    WorkersOption,
    merged,
)
from ragsmith.cli.output import note, say, say_folded, say_lines, say_table, show_result, table
from ragsmith.text import numbers

if TYPE_CHECKING:
    from ragsmith.api.diagnosing import AblationPlan
    from ragsmith.diagnosis.ablation import Ablation
    from ragsmith.diagnosis.estimates import TransferEstimate
    from ragsmith.records.audit import Audit
    from ragsmith.text.table import Table


@app.command()
@merged
def ablate(
    *,
    pipeline: PipelineArgument,
    dataset: OtherDataset = None,
    space: Annotated[
        str | None,
        typer.Option("--space", help="Search space of the other options. [default: the space of its search]"),
    ] = None,
    swaps: Annotated[
        bool, typer.Option("--swaps", help="Also replace each part by each other option of the space.")
    ] = False,
    signals: Annotated[
        bool, typer.Option("--signals", help="Also leave out each signal of a learned ranking in turn.")
    ] = False,
    pairs: Annotated[
        bool, typer.Option("--pairs", help="Also evaluate each pair of parts alone in naive RAG.")
    ] = False,
    latency: Annotated[
        bool, typer.Option("--latency", help="Also measure the latency of all pipelines, on five questions.")
    ] = False,
    part: Annotated[
        str, typer.Option("--part", help="Questions: search, test or all; the last two use the test questions.")
    ] = "search",
    plan: Annotated[bool, typer.Option("--plan", help="Only print how much there is to evaluate.")] = False,
    models: ModelFlags,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Estimate the effect of each part of a pipeline: without it, replaced by others, and alone."""
    plans: list[AblationPlan] = []

    def confirm(found: AblationPlan) -> bool:
        plans.append(found)
        note(_planned(found))
        return not plan

    found = ragsmith.ablate(
        pipeline,
        dataset=dataset,
        space=space,
        swaps=swaps,
        signals=signals,
        pairs=pairs,
        latency=latency,
        part=part,
        **models.arguments(),
        workers=workers,
        cache=cache,
        on_plan=confirm,
    )
    plain = asdict(found) if found else {}
    plain = {"plan": {**asdict(plans[0]), "answers": plans[0].answers}, **plain}
    show_result(
        as_json, plain, lambda: _say_ablation(found, chosen=plans[0].searched, signals=signals) if found else None
    )


def _say_ablation(found: Ablation, *, chosen: bool, signals: bool) -> None:
    from ragsmith.reporting import run_tables, wording

    say_folded(f"{found.label or 'naive RAG'}, on {found.questions} questions of {found.dataset}")
    if not found.outs:
        say("this is naive RAG: there is no part to remove")
        return
    say_folded(wording.parts_explained(found, "this pipeline", chosen=chosen))
    _say_captioned(run_tables.parts(found))
    if found.interactions:
        say()
        say_folded(wording.describe_interaction(found.interactions[0]))
        _say_captioned(run_tables.together(found))
    if found.swaps:
        _say_captioned(run_tables.swaps(found))
    if found.signals:
        _say_captioned(run_tables.signals(found))
    elif signals:
        say_folded(
            "no signal was removed: the pipeline has no learned ranking, or one that was fitted on another data set"
        )


def _planned(found: AblationPlan) -> str:
    questions = f"{found.questions} {'' if found.part == 'all' else f'{found.part} '}questions of {found.dataset}"
    return (
        f"{found.pipelines} pipelines on {questions}, with options of the space {found.space!r}: {found.known} are in "
        f"the cache, and at most {found.answers:,} answers are to be computed"
    )


def _say_captioned(content: Table) -> None:
    say_lines("", content.caption)
    say_table(content, fold=True)


@app.command()
@merged
def audit(
    *,
    dataset: Annotated[
        list[str], typer.Option(help="A bundled data set by name, or a folder; may be given several times.")
    ],
    space: Annotated[str, typer.Option(help="A bundled search space by name, or a YAML file.")] = "seeds",
    sample: Annotated[int, typer.Option(help="Maximum number of search questions.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the sample.")] = 0,
    models: ModelFlags,
    fitness: FitnessOption = None,
    chunk_size: ChunkSizeOption = None,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Also write a file: an HTML page (.html), or Markdown.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate every option of a space alone in naive RAG: its effects, costs and gains.

    Options without an effect are listed, and pairs of options that never differ; with several data sets, a table shows
    the data sets on which the pairs differ.
    """
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
    show_result(as_json, [_audit_json(audit) for audit in found], lambda: _say_audits(found))
    if any(finding.failed for audit in found for finding in audit.findings):
        raise typer.Exit(1)


def _say_audits(found: Sequence[Audit]) -> None:
    from ragsmith.reporting.audit import audit_markdown

    say_lines(*audit_markdown(found).splitlines())


def _audit_json(audit: Audit) -> dict[str, Any]:
    findings = [{**asdict(finding), "inert": finding.inert} for finding in audit.findings]
    pairs = [{**asdict(pair), "alike": pair.alike} for pair in audit.pairs]
    return {"dataset": audit.dataset, "space": audit.space, "findings": findings, "pairs": pairs}


@app.command()
def transfer(
    datasets: Annotated[
        list[str],
        typer.Argument(metavar="DATASET...", help="Bundled names or folders of data sets that were searched."),
    ],
    part: Annotated[str, typer.Option("--part", help="Questions: search or test.")] = "search",
    plan: Annotated[bool, typer.Option("--plan", help="Only print how much there is to evaluate.")] = False,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate the winner of the latest search on each data set on all other data sets."""
    plain: dict[str, Any] = {}

    def confirm(pairs: int, answers: int) -> bool:
        plain.update(pairs=pairs, answers=answers)
        note(f"{pairs} pairs of a winner and another data set: at most {answers:,} answers are to be computed")
        return not plan

    found = ragsmith.transfer(datasets, part=part, workers=workers, cache=cache, on_plan=confirm)
    plain["transfers"] = [asdict(one) for one in found]
    show_result(as_json, plain, lambda: _say_transfers(found, part) if found else None)


def _say_transfers(found: Sequence[TransferEstimate], part: str) -> None:
    head = ["winner of", "on", "questions", "F", "own winner ahead by", "95 % interval", "place", "pipeline"]
    rows = []
    for one in found:
        bounds = "" if one.behind is None else numbers.by_group(one.behind.low, one.behind.high)
        place = "" if one.place is None else f"{one.place} of {one.of}"
        counts = [f"{one.questions}", numbers.plain(one.fitness), numbers.signed(one.regret)]
        rows.append([one.source, one.target, *counts, bounds, place, one.label])
    table(rows, head, frozenset({2, 3, 4, 5}), fold=True)
    say()
    if part == "search":
        say_folded("the winner of each data set was selected on its search questions: its lead is biased upwards")
