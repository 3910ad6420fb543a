"""``ragsmith models check``: do the models answer?"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import typer

from ragsmith.cli.app import app
from ragsmith.cli.options import JsonOption, RoleFlags, merged
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
