"""How a function in a file becomes part of the program: its file is imported, and its arguments say what it needs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any, get_type_hints


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
