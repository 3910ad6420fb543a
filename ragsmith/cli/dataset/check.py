"""``ragsmith dataset check``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from ragsmith.cli.dataset.app import NameOrFolder, commands
from ragsmith.cli.options import REPORTS, ImportsOption, JsonOption
from ragsmith.cli.output import say, say_json


@commands.command()
def check(
    dataset: NameOrFolder,
    only: Annotated[list[str] | None, typer.Option(help="A gate to ask; may be given several times.")] = None,
    without: Annotated[list[str] | None, typer.Option(help="A gate to leave out; may be given several times.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="GATE.OPTION=VALUE", help="An option of a gate; see  ragsmith dataset gates."),
    ] = None,
    imports: ImportsOption = None,
    chunk_size: Annotated[int, typer.Option("--chunk-size", help="Characters in a chunk, at most.")] = 900,
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail, too.")] = False,
    html: Annotated[
        Path | None, typer.Option(help="File for the page with plots. [default: reports/NAME/check.html]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Ask of a data set whether it can tell good retrieval from bad; exit 1 if a gate fails.

    The gates are listed by  ragsmith dataset gates.
    """
    import ragsmith
    from ragsmith.datasets.dataset import load_dataset
    from ragsmith.labelling.checking.page import check_page
    from ragsmith.labelling.checking.wording import lines
    from ragsmith.text.writing import write_file

    data = load_dataset(dataset)
    page = html or REPORTS / data.name / "check.html"
    found = ragsmith.check_dataset(
        data,
        only=only or (),
        without=without or (),
        options=_options(settings or ()),
        chunk_size=chunk_size,
    )
    if as_json:
        say_json({**found.plain(), "passed": found.passed(strict=strict), "page": str(page)})
    else:
        for line in lines(found):
            say(line)
    write_file(check_page(found), page)  # last: where it cannot be written, what was found is said all the same
    if not as_json:
        say(str(page))
    if not found.passed(strict=strict):
        raise typer.Exit(1)


@commands.command()
def gates(imports: ImportsOption = None, as_json: JsonOption = False) -> None:
    """List the gates of `ragsmith dataset check`, with their options."""
    from ragsmith.labelling.checking.gates import GATES

    if as_json:
        say_json([{"name": one.name, "asks": one.asks, "options": one.options, "paper": one.paper} for one in GATES])
        return
    width = max(len(one.name) for one in GATES)
    for one in GATES:
        options = "".join(f"  {one.name}.{option}={value}" for option, value in one.options.items())
        say(f"{one.name:<{width}}  {one.asks}{options}")


def _options(settings: Sequence[str]) -> dict[str, dict[str, object]]:
    """The options of gates that are set on the command line: numbers and true or false as JSON has them, else text."""
    from ragsmith.errors import WrongOption

    found: dict[str, dict[str, object]] = {}
    for setting in settings:
        name, equals, text = setting.partition("=")
        gate, dot, option = name.partition(".")
        if not (gate and dot and option and equals and text):
            raise WrongOption("set", f"is {setting!r}: give GATE.OPTION=VALUE, such as bm25.low=0.6")
        if option in found.setdefault(gate, {}):
            raise WrongOption("set", f"gives {name} twice: give it once")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        found[gate][option] = value
    return found
