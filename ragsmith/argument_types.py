"""Types of the arguments of public functions and of the fields of settings: their annotations are checked.

A value of another type would fail later, where nothing tells which argument was wrong.
"""

import builtins
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, wraps
from itertools import chain, repeat
from pathlib import Path
from reprlib import repr as shortened
from types import NoneType, UnionType
from typing import Annotated, Any, ParamSpec, TypeVar, Union, Unpack, get_args, get_origin, get_type_hints

from ragsmith.errors import UsageError, WrongOption
from ragsmith.plugins import KINDS, is_instance_of
from ragsmith.text.suggest import did_you_mean

P = ParamSpec("P")
R = TypeVar("R")

MODELS = "name models by role, as in  models={'language_model': 'openai:MODEL'}"
MODEL_ROLES = frozenset(
    ("llm", "language_model", "embedder", "reranker", "cross_encoder", "controller", "judge", "test_judge")
)
"""Roles of models and names of their flags, which are no arguments: messages say `MODELS`, and no similar name."""

_LISTS = (Sequence, tuple)
_DESCRIPTIONS: Mapping[Any, str] = {
    **KINDS,
    str: "a string",
    Path: "a path",
    Mapping: "a mapping",
    Callable: "a function",
}


class _ModuleNames(dict[str, Any]):
    """The names of a module; those that it imports only for type checkers are looked up in the loaded modules.

    A class that is not loaded has no instances: another class of its name stands for it.
    """

    def __missing__(self, name: str) -> Any:
        loaded = [vars(module) for place, module in list(sys.modules.items()) if place.startswith("ragsmith.")]
        return next((names[name] for names in loaded if name in names), type(name, (), {}))


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Return a public function that first checks the names and types of its arguments.

    Raises:
        UsageError: there is no argument of a name.
        WrongOption: an argument has a value of another type.
    """
    places = [name for name, one in inspect.signature(function).parameters.items() if one.kind <= one.VAR_POSITIONAL]

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        known = argument_types(function)
        for name in kwargs.keys() - known.keys():
            meant = (
                MODELS
                if name in MODEL_ROLES and "models" in known
                else f"give limits by name, as in  limits={{{name.removeprefix('max_')!r}: 5}}"
                if name in ("max_calls", "max_tokens", "max_cost") and "limits" in known
                else did_you_mean(name, known)
            )
            raise UsageError(f"{function.__qualname__} has no argument {name!r}: {meant}")
        check_types(function, [*zip(chain(places, repeat(places[-1])), args, strict=False), *kwargs.items()])
        return function(*args, **kwargs)

    return call


def check_fields(settings: Any) -> None:
    """Check the types of the fields of a dataclass; raise `WrongOption` as `check_types`."""
    check_types(settings.__class__, [(name, getattr(settings, name)) for name in argument_types(settings.__class__)])


def check_types(target: Callable[..., Any], values: Iterable[tuple[str, object]]) -> None:
    """Check values by name against the annotations of a function or class.

    Raises:
        WrongOption: a value has another type.
    """
    for name, value in values:
        if not accepts(wanted := argument_types(target).get(name, Any), value):
            raise WrongOption(name, f"is {shortened(value)}: give {describe(wanted)}")


def read_annotations(target: Any) -> dict[str, Any]:
    """Return the annotations of a function or class by name, also if their types are imported for checkers alone."""
    around = vars(builtins) | vars(sys.modules[target.__module__])
    return get_type_hints(target, localns=_ModuleNames(around), include_extras=True)


@cache
def argument_types(target: Any) -> dict[str, Any]:
    """Return the types of the arguments of a function, or of the fields of a class, by name."""
    found: dict[str, Any] = {}
    for name, hint in read_annotations(target).items():
        found |= argument_types(get_args(hint)[0]) if get_origin(hint) is Unpack else {name: hint}
    return {name: hint for name, hint in found.items() if name != "return"}


def accepts(wanted: Any, value: object) -> bool:
    """Whether a value has an annotated type; the items of a list are checked as well, those of a mapping are not."""
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin in (Union, UnionType):
        return any(accepts(one, value) for one in inner) and (value != "" or Path not in inner)
    if origin is Annotated:
        return accepts(inner[0], value)
    if wanted in KINDS:
        return is_instance_of(wanted, value)
    if origin in _LISTS:
        items = value if isinstance(value, list | tuple) else ()  # reading others may use them up
        is_list = isinstance(value, Iterable) and not isinstance(value, str | bytes | Path | Mapping)
        return is_list and all(accepts(inner[0], item) for item in items)
    kind = origin or wanted
    return kind is Any or isinstance(value, kind) or kind.__name__ in [base.__name__ for base in type(value).__mro__]


def first_clause(text: str) -> str:
    """Return a help up to its first period, colon or semicolon, as a part of a sentence."""
    return text[:1].lower() + re.split(r"[.:;](?: |$)", text[1:])[0]


def describe(wanted: Any) -> str:
    """Describe an annotated type, such as ``a path or an instance of Store``.

    A text in the annotation is the description; the help of an option is added to it.
    """
    origin, inner = get_origin(wanted), get_args(wanted)
    if origin is Annotated:
        helps = [f"{describe(inner[0])} ({first_clause(one.help)})" for one in inner[1:] if hasattr(one, "help")]
        return next((one for one in (*inner[1:], *helps) if isinstance(one, str)), describe(inner[0]))
    if origin in (Union, UnionType):
        left_out = (NoneType, str) if Path in inner else (NoneType,)  # a path may be a string
        *first, last = dict.fromkeys(describe(one) for one in inner if one not in left_out)
        return " or ".join([*filter(None, [", ".join(first)]), last])
    if origin in _LISTS:
        return f"a list, each item {describe(inner[0])}"
    return _DESCRIPTIONS.get(origin or wanted) or f"an instance of {wanted.__name__}"
