"""``ragsmith techniques | space``: what there is to search."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ragsmith.cli.app import JsonOption, app, say, say_json, table

if TYPE_CHECKING:
    from ragsmith.registry import Technique


@app.command()
def techniques(
    name: Annotated[str | None, typer.Argument(help="One technique, as name or family.name.")] = None,
    as_json: JsonOption = False,
) -> None:
    """List the techniques of each family, or explain one."""
    from ragsmith.families import FAMILIES
    from ragsmith.registry import load_techniques

    load_techniques()
    every = [
        t for family in FAMILIES for t in sorted(family.techniques.values(), key=lambda t: (t.name != "none", t.name))
    ]
    if name is not None:
        every = _named(every, name)
    if as_json:
        say_json([_describe(technique) for technique in every])
    elif name is not None:
        for technique in every:
            _explain(technique)
    else:
        table(
            [[t.family, t.name, t.summary.replace("``", "`")] for t in every], ["family", "technique", "what it does"]
        )


def _named(every: list[Technique], name: str) -> list[Technique]:
    from ragsmith.errors import UsageError
    from ragsmith.suggest import did_you_mean

    found = [t for t in every if name in (t.name, f"{t.family}.{t.name}")]
    if not found:
        known = {t.name for t in every} | ({f"{t.family}.{t.name}" for t in every} if "." in name else set())
        raise UsageError(f"unknown technique {name!r}: {did_you_mean(name, known)}")
    return found


def _describe(technique: Technique) -> dict[str, Any]:
    return {
        "family": technique.family,
        "name": technique.name,
        "summary": technique.summary,
        "paper": technique.paper,
        "parameters": technique.defaults,
        "choices": {key: list(values) for key, values in technique.choices.items()},
        "needs": list(technique.tools.values()),
        "doc": inspect.getdoc(technique.fn),
    }


def _explain(technique: Technique) -> None:
    say(f"{technique.family}.{technique.name}")
    say()
    for line in (inspect.getdoc(technique.fn) or "").splitlines():
        say(f"  {line}".replace("``", "`").rstrip())
    say()
    say(f"  paper       {technique.paper or 'none'}")
    say(f"  needs       {', '.join(technique.tools.values()) or 'nothing'}")
    for key, default in technique.defaults.items():
        choices = f"   of {', '.join(map(str, technique.choices[key]))}" if key in technique.choices else ""
        say(f"  parameter   {key} = {default!r}{choices}")
    say()


@app.command()
def space(
    name: Annotated[str, typer.Argument(metavar="SPACE", help="A bundled search space by name, or a YAML file.")],
    as_json: JsonOption = False,
) -> None:
    """Show a search space: its options and its size."""
    from ragsmith.families import FAMILIES
    from ragsmith.space import load_space

    found = load_space(name)
    options = {family.name: [str(g) for g in genes] for family, genes in zip(FAMILIES, found.options, strict=True)}
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
