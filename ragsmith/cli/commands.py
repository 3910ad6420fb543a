"""Commands whose positional arguments can also be given by name, and whose help lists options in groups."""

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields
from itertools import islice, takewhile
from typing import Any

import typer
from typer.core import TyperCommand
from typer.models import CommandFunctionType

from ragsmith.api.arguments import RunArguments
from ragsmith.argument_types import first_clause
from ragsmith.cli.options import BudgetFlags, ModelFlags, TraceFlags
from ragsmith.errors import UsageError

COMMON = frozenset(
    ("preset", "space", "objectives", "max_evaluations", "seed", "llm", "embedder", "base_url", "max_calls", "max_cost")
)
"""Parameters that are listed first although they belong to a group."""

GROUPS = {
    "Models": frozenset(field.name for field in fields(ModelFlags)),
    "Limits": frozenset(field.name for field in fields(BudgetFlags)) | {"workers", "memory", "engine", "time_limit"},
    "Search": frozenset(RunArguments.__annotations__),
    "Output": frozenset(field.name for field in fields(TraceFlags))
    | {"trace_share", "cache", "reports", "output", "mlflow", "quiet", "as_json", "retry_failed"},
}
"""The groups of options in the help, by the names of parameters; all other options are listed before them."""

MIN_GROUPED = 15
"""Minimum number of options of a command that are listed in groups."""

OTHER_NAMES = {"--part": "--split"}
"""Earlier names of options, which are accepted and not listed."""


class Command(TyperCommand):
    """A command of `CommandTable`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse ``args`` after positional arguments that are given by name are put in their places.

        The object of the context is then the command line as it was typed.
        """
        ctx.obj = shlex.join([*ctx.command_path.split(), *args])
        return super().parse_args(ctx, args if ctx.resilient_parsing else place_arguments(args, self.get_params(ctx)))

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and the options, in groups if there are many."""
        parameters = self.get_params(ctx)
        grouped = len(parameters) >= MIN_GROUPED
        sections: dict[str, list[Any]] = {title: [] for title in ("Arguments", "Options", *GROUPS)}
        for parameter in parameters:
            if record := parameter.get_help_record(ctx):
                sections[_group(parameter, grouped=grouped)].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _group(parameter: Any, *, grouped: bool) -> str:
    if parameter.param_type_name == "argument":
        return "Arguments"
    if not grouped or parameter.name in COMMON:
        return "Options"
    return next((title for title, names in GROUPS.items() if parameter.name in names), "Options")


class CommandTable(typer.Typer):
    """A Typer application whose commands are of the class `Command`."""

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = Command, **options: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Return the decorator of a command."""
        return super().command(name, cls=cls, **options)


def place_arguments(arguments: Sequence[str], parameters: Iterable[Any]) -> list[str]:
    """Return a command line with options first, then ``--`` and the positional arguments in order.

    A positional argument can be given by name: ``--dataset law`` is ``law`` in the place of the argument ``dataset``.

    Raises:
        UsageError: an option has no value, or a value is empty, as that of a shell variable that is not set.
    """
    parameters = list(parameters)
    positions = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
    takes_value = {
        name: "" if parameter.is_flag else parameter.help or "text"
        for parameter in parameters
        if parameter not in positions
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    names = [f"--{position.name.replace('_', '-')}" for position in positions]
    by_name: dict[str, list[str]] = {name: [] for name in names if name not in takes_value}
    options: list[str] = []
    loose: list[str] = []
    rest = iter(arguments)
    for token in rest:
        name, equals, value = token.partition("=")
        name = name if name in takes_value or name in by_name else OTHER_NAMES.get(name, name)
        if token == "--":
            loose += rest
        elif name in by_name:
            by_name[name].append(value if equals else _next_value(name, rest))
        elif token == "-" or not token.startswith("-"):
            loose.append(token)
        elif takes_value.get(name) and not value:
            options += name, _check_value(name, "" if equals else _next_value(name, rest), takes_value[name])
        else:
            options.append(name + equals + value)
    remaining = iter(loose)
    places: list[list[str]] = []
    for position, name in zip(positions, names, strict=True):
        given = by_name.get(name, [])
        room = None if position.nargs < 0 else 0 if given else 1
        places.append(
            [
                _check_value(position.metavar or position.name.upper(), value, position.help or "text")
                for value in (*given, *islice(remaining, room))
            ]
        )
    complete = list(takewhile(bool, places))  # the parser names the first argument that is missing
    placed = [value for values in complete for value in values]
    return [*options, "--", *placed, *(remaining if len(complete) == len(places) else ())]


def _check_value(name: str, value: str, description: str) -> str:
    if not value:
        raise UsageError(f"{name} is empty: give a value ({first_clause(description)})")
    return value


def _next_value(option: str, rest: Iterator[str]) -> str:
    value = next(rest, "--")
    if value.startswith("--"):
        raise UsageError(f"{option} has no value: give one after it")
    return value
