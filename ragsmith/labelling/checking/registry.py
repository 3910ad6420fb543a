"""Registration of functions as gates. All metadata of a gate is in its own file."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from ragsmith.errors import UsageError, WrongOption
from ragsmith.extensions import Extension, Package, Registry
from ragsmith.labelling.checking.finding import GateFinding
from ragsmith.labelling.checking.view import DatasetView

Judge = TypeVar("Judge", bound=Callable[..., GateFinding])


@dataclass(frozen=True, kw_only=True)
class Gate(Extension):
    """Function that judges a data set; ``asks`` is its question, and ``paper`` the source of its limit."""

    asks: str

    @property
    def reasons(self) -> tuple[str, ...]:
        """Paragraphs of the docstring, each on one line; the first states when the gate fails."""
        return tuple(" ".join(part.split()) for part in (inspect.getdoc(self.fn) or "").split("\n\n"))

    def check_options(self, options: Mapping[str, object]) -> None:
        """Raise WrongOption if a name is unknown or a value is invalid."""
        for name, value in options.items():
            if problem := self.problem(name, value):
                raise WrongOption("set", f"cannot be used: {problem}")

    def __call__(self, view: DatasetView, options: Mapping[str, object] | None = None) -> GateFinding:
        """Return the finding about the data set of ``view``.

        Raises:
            UsageError: an option is invalid, or the function returns no `GateFinding`.
        """
        self.check_options(options or {})
        found = self.call(view, **(options or {}))
        if not isinstance(found, GateFinding):
            raise UsageError(f"the gate {self.name} returned {found!r}: return a GateFinding")
        return replace(found, gate=self.name)


GATES: Registry[Gate] = Registry("gate", "ragsmith.labelling.checking.gates", by_name=False)
"""All gates in the order in which they run; those of installed packages and imported files are last."""


def gate(asks: str, *, paper: str = "", package: Package | None = None) -> Callable[[Judge], Judge]:
    """Register the decorated function as a gate under its name; see `Gate`."""
    return GATES.registers(lambda judge: Gate(name=judge.__name__, fn=judge, asks=asks, paper=paper, package=package))
