"""The group ``ragsmith dataset``, to which the other files of this folder add commands."""

from ragsmith.cli.app import app
from ragsmith.cli.commands import CommandTable

commands = CommandTable(
    help="Data sets: documents and questions with evidence.", no_args_is_help=True, rich_markup_mode=None
)
app.add_typer(commands, name="dataset")
