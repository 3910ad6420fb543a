"""The group ``ragsmith dataset``, to which the other files of this folder add commands."""

from __future__ import annotations

from typing import Annotated

import typer

from ragsmith.cli.app import app

commands = typer.Typer(
    help="Data sets: documents and questions with evidence.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(commands, name="dataset")

NameOrFolder = Annotated[str, typer.Argument(metavar="DATASET", help="A bundled data set by name, or a folder.")]
