"""How a function in a file joins the program: its file is imported, and its arguments say what each may be."""

from __future__ import annotations

import importlib
import inspect
import math
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from typing import Annotated, Any, get_type_hints


def tools_of(fn: Callable[..., Any], kinds: Mapping[Any, str]) -> dict[str, str]:
    """The arguments of ``fn`` whose type is one of ``kinds``, and the kind of each, in the order of the signature."""
    hints = get_type_hints(fn)
    named = {name: hints.get(name) for name in inspect.signature(fn).parameters}
    return {name: kinds[hint] for name, hint in named.items() if inspect.isclass(hint) and hint in kinds}


@cache
def load_plugins(package: str) -> None:
    """Import every file below ``package``, and what installed packages offer as an entry point of that group."""
    for module in sorted(
        m.name for m in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    ):
        importlib.import_module(module)
    for entry in entry_points(group=package):
        entry.load()


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers that a parameter of a technique, or an option of a model, may be: both ends are included.

    It stands beside the type, as in ``n: Annotated[int, Range(1, 10)] = 3``.
    """

    least: float
    most: float = math.inf

    def __contains__(self, number: float) -> bool:
        return math.isfinite(number) and self.least <= number <= self.most

    def __str__(self) -> str:
        if self.most == math.inf:
            return "that is finite" if self.least == -math.inf else f"from {self.least:g} on"
        return f"from {self.least:g} to {self.most:g}"


Count = Annotated[int, Range(1)]
"""How many of something: 1 or more."""
Share = Annotated[float, Range(0, 1)]
"""A part of a whole, or a weight between two."""
Amount = Annotated[float, Range(0)]
"""How much of something that has no upper end."""
