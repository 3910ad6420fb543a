"""The Typer application, and the file of each command.

Only the file of the requested command is imported, and none for the list of commands: to declare all forty commands
to Typer takes longer than to answer a question with a small pipeline.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from ragsmith.cli.commands import Command, CommandTable
from ragsmith.cli.output import print_line

COMMANDS = {
    "audit": ("ablate", "Evaluate every option of a space alone in naive RAG: its effects, costs and gains."),
    "techniques": ("techniques", "List the techniques of each family or of one, or explain a technique."),
    "measures": ("techniques", "List the measures that a fitness may use, or explain one."),
    "space": ("techniques", "Show a search space: its options and its size."),
    "recommend": (
        "recommend",
        "Recommend a pipeline for documents without questions, from the effects learned on other data sets.",
    ),
    "plan": (
        "search",
        "Estimate the requests, tokens, money and time of a search, and the cost of each of its options.",
    ),
    "report": ("results", "Write the report of each data set in the cache, and a comparison of all."),
    "mark": ("results", "Mark answers of a search in the browser: right, partly, wrong or cannot tell."),
    "export": ("results", "Write the winner of a search as YAML, or another of its pipelines."),
    "runs": ("results", "List the searches in the cache."),
    "cache": ("results", "Show the content of the cache; with --verify, exit code 1 if a row is damaged."),
    "search": ("search", "Search for the best pipeline; the same command resumes an interrupted search."),
    "ask": ("ask", "Answer a question, with the passages that the answer cites."),
    "evaluate": (
        "ask",
        "Score a pipeline on the questions of its data set, or of another one; or the answers of another system.",
    ),
    "verify": ("ask", "Run a pipeline again and compare its scores with the exported ones."),
    "serve": (
        "serve",
        "Answer questions over HTTP: OpenAI's chat completions, a web page, passages, metrics; or as MCP tools.",
    ),
    "agent": (
        "serve",
        "Serve tools for a coding agent, over MCP: plan, search, explain, compare and gate, within your limits.",
    ),
    "deploy": (
        "serve",
        "Write a self-contained starter kit: documents, server, container files, tests, a gate, a Python script.",
    ),
    "translate": ("serve", "Write a pipeline as a program of LangChain, Haystack or LlamaIndex."),
    "explain": (
        "explain",
        "Trace a question through a pipeline: the output of each stage, where gold was lost, and the answer.",
    ),
    "ablate": (
        "ablate",
        "Estimate the effect of each part of a pipeline: without it, replaced by others, and alone.",
    ),
    "compare": (
        "compare",
        "Compare two pipelines or other systems question by question, or several as one family of tests.",
    ),
    "test": (
        "compare",
        "Test a pipeline on test questions against naive RAG, BM25 and the recommended pipeline: a look at them.",
    ),
    "gate": (
        "compare",
        "Test a pipeline for a regression: exit code 1 if it is worse by more than --min-effect; 3 or 4 if unknown.",
    ),
    "transfer": (
        "ablate",
        "Evaluate the winner of the latest search on each data set on all other data sets.",
    ),
    "dataset": ("dataset", "Data sets: documents and questions with evidence."),
    "models": ("models", "Models: generators, controllers, judges, embedders and rerankers."),
    "effects": ("recommend", "Effects of the options of pipelines, learned on data sets."),
    "index": ("ask", "The index of an exported pipeline: build it and update its documents."),
}
"""Commands and groups in the order of ``--help``: the file, and the first paragraph of the help."""


class Commands(TyperGroup):
    """The group of all commands; only commands whose files were imported have parameters."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return all names, as ``--help`` lists them."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; if its file was not imported, a stub with its help."""
        command = super().get_command(ctx, cmd_name)
        return (
            TyperCommand(cmd_name, help=COMMANDS[cmd_name][1]) if command is None and cmd_name in COMMANDS else command
        )


def listing(title: str, module: str, registry: str) -> type[TyperCommand]:
    """Return a class of commands whose help ends with the extensions of a registry under ``title``.

    ``module`` is imported when the help is shown.
    """

    class ListingCommand(Command):
        """A command whose help ends with the list."""

        def format_epilog(self, ctx: Any, formatter: Any) -> None:
            extensions = getattr(import_module(module), registry)
            with formatter.section(title):
                formatter.write_dl([(extension.name, extension.describe()) for extension in extensions])

    return ListingCommand


app = CommandTable(
    name="ragsmith",
    cls=Commands,
    help="Find the best Retrieval-Augmented Generation pipeline for your documents.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _show_version(requested: bool) -> None:
    if requested:
        from ragsmith import __version__

        print_line(f"ragsmith {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find the best Retrieval-Augmented Generation pipeline for your documents."""
    from ragsmith.cli.progress import show_task_progress

    show_task_progress()


HELP_ARGUMENTS = (["-h"], ["--help"])
"""Arguments that only print the list of commands."""


def load(arguments: Sequence[str] = ()) -> typer.Typer:
    """Return `app` with the first command of ``arguments`` imported, or all commands if it is unknown."""
    named = [COMMANDS[name][0] for name in arguments[:1] if name in COMMANDS]
    if list(arguments) not in HELP_ARGUMENTS:
        for file in named or dict.fromkeys(file for file, _ in COMMANDS.values()):
            import_module(f"ragsmith.cli.{file}")
    return app
