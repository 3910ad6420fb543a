"""``ragsmith transfer``: each data set's winner on the others."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

import ragsmith
from ragsmith.cli.app import app
from ragsmith.cli.options import CACHE, CacheOption, ImportsOption, JsonOption, WorkersOption
from ragsmith.cli.output import note, say, say_folded, say_json, table


@app.command()
def transfer(
    datasets: Annotated[
        list[str], typer.Argument(metavar="DATASET...", help="Bundled names or folders, as they were searched.")
    ],
    part: Annotated[
        str, typer.Option("--part", help="On which questions: search, or test, which are looked at then.")
    ] = "search",
    plan: Annotated[bool, typer.Option("--plan", help="Only say how much there is to evaluate.")] = False,
    workers: WorkersOption = None,
    cache: CacheOption = str(CACHE),
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Evaluate the winner of the latest search on each data set on the others, for the report across them."""
    from ragsmith.text import numbers

    said: list[tuple[int, int]] = []

    def planned(pairs: int, answers: int) -> bool:
        said.append((pairs, answers))
        note(f"{pairs} pairs of a winner and another data set: {answers:,} answers are to be made, at most")
        return not plan

    found = ragsmith.transfer(datasets, part=part, workers=workers, cache=cache, on_plan=planned)
    if as_json:
        pairs, answers = said[0]
        say_json({"pairs": pairs, "answers": answers, "transfers": [asdict(one) for one in found]})
        return
    if not found:
        return
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
        say_folded(
            "search questions chose the winner that is at home there: what it is ahead by looks larger than it is"
        )
