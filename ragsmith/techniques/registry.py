"""How a function becomes a technique. Everything known about one is read from its own file."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

from ragsmith.digest import fingerprint
from ragsmith.errors import SpaceError
from ragsmith.index.entity_graph import EntityGraph
from ragsmith.models.protocols import CrossEncoder, Embedder, LanguageModel
from ragsmith.plugins import load_plugins, tools_of
from ragsmith.text.suggest import did_you_mean
from ragsmith.types import Fitted, Gold

F = TypeVar("F", bound=Callable[..., Any])
Parameter = str | int | float | bool

TOOLS: Mapping[Any, str] = {
    LanguageModel: "language_model",
    Embedder: "embedder",
    CrossEncoder: "cross_encoder",
    EntityGraph: "entity_graph",
    Fitted: "fitted",
    Gold: "gold",
}
"""Argument types that a technique is handed, and the kind of tool they stand for."""


@dataclass(frozen=True)
class Fitting:
    """How a technique learns plain numbers from calibration questions.

    ``observe`` is called once for each of them with what the technique reads, with ``gold``, and with those tools and
    parameters of the technique that its signature names; it returns what matters as plain JSON. ``solve`` is given all
    observations, in the order of the questions, and the parameters its signature names; it returns the numbers, by
    name, that the technique then finds in ``fitted.numbers``.
    """

    observe: Callable[..., Any]
    solve: Callable[..., Mapping[str, Any]]


@dataclass(frozen=True)
class Technique:
    """A registered function, and what its signature says about it.

    ``paper`` links the paper itself (arXiv, DOI, ACL Anthology), or names authors and title where it has no identifier.
    """

    family: str
    fn: Callable[..., Any]
    paper: str
    choices: Mapping[str, tuple[Parameter, ...]] = field(default_factory=dict)
    fitting: Fitting | None = None
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def analysis_only(self) -> bool:
        """Whether it reads the gold labels, so that no pipeline may contain it."""
        return "gold" in self.tools.values()

    @property
    def name(self) -> str:
        """Function name = file name = gene value."""
        return self.fn.__name__

    @property
    def summary(self) -> str:
        """First line of the docstring."""
        return (inspect.getdoc(self.fn) or "").split("\n", 1)[0]

    @cached_property
    def tools(self) -> dict[str, str]:
        """Argument name to kind of tool, in the order of the signature."""
        return tools_of(self.fn, TOOLS)

    @cached_property
    def defaults(self) -> dict[str, Parameter]:
        """Parameters (keyword-only arguments that are not tools) and their defaults."""
        parameters = inspect.signature(self.fn).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in self.tools}

    @cached_property
    def code(self) -> str:
        """Fingerprint of the function and of everything it uses."""
        return fingerprint(self.fn.__module__, self.fn.__name__)

    def resolved(self, given: Mapping[str, Any], where: str = "") -> dict[str, Parameter]:
        """All parameters, defaults applied.

        Raises:
            SpaceError: a name is unknown, or a value has the wrong type or is not among the declared choices.
        """
        place = f"{where}: " if where else ""
        for name, value in given.items():
            if name not in self.defaults:
                raise SpaceError(
                    f"{place}{self.family}.{self.name} has no parameter {name!r}: {did_you_mean(name, self.defaults)}"
                )
            default = self.defaults[name]
            if not _fits(value, default):
                raise SpaceError(
                    f"{place}{self.family}.{self.name}: {name} must be {_kind(default)} like {default!r}, not {value!r}"
                )
            shares = [choice for choice in self.choices.get(name, ()) if isinstance(choice, float)]
            if shares and max(shares) <= 1 and isinstance(value, int | float) and value > 1:
                raise SpaceError(f"{place}{self.family}.{self.name}: {name} must be 1 or less, not {value!r}")
            if not _in_range(value, default):
                least = "at least 1" if isinstance(default, int) else "0 or more"
                raise SpaceError(f"{place}{self.family}.{self.name}: {name} must be {least}, not {value!r}")
            if name in self.choices and isinstance(default, str) and value not in self.choices[name]:
                known = ", ".join(map(repr, self.choices[name]))
                raise SpaceError(f"{place}{self.family}.{self.name}: {name} must be one of {known}, not {value!r}")
        merged = {**self.defaults, **given}
        return {name: float(v) if isinstance(self.defaults[name], float) else v for name, v in merged.items()}


def _fits(value: Any, default: Parameter) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, int | float)
    return isinstance(value, type(default))


def _in_range(value: Any, default: Parameter) -> bool:
    """A count that is 1 or more by default stays so; no weight, share or penalty is negative."""
    if isinstance(value, str | bool) or isinstance(default, str):
        return True
    if isinstance(default, int):
        return default < 1 or value >= 1
    return math.isfinite(value) and (default < 0 or value >= 0)


def _kind(value: Parameter) -> str:
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}[type(value)]


@dataclass(frozen=True)
class Family(Generic[F]):
    """A gene: what its techniques read and write, and the techniques themselves.

    Calling it gives the decorator that registers a technique, typed so that a wrong signature is a type error. ``tier``
    says when it runs: once for a collection, inside `search`, or once for a question.
    """

    name: str
    reads: tuple[str, ...]
    writes: str
    purpose: str
    tier: Literal["collection", "search", "question"] = "question"
    techniques: dict[str, Technique] = field(default_factory=dict)

    def __call__(
        self,
        *,
        paper: str,
        choices: Mapping[str, tuple[Parameter, ...]] | None = None,
        fitting: Fitting | None = None,
        after: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Callable[[F], F]:
        """Register the decorated function.

        ``choices`` lists the values a search should vary a parameter over. ``after`` names, by family, the techniques
        of which one has to come before this one.
        """

        def register(fn: F) -> F:
            if fn.__name__ in self.techniques:
                raise ValueError(f"{self.name}.{fn.__name__} is registered twice")
            self.techniques[fn.__name__] = Technique(self.name, fn, paper, choices or {}, fitting, after or {})
            return fn

        return register

    def __getitem__(self, name: str) -> Technique:
        """The technique called ``name``.

        Raises:
            SpaceError: there is none; the message names the known ones.
        """
        if name in self.techniques:
            return self.techniques[name]
        raise SpaceError(f"no {self.name} technique is called {name!r}: {did_you_mean(name, self.techniques)}")


def load_techniques() -> None:
    """Import every file under ``ragsmith/techniques`` and every installed package that offers techniques."""
    load_plugins("ragsmith.techniques")
