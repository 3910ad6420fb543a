"""The Typer application, to which every command file adds its commands."""

from __future__ import annotations

from typing import Annotated

import typer

from ragsmith.cli.output import say

app = typer.Typer(
    name="ragsmith",
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
