"""What Typer finds wrong with a command line, in a sentence like that of any other mistake.

Typer does not export the errors that it raises, and words them as it likes from version to version: they are
distinguished by the names of their classes and by what they hold.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from ragsmith.text.files import shown
from ragsmith.text.suggest import nearest

EXTRA = re.compile(r"unexpected extra argument\S* \((.+)\)", re.DOTALL)
UNKNOWN = re.compile(r"No such command (['\"])(.+?)\1", re.DOTALL)

KINDS = {"int": "a whole number", "integer": "a whole number", "float": "a number"}
"""What to give for a parameter, by the name of its type in newer and in older versions of Typer."""


def sentence(error: Any, arguments: Sequence[str]) -> str:
    """Say what is wrong with the command line ``arguments``, of which Typer raised ``error``: where, and what to do."""
    context: Any = getattr(error, "ctx", None)
    command = context.command_path if context else "ragsmith"
    match type(error).__name__:
        case "NoSuchOption":
            return f"{command} has no option {shown(error.option_name)}: {_near(error.option_name, context, command)}"
        case "MissingParameter":
            return f"{command} needs {_name(error.param)}: {_help(error.param)}"
        case "BadParameter":
            kind, value = KINDS.get(_type(error.param)), _value(arguments, getattr(error.param, "opts", ()))
            if kind and value is not None:
                return f"{_name(error.param)} is {shown(value)}: give {kind}"
        case "BadOptionUsage":
            if "not take a value" in error.message:
                return f"{error.option_name} is a switch and takes no value: leave out = and what comes after it"
            return f"{error.option_name} has no value: give one after it"
    return _too_much(error, context, command)


def _too_much(error: Any, context: Any, command: str) -> str:
    """The sentence about an unknown command or an argument too many; else the message of Typer."""
    if extra := EXTRA.search(error.message):
        return f"{command} does not take {shown(extra[1])}: `{command} -h` says what it takes"
    if unknown := UNKNOWN.search(error.message):
        known = sorted(getattr(context.command, "commands", {}))
        near = nearest(unknown[2], known)
        do = f"did you mean {near}?" if near else f"it has {', '.join(known)}"
        return f"{command} has no command {shown(unknown[2])}: {do}"
    return " ".join(error.format_message().split()).removesuffix(".")


def _near(option: str, context: Any, command: str) -> str:
    """The option that was most likely meant, or where they are listed."""
    known = {name.lstrip("-"): name for name in _options(context)}  # dashes would make all of them alike
    near = nearest(option.lstrip("-"), known)
    return f"did you mean {known[near]}?" if near else f"`{command} -h` lists its options"


def _options(context: Any) -> Iterator[str]:
    for parameter in context.command.get_params(context):
        if parameter.param_type_name == "option":
            yield from (*parameter.opts, *parameter.secondary_opts)


def _name(parameter: Any) -> str:
    """How a parameter is written in the help."""
    if parameter.param_type_name == "option":
        return str(parameter.opts[0])
    return str(parameter.metavar or parameter.name.upper())


def _help(parameter: Any) -> str:
    """What the help says that a parameter is, as the end of a sentence."""
    said = str(parameter.help).removesuffix(".")
    return said[:1].lower() + said[1:]


def _type(parameter: Any) -> str:
    """The name of the type that the value of a parameter has."""
    if described := getattr(parameter, "type_descriptor", None):
        return getattr(described.annotation, "__name__", "")
    return str(getattr(getattr(parameter, "type", None), "name", ""))


def _value(arguments: Sequence[str], names: Sequence[str]) -> str | None:
    """What comes after the last of the options ``names``; None where none of them is written out."""
    given = None
    for argument, following in zip(arguments, [*arguments[1:], ""], strict=True):
        option, equals, value = argument.partition("=")
        if option in names:
            given = value if equals else following
    return given
