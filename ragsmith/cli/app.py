"""The Typer application: every command by name, and the file that adds it.

A command line imports the file of its own command only, and the list of commands none of them: describing all forty to
Typer takes longer than a small pipeline takes to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ragsmith.cli.output import say

if TYPE_CHECKING:
    from ragsmith.extensions import Extension
    from ragsmith.strategies.registry import RegisteredStrategy


COMMANDS = {
    "audit": ("ablate", "Switch every option of a space on alone: what it changes, costs and gains."),
    "techniques": ("techniques", "List the techniques of each family, or explain one."),
    "measures": ("techniques", "List the measures that records hold and a fitness may use, or explain one."),
    "space": ("techniques", "Show a search space: its options and its size."),
    "recommend": (
        "recommend",
        "Name a pipeline for documents without any question, by what was learned on other data sets.",
    ),
    "plan": (
        "search",
        "Say what a search would take, how much of it is in the cache, and what each choice that it has costs.",
    ),
    "report": ("results", "Write the report of each data set in the cache, and how they compare."),
    "export": ("results", "Write the winner of a search as YAML, or another of its pipelines."),
    "runs": ("results", "List the searches in the cache."),
    "cache": ("results", "Say what the cache holds; with --verify, exit code 1 if a row is damaged."),
    "search": ("search", "Search for the best pipeline; the same command again goes on where it stopped."),
    "ask": ("ask", "Answer a question, with the passages the answer rests on."),
    "evaluate": ("ask", "Score a pipeline on the questions of its data set, or of another."),
    "verify": ("ask", "Run a pipeline again and compare with the scores it was exported with."),
    "serve": (
        "serve",
        "Answer questions over HTTP: OpenAI's chat completions, a page, passages and places, metrics; or as MCP tools.",
    ),
    "deploy": (
        "serve",
        "Write a starter kit that stands alone: documents, server, container files, tests, a gate, a Python script.",
    ),
    "explain": (
        "explain",
        "Follow a question through a pipeline: what each stage made of it, where gold was lost, and the answer.",
    ),
    "ablate": (
        "ablate",
        "Say what each part of a pipeline is worth, on search questions: without it, swapped, and with the others.",
    ),
    "compare": (
        "compare",
        "Compare two pipelines question by question: what each scores, who answers what, and what that shows.",
    ),
    "gate": (
        "compare",
        "Is a pipeline as good as it was? Exit code 1 if it is shown to be worse by more than that; 3 or 4 if unknown.",
    ),
    "transfer": (
        "ablate",
        "Evaluate the winner of the latest search on each data set on the others, for the report across them.",
    ),
    "dataset": ("dataset", "Data sets: documents and questions with evidence."),
    "models": ("models", "Models: what writes, asks, judges, embeds and reranks."),
    "effects": ("recommend", "What options of pipelines are worth, learned on data sets."),
    "index": ("ask", "The index of an exported pipeline, kept as its documents change."),
}
"""Commands and groups in the order of ``--help``: the file, and the first sentence of what it says of itself."""


class Commands(TyperGroup):
    """The commands, of which those are whole whose files were imported."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names, as ``--help`` lists them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; where its file was not imported, what the list says of it."""
        known = super().get_command(ctx, cmd_name)
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name][1]) if known is None and cmd_name in COMMANDS else known


def registered_strategies() -> Iterable[RegisteredStrategy]:
    """The strategies of a search; importing them waits until the help is shown."""
    from ragsmith.strategies import STRATEGIES

    return STRATEGIES


def listing(title: str, registered: Callable[[], Iterable[Extension]]) -> type[TyperCommand]:
    """A class of commands whose help ends with a list of ``registered`` under ``title``."""

    class ListingCommand(TyperCommand):
        """A command with such a help."""

        def format_epilog(self, ctx: Any, formatter: Any) -> None:
            with formatter.section(title):
                formatter.write_dl([(extension.name, extension.describe()) for extension in registered()])

    return ListingCommand


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
    from ragsmith.cli.progress import show_building

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
