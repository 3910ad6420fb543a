"""Python files of one's own, loaded by path: what they define registers itself as the project's own files do.

A file becomes a module whose name does not say where the file lies, so that a project can be moved. Modules that stand
next to it can be imported from it. A process that is started to help another loads the same files (`LoadedFiles`).
"""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from collections.abc import Iterable
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

from ragsmith.errors import UsageError

_loaded: dict[Path, ModuleType] = {}
"""The modules of the files that this process has loaded, by absolute path."""


def load_file(path: str | Path) -> ModuleType:
    """The module that the Python file ``path`` defines; a file is run once in a process.

    Raises:
        UsageError: there is no such file, it cannot be run, or it has changed since this process ran it.
    """
    place = Path(path).resolve()
    try:
        source = place.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be imported ({error.strerror or error}): give a Python file") from None
    words = re.sub(r"\W", "_", place.stem)
    name = f"ragsmith_own_{words}_{blake2b(source, digest_size=8).hexdigest()}"
    known = _loaded.get(place)
    if known is None:
        known = _loaded[place] = sys.modules.get(name) or _run(name, place, source, str(path))
    if known.__name__ != name:
        raise UsageError(f"{path} has changed since it was imported: start again, so that the new version is used")
    return known


def loaded_files() -> tuple[Path, ...]:
    """The files that this process has loaded, in the order in which it loaded them."""
    return tuple(_loaded)


def file_of(module: str) -> Path | None:
    """The file that was loaded as the module of this name; None for a module that is no file of one's own."""
    return next((path for path, loaded in _loaded.items() if loaded.__name__ == module), None)


def load_files(paths: Iterable[Path]) -> None:
    """Load each of ``paths``; see `load_file`."""
    for path in paths:
        load_file(path)


class LoadedFiles:
    """Stands for the files that this process has loaded: a process that unpickles it loads them, too."""

    def __reduce__(self) -> tuple[object, ...]:
        return load_files, (loaded_files(),)


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
