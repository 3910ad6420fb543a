"""Arguments of public functions and fields of settings: a value of another type is refused in one sentence."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import ragsmith
from ragsmith.argument_types import accepts, argument_types
from ragsmith.errors import WrongOption


class Odd:
    """A value of a type that no argument has."""

    def __repr__(self) -> str:
        return "<odd>"


FUNCTIONS = {
    **{name: found for name in dir(ragsmith) if inspect.isfunction(found := getattr(ragsmith, name))},
    "Pipeline.load": ragsmith.Pipeline.load,
}
SETTINGS = {
    "GeneticSettings": ragsmith.GeneticSettings,
    "Limits": ragsmith.Limits,
    "RunSettings": ragsmith.RunSettings,
    "ServingLimits": ragsmith.ServingLimits,
    "Traces": ragsmith.Traces,
    "Weights": ragsmith.Weights,
}
CHECKED_APART = {
    ("ask", "filter"),
    ("explain", "filter"),
    ("load_dataset", "name_or_path"),
    ("load_space", "name_or_path"),
}
"""Arguments whose values are checked by their own functions, with more to say."""


def arguments() -> Iterator[tuple[str, str]]:
    """Every argument of every public function, and every field of the settings."""
    for name, target in {**FUNCTIONS, **SETTINGS}.items():
        known = argument_types(getattr(target, "__wrapped__", target))
        yield from ((name, argument) for argument in known if argument != "return")


@pytest.mark.parametrize(("name", "argument"), sorted(set(arguments()) - CHECKED_APART))
def test_a_value_of_another_type_is_refused_in_one_sentence(name: str, argument: str) -> None:
    target: Callable[..., Any] = {**FUNCTIONS, **SETTINGS}[name]
    types = argument_types(getattr(target, "__wrapped__", target))
    required = {
        one.name: "x" if accepts(types[one.name], "x") else ["x"]
        for one in inspect.signature(target).parameters.values()
        if one.default is one.empty and one.kind is one.POSITIONAL_OR_KEYWORD
    }
    with pytest.raises(WrongOption) as refused:
        target(**{**required, argument: Odd()})
    assert str(refused.value).startswith(f"{argument} is <odd>: give ")
