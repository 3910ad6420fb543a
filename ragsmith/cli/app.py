"""The Typer application, to which every command file adds its commands."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from ragsmith.cli.commands import COMMANDS, Commands
from ragsmith.cli.output import say

app = typer.Typer(
    name="ragsmith",
    cls=Commands,
    help="Find the best Retrieval-Augmented Generation pipeline for your documents.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(asked: bool) -> None:
    if asked:
        from ragsmith import __version__

        say(f"ragsmith {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Find the best Retrieval-Augmented Generation pipeline for your documents."""
    from ragsmith.cli.building import show_building

    show_building()


LISTED = (["-h"], ["--help"])
"""What asks for nothing but the list of commands."""


def load(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return `app` with the command that ``arguments`` begin with; with all, if they begin with none."""
    named = [COMMANDS[name][0] for name in arguments[:1] if name in COMMANDS]
    if list(arguments) not in LISTED:
        for file in named or dict.fromkeys(file for file, _ in COMMANDS.values()):
            import_module(f"ragsmith.cli.{file}")
    return app
