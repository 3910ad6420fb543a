"""How code from elsewhere joins the program: its file is imported, and its functions say what arguments they take.

The files below a package, what installed packages offer as entry points, and Python files of one's own, given by path.
A process that is started to help another loads the same files of one's own (`LoadedFiles`).
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import math
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, get_type_hints

from ragsmith.errors import UsageError


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


KINDS: Mapping[type, str] = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}
"""The plain types that a parameter of a technique, or an option of a model, may have, in words."""


def is_of(kind: type, value: object) -> bool:
    """Whether ``value`` is of one of `KINDS`: a whole number is a number as well, and true or false is neither."""
    return isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)


Count = Annotated[int, Range(1)]
"""How many of something: 1 or more."""
Share = Annotated[float, Range(0, 1)]
"""A part of a whole, or a weight between two."""
Amount = Annotated[float, Range(0)]
"""How much of something that has no upper end."""


_loaded: dict[Path, tuple[str, ModuleType]] = {}
"""The files of one's own that this process has loaded, by absolute path: a digest of each, and its module."""


def load_file(path: str | Path) -> ModuleType:
    """The module that the Python file ``path`` defines; a file is run once in a process.

    What it defines registers itself, as the project's own files do. Its module has a name that does not say where the
    file lies, so that a project can be moved; modules that stand next to it can be imported from it.

    Raises:
        UsageError: there is no such file, it cannot be run, or it has changed since this process ran it.
    """
    place = Path(path).resolve()
    try:
        source = place.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be imported ({error.strerror or error}): give a Python file") from None
    content = blake2b(source, digest_size=8).hexdigest()
    if place not in _loaded:
        name = f"ragsmith_own_{re.sub(r'[^A-Za-z0-9_]', '_', place.stem)}_{content}"
        _loaded[place] = content, _imported(place) or sys.modules.get(name) or _run(name, place, source, str(path))
    known, module = _loaded[place]
    if known != content:
        raise UsageError(f"{path} has changed since it was imported: start again, so that the new version is used")
    return module


def loaded_files() -> tuple[Path, ...]:
    """The files that this process has loaded, in the order in which it loaded them."""
    return tuple(_loaded)


def loaded_modules() -> tuple[ModuleType, ...]:
    """The modules of these files, as they were when they were loaded."""
    return tuple(module for _, module in _loaded.values())


def file_of(module: str) -> Path | None:
    """The file that was loaded as the module of this name; None for a module that is no file of one's own."""
    return next((path for path, (_, loaded) in _loaded.items() if loaded.__name__ == module), None)


def load_files(paths: Iterable[Path]) -> None:
    """Load each of ``paths``; see `load_file`."""
    for path in paths:
        load_file(path)


class LoadedFiles:
    """Stands for the files that this process has loaded: a process that unpickles it loads them, too."""

    def __reduce__(self) -> tuple[object, ...]:
        return load_files, (loaded_files(),)


def _imported(place: Path) -> ModuleType | None:
    """The module that a script has imported from this very file: a second one would register everything twice."""
    others = (module for name, module in list(sys.modules.items()) if name != "__main__")
    return next((module for module in others if vars(module).get("__file__") == str(place)), None)


def _run(name: str, place: Path, source: bytes, shown: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or not spec.has_location:
        raise UsageError(f"{shown} cannot be imported: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    folder = str(place.parent)
    if folder not in sys.path:
        sys.path.append(folder)  # at the end: a file next to it does not stand in for a library's
    sys.modules[name] = module
    try:
        # compiled from what was read: bytecode kept on disk can be older than the file within the same second
        exec(compile(source, place, "exec"), module.__dict__)
    except Exception as error:  # a user's file may raise anything
        del sys.modules[name]
        raise UsageError(f"{shown} cannot be imported{_line(error, place)}: {type(error).__name__}: {error}") from error
    return module


def _line(error: Exception, place: Path) -> str:
    """Where in the file ``place`` it happened, in words."""
    if isinstance(error, SyntaxError) and error.filename == str(place):
        return f" (line {error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(place)]
    return f" (line {lines[-1]})" if lines else ""
