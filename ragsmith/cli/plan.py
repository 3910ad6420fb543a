"""``ragsmith plan``: what a search would ask of models, before anything is spent."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ragsmith.cli.app import app
from ragsmith.cli.options import (
    CACHE,
    CacheOption,
    ChunkSizeOption,
    DatasetOption,
    FaithfulnessOption,
    JsonOption,
    ModelFlags,
    PresetSpaceOption,
    PricesOption,
    RunFlags,
    merged,
)
from ragsmith.cli.output import say, say_json, table

if TYPE_CHECKING:
    from ragsmith.runs.plan import Plan


@app.command()
@merged
def plan(
    *,
    dataset: DatasetOption,
    space: PresetSpaceOption = None,
    run: RunFlags,
    models: ModelFlags,
    prices: PricesOption = None,
    faithfulness: FaithfulnessOption = None,
    chunk_size: ChunkSizeOption = None,
    latency: Annotated[float, typer.Option(help="Seconds that a request is expected to take.")] = 1.0,
    in_flight: Annotated[int, typer.Option(help="Requests that are expected to be answered at once.")] = 32,
    sample: Annotated[int, typer.Option(help="Search questions to work the plan out on.")] = 15,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Say what a search would take: pipelines, calls, tokens, money, time, and how much of it is in the cache."""
    import ragsmith

    found = ragsmith.plan(
        dataset,
        space=space,
        **asdict(run),
        **models.given(),
        prices=prices,
        faithfulness=faithfulness,
        chunk_size=chunk_size,
        latency=latency,
        in_flight=in_flight,
        sample=sample,
        cache=cache,
    )
    if as_json:
        say_json(asdict(found))
    else:
        _say_plan(found)


def _say_plan(found: Plan) -> None:
    if found.genomes is None:
        say("every model is embedded: nothing is sent, and nothing costs money")
        return
    say(
        f"about {found.genomes} pipelines on {found.questions} questions, worked out on {found.sampled} of them with "
        "the embedded models in the others' place"
    )
    say()
    head = ["model", "request", "to be made", "in the cache", "tokens in", "tokens out", "money", "seconds"]
    rows = [
        [
            line.model.partition("@")[0],
            line.request,
            f"{line.calls:,}",
            f"{line.cached:,}",
            f"{line.input_tokens:,}",
            f"{line.output_tokens:,}",
            "?" if line.cost is None else f"{line.cost:.2f}",
            f"{line.seconds:.0f}",
        ]
        for line in found.lines
    ]
    total = found.totals
    cost = "?" if total["cost"] is None else f"{total['cost']:.2f}"
    counts = [f"{total[name]:,.0f}" for name in ("calls", "cached", "input_tokens", "output_tokens")]
    rows.append(["all", "", *counts, cost, f"{total['seconds']:.0f}"])
    table(rows, head, frozenset(range(2, 8)))
    say()
    say(f"seconds: at {found.latency:g} s a request and {found.in_flight} at once; tokens: at 4 characters each")
    if total["cost"] is None:
        say("money: no price is known for all of these; name a file with --prices")
