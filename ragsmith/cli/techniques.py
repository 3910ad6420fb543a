"""``ragsmith techniques | measures | space``: what there is to search, and what it is judged by."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ragsmith.cli.app import app
from ragsmith.cli.options import ImportsOption, JsonOption
from ragsmith.cli.output import say, say_json, table
from ragsmith.errors import UsageError

if TYPE_CHECKING:
    from ragsmith.techniques.registry import Technique


@app.command()
def techniques(
    name: Annotated[str | None, typer.Argument(help="One technique, as name or family.name.")] = None,
    prompts: Annotated[bool, typer.Option("--prompts", help="Show what its language tasks ask a chat model.")] = False,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the techniques of each family, or explain one."""
    from ragsmith.cli.explanation import described, explained
    from ragsmith.techniques.families import FAMILIES
    from ragsmith.techniques.registry import load_techniques

    load_techniques()
    every = [
        t for family in FAMILIES for t in sorted(family.techniques.values(), key=lambda t: (t.name != "none", t.name))
    ]
    if name is not None:
        every = _named(every, name)
    if as_json:
        say_json([described(technique) for technique in every])
    elif name is not None:
        for line in (line for technique in every for line in explained(technique, prompts=prompts)):
            say(line)
    else:
        table(
            [[t.family, t.name, t.summary.replace("``", "`")] for t in every], ["family", "technique", "what it does"]
        )


def _named(every: list[Technique], name: str) -> list[Technique]:
    from ragsmith.text.suggest import did_you_mean

    found = [t for t in every if name in (t.name, f"{t.family}.{t.name}")]
    if not found:
        known = {t.name for t in every} | ({f"{t.family}.{t.name}" for t in every} if "." in name else set())
        raise UsageError(f"unknown technique {name!r}: {did_you_mean(name, known)}")
    return found


@app.command()
def measures(
    name: Annotated[str | None, typer.Argument(help="One measure, by name.")] = None,
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the measures that records hold and a fitness may use, or explain one."""
    from inspect import getdoc

    from ragsmith.measures.registry import measure_named
    from ragsmith.measures.registry import measures as known

    every = [measure_named(name)] if name is not None else list(known().values())
    if as_json:
        say_json([measure.plain() for measure in every])
    elif name is None:
        rows = [[measure.subject, measure.name, measure.label, measure.summary] for measure in every]
        table(rows, ["of the", "measure", "shown as", "what it is"])
    else:
        say(f"{name}: {every[0].heading}")
        say()
        for line in str(getdoc(every[0].fn)).splitlines():
            say(line)
        say()
        for said, value in every[0].plain().items():
            say(f"{said:<10} {', '.join(map(str, value)) if isinstance(value, list) else value}")


@app.command()
def space(
    name: Annotated[str, typer.Argument(metavar="SPACE", help="A bundled search space by name, or a YAML file.")],
    imports: ImportsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a search space: its options and its size."""
    from ragsmith.pipelines.space_file import load_space

    found = load_space(name)
    options = {name: [str(g) for g in genes] for name, genes in zip(found.names, found.options, strict=True)}
    if as_json:
        say_json(
            {
                "name": found.name,
                "description": found.description,
                "size": found.size,
                "feasible": found.feasible_size,
                "options": options,
            }
        )
        return
    say(found.description)
    say()
    for family, listed in options.items():
        say(f"{family:<17} {len(listed):>2}  {', '.join(listed)}")
    say()
    product = " x ".join(map(str, found.sizes))
    say(f"{product} = {found.size:,} pipelines, {found.feasible_size:,} of them feasible")
