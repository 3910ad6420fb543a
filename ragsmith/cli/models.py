"""``ragsmith models list | check``: which models there are, and do they answer?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from ragsmith.cli.app import app
from ragsmith.cli.options import ImportsOption, JsonOption, RoleFlags, merged
from ragsmith.cli.output import say, say_json, table

if TYPE_CHECKING:
    from ragsmith.models.checking import Checked

commands = typer.Typer(
    help="Models: what writes, asks, judges, embeds and reranks.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(commands, name="models")


@commands.callback()
def models() -> None:
    """Models: what writes, asks, judges, embeds and reranks."""


@commands.command("list")
def list_models(*, imports: ImportsOption = None, as_json: JsonOption = False) -> None:
    """List the models that each role may be given, their options, and the variables with their keys."""
    from ragsmith.models.registry import ROLES, SPOKEN, providers

    every = [declared for role in dict.fromkeys(ROLES.values()) for declared in providers(role).values()]
    if as_json:
        say_json(
            [
                {
                    "role": declared.role,
                    "name": declared.form,
                    "options": {name: {"shapes_results": its.shapes} for name, its in declared.options.items()},
                    "keys": declared.service.keys,
                    "base_url": declared.service.base_url,
                    "extra": declared.extra or None,
                }
                for declared in every
            ]
        )
    else:
        rows = [
            [SPOKEN[its.role], its.form, ", ".join(its.service.keys), ", ".join(its.options) or "none"] for its in every
        ]
        table(rows, ["role", "model", "key", "options"])


@commands.command()
@merged
def check(
    *,
    models: RoleFlags,
    as_json: JsonOption = False,
) -> None:
    """Ask every model once, and say which answers, how fast, and what is wrong with the others."""
    from ragsmith.models.checking import check_models

    found = check_models(models.chosen())
    if as_json:
        say_json([{**asdict(checked), "ok": checked.ok} for checked in found])
    else:
        table([_row(checked) for checked in found], ["role", "model", "answers", "ms", "dimensions"], frozenset({3, 4}))
        for checked in found:
            if not checked.ok:
                say(f"{checked.role}: {checked.problem}")
    if not all(checked.ok for checked in found):
        raise typer.Exit(1)


def _row(checked: Checked) -> list[str]:
    seconds = "" if checked.seconds is None else f"{1000 * checked.seconds:.0f}"
    dimensions = "" if checked.dimensions is None else str(checked.dimensions)
    embedded = ":" not in checked.name  # their identifiers are of a corpus, and there is none here
    model = checked.name if embedded else checked.id or checked.name
    return [checked.role, model, "ok" if checked.ok else "no", seconds, dimensions]
