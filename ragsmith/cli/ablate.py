"""``ragsmith ablate | audit | transfer``: estimate the effects of parts and options, and evaluate winners elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
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
    ImportsOption,
    JsonOption,
    ModelFlags,
    OtherDataset,
    PipelineArgument,
    SplitOption,
    WorkersOption,
    expand_groups,
)
from ragsmith.cli.output import (
    print_line,
    print_lines,
    print_rows,
    print_stderr,
    print_table,
    print_wrapped,
    show_result,
)
from ragsmith.text import numbers

if TYPE_CHECKING:
    from ragsmith.api.diagnosing import AblationPlan
    from ragsmith.diagnosis.ablation import Ablation
    from ragsmith.diagnosis.estimates import TransferEstimate
    from ragsmith.records.audit import Audit
    from ragsmith.text.table import Table


@app.command()
@expand_groups
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
    split: SplitOption = "search",
    plan: Annotated[
        bool, typer.Option("--plan", help="Only print the number of pipelines and answers to evaluate.")
    ] = False,
    models: ModelFlags,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Estimate the effect of each part of a pipeline: without it, replaced by others, and alone."""
    plans: list[AblationPlan] = []

    def confirm(planned: AblationPlan) -> bool:
        plans.append(planned)
        print_stderr(_describe_plan(planned))
        return not plan

    ablation = ragsmith.ablate(
        pipeline,
        dataset=dataset,
        space=space,
        swaps=swaps,
        signals=signals,
        pairs=pairs,
        latency=latency,
        split=split,
        **models.arguments(),
        workers=workers,
        cache=cache,
        on_plan=confirm,
        on_look=print_stderr,
    )
    plain = asdict(ablation) if ablation else {}
    plain = {"plan": {**asdict(plans[0]), "answers": plans[0].answers}, **plain}
    show_result(
        as_json,
        plain,
        lambda: _print_ablation(ablation, was_selected=plans[0].searched, signals=signals) if ablation else None,
    )


def _print_ablation(ablation: Ablation, *, was_selected: bool, signals: bool) -> None:
    from ragsmith.reporting import run_tables, wording

    print_wrapped(f"{ablation.label or 'naive RAG'}, on {ablation.questions} questions of {ablation.dataset}")
    if not ablation.outs:
        print_line("this is naive RAG: there is no part to remove")
        return
    print_wrapped(wording.explain_parts(ablation, "this pipeline", was_selected=was_selected))
    _print_captioned(run_tables.parts_table(ablation))
    if ablation.interactions:
        print_line()
        print_wrapped(wording.describe_interaction(ablation.interactions[0]))
        _print_captioned(run_tables.interactions_table(ablation))
    if ablation.swaps:
        _print_captioned(run_tables.swaps_table(ablation))
    if ablation.signals:
        _print_captioned(run_tables.signals_table(ablation))
    elif signals:
        print_wrapped(
            "no signal was removed: the pipeline has no learned ranking, or one that was fitted on another data set"
        )


def _describe_plan(plan: AblationPlan) -> str:
    questions = f"{plan.questions} {'' if plan.part == 'all' else f'{plan.part} '}questions of {plan.dataset}"
    return (
        f"{plan.pipelines} pipelines on {questions}, with options of the space {plan.space!r}: {plan.known} are in "
        f"the cache, and at most {plan.answers:,} answers are to be computed"
    )


def _print_captioned(content: Table) -> None:
    print_lines("", content.caption)
    print_table(content, fold=True)


@app.command()
@expand_groups
def audit(
    *,
    dataset: Annotated[list[str], typer.Argument(help="Bundled data sets by name, or folders.")],
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

    Options without an effect and pairs of options with equal results are listed; with several data sets, a table shows
    on which of them the options of each pair differ.
    """
    audits = ragsmith.audits(
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
    show_result(as_json, [_audit_json(audit) for audit in audits], lambda: _print_audits(audits))
    if any(finding.failed for audit in audits for finding in audit.findings):
        raise typer.Exit(1)


def _print_audits(audits: Sequence[Audit]) -> None:
    from ragsmith.reporting.audit import audit_markdown

    print_lines(*audit_markdown(audits).splitlines())


def _audit_json(audit: Audit) -> dict[str, Any]:
    findings = [{**asdict(finding), "inert": finding.inert} for finding in audit.findings]
    pairs = [{**asdict(pair), "alike": pair.alike} for pair in audit.pairs]
    return {"dataset": audit.dataset, "space": audit.space, "findings": findings, "pairs": pairs}


@app.command()
def transfer(
    dataset: Annotated[
        list[str],
        typer.Argument(help="Bundled data sets by name, or folders; each needs a completed search."),
    ],
    split: Annotated[
        str, typer.Option("--split", help="Questions: search or test; test counts as a use of the test set.")
    ] = "search",
    plan: Annotated[
        bool, typer.Option("--plan", help="Only print the number of pipelines and answers to evaluate.")
    ] = False,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate the winner of the latest search on each data set on all other data sets."""
    plain: dict[str, Any] = {}

    def confirm(pairs: int, answers: int) -> bool:
        plain.update(pairs=pairs, answers=answers)
        print_stderr(f"{pairs} pairs of a winner and another data set: at most {answers:,} answers are to be computed")
        return not plan

    estimates = ragsmith.transfer(
        dataset, split=split, workers=workers, cache=cache, on_plan=confirm, on_look=print_stderr
    )
    plain["transfers"] = [asdict(estimate) for estimate in estimates]
    show_result(as_json, plain, lambda: _print_transfers(estimates, split) if estimates else None)


def _print_transfers(estimates: Sequence[TransferEstimate], split: str) -> None:
    head = ["winner of", "on", "questions", "F", "own winner ahead by", "95 % interval", "place", "pipeline"]
    rows = []
    for estimate in estimates:
        bounds = "" if estimate.behind is None else numbers.by_group(estimate.behind.low, estimate.behind.high)
        place = "" if estimate.place is None else f"{estimate.place} of {estimate.of}"
        counts = [f"{estimate.questions}", numbers.plain(estimate.fitness), numbers.signed(estimate.regret)]
        rows.append([estimate.source, estimate.target, *counts, bounds, place, estimate.label])
    print_rows(rows, head, frozenset({2, 3, 4, 5}), fold=True)
    print_line()
    if split == "search":
        print_wrapped("the winner of each data set was selected on its search questions: its lead is biased upwards")
