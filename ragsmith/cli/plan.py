"""``ragsmith plan``: what a search would ask of models, before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ragsmith
from ragsmith.api.arguments import RunArguments
from ragsmith.cli.app import app
from ragsmith.cli.listing import listing, registered_strategies
from ragsmith.cli.options import (
    CACHE,
    CacheOption,
    DatasetOption,
    JsonOption,
    ModelFlags,
    PricesOption,
    merged,
)
from ragsmith.cli.output import say, say_json, table

if TYPE_CHECKING:
    from ragsmith.runs.plan import SearchPlan


@app.command(cls=listing("Strategies", registered_strategies))
@merged
def plan(
    *,
    dataset: DatasetOption,
    run: RunArguments,
    models: ModelFlags,
    prices: PricesOption = None,
    latency: Annotated[
        float | None, typer.Option(help="Seconds that a request takes. [default: as measured on the cache, or 1]")
    ] = None,
    in_flight: Annotated[
        int | None, typer.Option(help="Requests that are answered at once. [default: as many as are sent]")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(help="Search questions to work the plan out on. [default: 100, or without races 15 and more]"),
    ] = None,
    cache: CacheOption = str(CACHE),
    as_json: JsonOption = False,
) -> None:
    """Say what a search would take, how much of it is in the cache, and what each choice that it has costs."""
    found = ragsmith.plan(
        dataset,
        **run,
        **models.arguments(),
        prices=prices,
        latency=latency,
        in_flight=in_flight,
        sample=sample,
        cache=cache,
    )
    if as_json:
        say_json({**asdict(found), "totals": found.totals})
    else:
        _say_plan(found)


def _say_plan(found: SearchPlan) -> None:
    if found.searches > 1:
        say(
            f"{found.searches} searches, one for each fold and one on all questions: at most the numbers below, those "
            "of one search as many times; what they share is asked once"
        )
    if found.genomes is None:
        say("every model is embedded: nothing is sent, and nothing costs money")
        counts = f"about {found.about_pipelines:,} pipelines and {found.about_made:,} {found.made}"
        say(f"{counts}, fewer where races are lost or nothing better is found")
        say(
            f"{found.proposed:,} of the pipelines are proposed by the search, which is what --max-evaluations counts; "
            "the others are the baselines and each option alone. What is recommended, and what simplifies the winner "
            "and takes it apart, comes on top"
        )
        return
    say(
        f"about {found.genomes} pipelines on {found.questions} questions, worked out on {found.sampled} of them with "
        "the embedded models in the others' place"
    )
    say(
        f"at most {found.proposed:,} of them are proposed by the search, which is what --max-evaluations counts; the "
        "others are baselines, each option alone, and what simplifies the winner and takes it apart"
    )
    say()
    head = ["model", "request", "to be made", "in the cache", "tokens in", "tokens out", "money", "seconds"]
    total = found.totals
    rows = [[_name(line.model), line.request, *_amounts(asdict(line))] for line in found.lines]
    table([*rows, ["all", "", *_amounts(total)]], head, frozenset(range(2, 8)))
    if found.ranges:
        say()
        how = "the rehearsals, each on its own questions, came to"
        if found.raced:
            how = (
                "with all that the rehearsal dropped being dropped a block of questions sooner or later, that would be"
            )
        say(f"replies decide where a search goes: {how} {_between(found)}")
    if found.timed:
        say()
        say(
            f"latency: {found.timed:,} questions are asked once more, one by one; replies of chat models are not asked "
            "for again, but taken from the cache with the seconds they took"
        )
    if found.choices:
        say()
        head = ["what can be left out", "with", "requests", "tokens in", "tokens out", "money"]
        chosen = [[one.what, one.flag, *_amounts(asdict(one))] for one in found.choices]
        table(chosen, head, frozenset(range(2, 6)))
        say("(what is asked for it alone: without a stage other pipelines are searched, so plan with its flag, too)")
    say()
    for model, notes in found.notes.items():
        for note in notes:
            say(f"{_name(model)}: {note}")
    if total["cost"] is None:
        say("money: no price is known for all of these; name a file with --prices")


def _between(found: SearchPlan) -> str:
    """The least and the most of a plan's rehearsals."""
    calls, cost = found.ranges["calls"], found.ranges.get("cost")
    money = "" if cost is None else f", and to {cost[0]:.2f} to {cost[1]:.2f} in money"
    return f"{calls[0]:,.0f} to {calls[1]:,.0f} requests{money}"


def _name(model: str) -> str:
    return model.partition("@")[0]


def _amounts(of: Mapping[str, Any]) -> list[str]:
    """The numbers of a line, in the order of the head."""
    counts = [f"{of[name]:,.0f}" for name in ("calls", "cached", "input_tokens", "output_tokens") if name in of]
    money = "?" if of["cost"] is None else f"{of['cost']:.2f}"
    return [*counts, money, *([f"{of['seconds']:,.0f}"] if "seconds" in of else [])]
