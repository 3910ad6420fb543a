"""Messages for the usage errors that Typer raises, in the form of the other messages.

Typer does not export its errors, and their wording differs between versions: they are distinguished by the names of
their classes and by their attributes.
"""

import re
from collections.abc import Sequence
from typing import Any

from ragsmith.argument_types import first_clause
from ragsmith.text.files import shorten
from ragsmith.text.suggest import find_nearest_name

EXTRA_ARGUMENT = re.compile(r"unexpected extra argument\S* \((.+)\)", re.DOTALL)
UNKNOWN_COMMAND = re.compile(r"No such command (['\"])(.+?)\1", re.DOTALL)

EXPECTED_VALUES = {"int": "a whole number", "integer": "a whole number", "float": "a number"}
"""Descriptions of the expected value of a parameter, by its type name in newer and older versions of Typer."""


def usage_message(error: Any, arguments: Sequence[str]) -> str:
    """Return the message for an ``error`` that Typer raised for ``arguments``: what is wrong, where, and what to do."""
    context: Any = getattr(error, "ctx", None)
    command = context.command_path if context else "ragsmith"
    match type(error).__name__:
        case "NoSuchOption":
            # the parser reads `-preset` as `-p reset`
            option = next((one for one in arguments if one.startswith(error.option_name)), error.option_name)
            option = option.partition("=")[0]
            return f"{command} has no option {shorten(option)}: {_suggest_option(option, context, command)}"
        case "MissingParameter":
            return f"{command} needs {_parameter_name(error.param)}: {_help_clause(error.param)}"
        case "BadParameter":
            number, value = _describe_number(error.param), _last_value(arguments, getattr(error.param, "opts", ()))
            if number and value is not None:
                meant = f" ({first_clause(error.param.help)})" if error.param.help else ""
                return f"{_parameter_name(error.param)} is {shorten(value)}: give {number}{meant}"
        case "BadOptionUsage":
            if "not take a value" in error.message:
                return f"{error.option_name} is a switch and takes no value: leave out = and the text after it"
            return f"{error.option_name} has no value: give one after it"
    return _describe_extra(error, context, command)


def _describe_extra(error: Any, context: Any, command: str) -> str:
    """Return the message for an unknown command or an extra argument; else the message of Typer."""
    if extra := EXTRA_ARGUMENT.search(error.message):
        hint = "put several words in quotation marks; " if " " in extra[1] else ""
        names = [_parameter_name(one) for one in context.command.params if one.param_type_name == "argument"]
        taken = f"takes {' and '.join(names) or 'no arguments'}, and not {shorten(extra[1])} as well"
        return f"{command} {taken}: {hint}`{command} -h` lists its options"
    if unknown := UNKNOWN_COMMAND.search(error.message):
        commands = getattr(context.command, "commands", {})
        inner = (f"{name} {unknown[2]}" for name in commands if unknown[2] in getattr(commands[name], "commands", {}))
        near = next(inner, None) or find_nearest_name(unknown[2], sorted(commands))
        do = f"did you mean {near}?" if near else f"it has {', '.join(sorted(commands))}"
        return f"{command} has no command {shorten(unknown[2])}: {do}"
    return " ".join(error.format_message().split()).removesuffix(".")


def _suggest_option(option: str, context: Any, command: str) -> str:
    """Return a hint: the most similar option, or the command that lists them."""
    parameters = context.command.get_params(context)
    named = (name for one in parameters for name in (*one.opts, *one.secondary_opts))
    # common dashes would raise all similarities; arguments have none
    known = {name.lstrip("-"): name if name.startswith("-") else f"--{name}" for name in named}
    near = find_nearest_name(option.lstrip("-"), known)
    return f"did you mean {known[near]}?" if near else f"`{command} -h` lists its options"


def _parameter_name(parameter: Any) -> str:
    """Return the name of a parameter in the help."""
    is_option = parameter.param_type_name == "option"
    return str(parameter.opts[0] if is_option else parameter.metavar or parameter.name.upper())


def _help_clause(parameter: Any) -> str:
    """Return the help of a parameter as the end of a sentence."""
    text = str(parameter.help).removesuffix(".")
    return text[:1].lower() + text[1:]


def _describe_number(parameter: Any) -> str:
    """Return the kind and range of the number that a parameter expects, or "" for another type."""
    described, declared = getattr(parameter, "type_descriptor", None), getattr(parameter, "type", None)
    name = getattr(described.annotation, "__name__", "") if described else getattr(declared, "name", "")
    low, high = (getattr(described.parameter_info if described else declared, end, None) for end in ("min", "max"))
    within = "" if low is None else f" of at least {low}" if high is None else f" from {low} to {high}"
    return f"{EXPECTED_VALUES[name]}{within}" if name in EXPECTED_VALUES else ""


def _last_value(arguments: Sequence[str], names: Sequence[str]) -> str | None:
    """Return the value of the last of the options ``names``, or None if none of them is given."""
    pairs = zip(arguments, [*arguments[1:], ""], strict=True)
    parts = ((*argument.partition("="), following) for argument, following in pairs)
    given = [value if equals else following for option, equals, value, following in parts if option in names]
    return given[-1] if given else None
