"""How a function becomes a gate. Everything known about one is read from its own file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar, get_type_hints

from ragsmith.errors import UsageError, WrongOption
from ragsmith.extensions import Package
from ragsmith.labelling.checking.finding import GateFinding
from ragsmith.labelling.checking.view import View
from ragsmith.models.options import Option, option_from_hint
from ragsmith.text.suggest import did_you_mean

Judge = TypeVar("Judge", bound=Callable[..., GateFinding])
OptionValue = str | int | float | bool


@dataclass(frozen=True)
class Gate:
    """A registered function, the question that it ``asks`` of a data set, and what its signature says about it.

    Its keyword-only arguments are its options. ``paper`` names the source of its limit, and ``package`` what has to be
    installed for it.
    """

    name: str
    asks: str
    judge: Callable[..., GateFinding]
    paper: str = ""
    package: Package | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """The paragraphs of the docstring, each on one line; the first says when it fails."""
        return tuple(" ".join(part.split()) for part in (inspect.getdoc(self.judge) or "").split("\n\n"))

    @cached_property
    def defaults(self) -> dict[str, OptionValue]:
        """Options and their defaults."""
        parameters = inspect.signature(self.judge).parameters.values()
        return {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}

    @cached_property
    def options(self) -> dict[str, Option]:
        """Options and what each may be.

        Raises:
            TypeError: an option has no type, or one that an option cannot have.
        """
        hints = get_type_hints(self.judge, include_extras=True)
        return {name: option_from_hint(hints.get(name, object)) for name in self.defaults}

    def resolved(self, given: Mapping[str, object]) -> dict[str, Any]:
        """All options, defaults applied.

        Raises:
            WrongOption: a name is unknown, or a value is none that the option can have.
        """
        for name, value in given.items():
            if name not in self.options:
                raise WrongOption(
                    "set", f"names no option of {self.name}: {name!r}; {did_you_mean(name, self.options)}"
                )
            if problem := self.options[name].problem(f"{self.name}.{name}", value):
                raise WrongOption("set", f"has a wrong value: {problem}")
        return {**self.defaults, **given}

    def __call__(self, view: View, options: Mapping[str, object] | None = None) -> GateFinding:
        """Return the finding about the data set of ``view``.

        Raises:
            UsageError: an option cannot be used, or the function returns no `GateFinding`.
        """
        found = self.judge(view, **self.resolved(options or {}))
        if not isinstance(found, GateFinding):
            raise UsageError(f"the gate {self.name} returned {found!r}: return a Finding")
        return replace(found, gate=self.name)


REGISTERED: dict[str, Gate] = {}
"""Every gate by name, in the order in which their files were imported."""


def gate(asks: str, *, paper: str = "", package: Package | None = None) -> Callable[[Judge], Judge]:
    """Register a function as the gate of its name; see `Gate`.

    Raises:
        ValueError: the name is taken, or an option has no default that it may have.
    """

    def register(judge: Judge) -> Judge:
        made = Gate(judge.__name__, asks, judge, paper, package)
        if made.name in REGISTERED:
            raise ValueError(f"there are two gates {made.name!r}: rename one of them")
        made.resolved(made.defaults)
        REGISTERED[made.name] = made
        return judge

    return register
