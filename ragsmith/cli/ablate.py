"""``ragsmith ablate``: what each part of an exported pipeline is worth."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.ask import OtherDataset, PipelineArgument
from ragsmith.cli.options import CACHE, CacheOption, JsonOption, ModelFlags, WorkersOption, merged
from ragsmith.cli.output import note, say, say_folded, say_json, say_table

if TYPE_CHECKING:
    from ragsmith.api.ablating import AblationPlan
    from ragsmith.text.table import Table


@app.command()
@merged
def ablate(
    *,
    pipeline: PipelineArgument,
    dataset: OtherDataset = None,
    space: Annotated[
        str | None,
        typer.Option("--space", help="Where other options are taken from. [default: the space it was found in]"),
    ] = None,
    swaps: Annotated[bool, typer.Option("--swaps", help="Also put each other option of the space in turn.")] = False,
    signals: Annotated[
        bool, typer.Option("--signals", help="Also leave out each signal of a learned ranking in turn.")
    ] = False,
    pairs: Annotated[bool, typer.Option("--pairs", help="Also evaluate each two parts alone in naive RAG.")] = False,
    latency: Annotated[bool, typer.Option("--latency", help="Also time everything, on five questions.")] = False,
    part: Annotated[
        str, typer.Option("--part", help="On which questions: search, or test or all, which looks at the test.")
    ] = "search",
    plan: Annotated[bool, typer.Option("--plan", help="Only say how much there is to evaluate.")] = False,
    models: ModelFlags,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Say what each part of a pipeline is worth, on search questions: without it, swapped, and with the others."""
    from ragsmith.reporting import run_tables, wording

    said: list[AblationPlan] = []

    def planned(found: AblationPlan) -> bool:
        said.append(found)
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
        on_plan=planned,
    )
    if as_json:
        plain = {} if found is None else found.plain()
        say_json({"plan": {**asdict(said[0]), "answers": said[0].answers}, **plain})
        return
    if found is None:
        return
    say_folded(f"{found.label or 'naive RAG'}, on {found.questions} questions of {found.dataset}")
    if not found.outs:
        say("it is naive RAG: there is no part to take out")
        return
    say_folded(wording.parts_explained(found, "this pipeline", chosen=said[0].searched))
    _say(run_tables.parts(found))
    if found.interactions:
        say()
        say_folded(wording.describe_interaction(found.interactions[0]))
        _say(run_tables.together(found))
    if found.swaps:
        _say(run_tables.swaps(found))
    if found.signals:
        _say(run_tables.signals(found))
    elif signals:
        say_folded(
            "no signal was left out: the pipeline has no learned ranking, or one that was fitted on another data set"
        )


def _planned(found: AblationPlan) -> str:
    questions = f"{found.questions} {'' if found.part == 'all' else f'{found.part} '}questions of {found.dataset}"
    return (
        f"{found.pipelines} pipelines on {questions}, with options of the space {found.space!r}: {found.known} are in "
        f"the cache, and {found.answers:,} answers are to be made, at most"
    )


def _say(content: Table) -> None:
    say()
    say(content.caption)
    say_table(content, fold=True)
