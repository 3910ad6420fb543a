"""How code from elsewhere joins the program: its file is imported, and its functions say what arguments they take.

The files below a package, what installed packages offer as entry points, and Python files of one's own, given by path.
A process that is started to help another loads the same files of one's own (`LoadedFiles`).
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import marshal
import math
import os
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.machinery import SourceFileLoader
from importlib.metadata import entry_points
from pathlib import Path
from threading import RLock
from types import CodeType, ModuleType
from typing import Annotated, Any, get_type_hints

from ragsmith.caches import bounded_cache
from ragsmith.errors import UsageError


def tools_of(fn: Callable[..., Any], kinds: Mapping[Any, str]) -> dict[str, str]:
    """The arguments of ``fn`` whose type is one of ``kinds``, and the kind of each, in the order of the signature."""
    return {name: kinds[hint] for name, hint in _classes(fn) if hint in kinds}


@bounded_cache(1 << 10, key="a function")
def _classes(fn: Callable[..., Any]) -> tuple[tuple[str, type], ...]:
    """The arguments of ``fn`` whose type is a class: what is fitted is asked for them once a question."""
    hints = get_type_hints(fn)
    named = ((name, hints.get(name)) for name in inspect.signature(fn).parameters)
    return tuple((name, hint) for name, hint in named if inspect.isclass(hint))


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

    It annotates the type, as in ``n: Annotated[int, Range(1, 10)] = 3``.
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


def is_instance_of(kind: type, value: object) -> bool:
    """Whether ``value`` is of one of `KINDS`: a whole number is a number as well, and true or false is neither."""
    return isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)


def expected(kind: type, within: Sequence[Range], value: object) -> str | None:
    """What a value of one of `KINDS` must be, such as "a number from 0 to 1", where ``value`` is not; else None."""
    if is_instance_of(kind, value) and (not isinstance(value, (int, float)) or all(value in one for one in within)):
        return None
    return " ".join([KINDS[kind], *map(str, within)])


Count = Annotated[int, Range(1)]
"""How many of something: 1 or more."""
Share = Annotated[float, Range(0, 1)]
"""A part of a whole, or a weight between two."""
Amount = Annotated[float, Range(0)]
"""How much of something that has no upper end."""


_loaded: dict[Path, ModuleType] = {}
"""The files of one's own that this process has loaded, by absolute path, and their modules."""
_parts: dict[Path, tuple[Path, ...]] = {}
"""Of each file of code that was loaded or imported: itself, and what it imports from next to it, directly or not."""
_as_run: dict[Path, str] = {}
"""A digest of each of these files, as it was when this process ran it."""
_loading = RLock()
"""Held while a file is loaded, so that two threads do not run it twice."""


def load_file(path: str | Path) -> ModuleType:
    """The module that the Python file ``path`` defines; a file is run once in a process.

    What it defines registers itself, as the project's own files do. Its module has a name that does not say where the
    file lies, so that a project can be moved; modules that stand next to it can be imported from it.

    Raises:
        UsageError: there is no such file, it cannot be run, or this process has run another version of it or of a
            module next to it.
    """
    place = Path(path).resolve()
    with _loading:
        try:
            source = place.read_bytes()
        except OSError as error:
            raise UsageError(f"{path} cannot be imported ({error.strerror or error}): give a Python file") from None
        if place not in _loaded:
            name = f"ragsmith_own_{re.sub(r'[^A-Za-z0-9_]', '_', place.stem)}_{_digest(source)}"
            module = imported_file(place)
            if module is None:
                if str(place.parent) not in sys.path:
                    sys.path.append(str(place.parent))  # at the end: it does not stand in for a library
                _look_at(place, place.parent)
                module = sys.modules.get(name) or _run(name, place, source, str(path))
            _loaded[place] = module
        _check(place)
        return _loaded[place]


def imported_file(place: Path) -> ModuleType | None:
    """The module that has been imported from this very file: a second one would register everything twice.

    Raises:
        UsageError: the file, or a module next to it, has changed since.
    """
    others = (module for name, module in list(sys.modules.items()) if name != "__main__")
    module = next((module for module in others if vars(module).get("__file__") == str(place)), None)
    if module is not None:
        with _loading:
            if place not in _parts:
                depth = module.__name__.count(".")
                in_package = place.with_suffix("").parts[-depth - 1 :] == tuple(module.__name__.split("."))
                _look_at(place, place.parents[depth] if in_package else place.parent)
            _check(place)
    return module


def loaded_modules() -> tuple[ModuleType, ...]:
    """The modules of the files that this process has loaded, in the order in which it loaded them."""
    return tuple(_loaded.values())


def file_of(module: str) -> Path | None:
    """The file that was loaded as the module of this name; None for a module that is no file of one's own."""
    return next((path for path, loaded in list(_loaded.items()) if loaded.__name__ == module), None)


def parts_of(place: Path) -> tuple[Path, ...]:
    """A file of one's own that this process has loaded, and what it imports from next to it, directly or not."""
    return _parts[place.resolve()]


def load_files(files: Mapping[Path, Mapping[Path, str]]) -> None:
    """Load ``files``, each given with the digests of its parts; see `load_file`.

    Raises:
        UsageError: a file, or a module next to it, is not as it was in the process that gave them.
    """
    for place, parts in files.items():
        load_file(place)
        for part, digest in parts.items():
            if _as_run.get(part) != digest:
                raise UsageError(_changed(part))


class LoadedFiles:
    """Stands for the files that this process has loaded: a process that unpickles it loads the same code, too."""

    def __reduce__(self) -> tuple[object, ...]:
        for place in _loaded:
            _check(place)
        return load_files, ({place: {part: _as_run[part] for part in _parts[place]} for place in _loaded},)


def _digest(source: bytes) -> str:
    return blake2b(source, digest_size=8).hexdigest()


def _changed(file: Path) -> str:
    return f"{file} has changed since it was imported: start again, so that the new version is used"


def _check(place: Path) -> None:
    """Refuse a file of which any part is not as it was when it was run."""
    for part in _parts[place]:
        if not part.is_file() or _digest(part.read_bytes()) != _as_run[part]:
            raise UsageError(_changed(part))


def _look_at(place: Path, folder: Path) -> None:
    """Note what the file ``place`` consists of, and how each part is; imports begin in ``folder``.

    Raises:
        UsageError: a part has been imported already, from another folder or as an earlier version.
    """
    importlib.invalidate_caches()
    parts, digests = [place], {}
    for part in parts:  # grows on the way
        source = part.read_bytes()
        for name in _imports(source, part.relative_to(folder).parts[:-1]):
            path = folder.joinpath(*name.split("."))
            file = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
            if file and file not in parts and _is_next_to(name, file, place):
                parts.append(file)
        if part not in _as_run and _is_older(part, source):
            raise UsageError(_changed(part))
        digests[part] = _digest(source)
    _as_run.update({part: digest for part, digest in digests.items() if part not in _as_run})
    _parts[place] = tuple(parts)


def _imports(source: bytes, package: tuple[str, ...]) -> set[str]:
    """The dotted names that a file of the package ``package`` may import, with those of the packages around them."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):  # running it raises the error
        return set()
    found: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            around = package[: len(package) + 1 - node.level] if node.level else ()
            whole = ".".join([*around, *([node.module] if node.module else [])])
            found.update([whole, *(f"{whole}.{alias.name}".strip(".") for alias in node.names)])
    own = {name for name in found if name.partition(".")[0] not in {"", "ragsmith", *sys.stdlib_module_names}}
    return own | {name.rsplit(".", up)[0] for name in own for up in range(1, name.count(".") + 1)}


def _is_next_to(name: str, file: Path, place: Path) -> bool:
    """Whether ``name`` means ``file`` when ``place`` imports it, and not for an installed library.

    Raises:
        UsageError: it means a file of other contents in another folder.
    """
    if name in sys.modules:
        origin = getattr(sys.modules[name], "__file__", None)
    else:
        spec = None if "." in name else importlib.util.find_spec(name)
        origin = spec.origin if spec else None
    if origin is None or Path(origin).resolve() == file:
        return True
    if {"site-packages", "dist-packages"} & set(Path(origin).parts):
        return False
    if Path(origin).is_file() and Path(origin).read_bytes() == file.read_bytes():
        return True
    raise UsageError(f"{place} imports {name}, which would be {origin} and not {file}: give one of them another name")


def _is_older(file: Path, source: bytes) -> bool:
    """Whether Python has imported another version of ``file`` than ``source``, as far as that can be seen.

    It is seen by the bytecode that Python keeps of the version that it imported, and by the functions of the module.
    """
    module = next((m for m in list(sys.modules.values()) if vars(m).get("__file__") == str(file)), None)
    spec = module and module.__spec__
    if module is None or spec is None or type(spec.loader) is not SourceFileLoader:
        return False
    try:
        now = compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # it was imported, so that it was another
        return True
    if not sys.dont_write_bytecode and spec.cached and os.access(spec.cached, os.W_OK):
        with suppress(EOFError, TypeError, ValueError):  # bytecode that is damaged says nothing
            if marshal.loads(Path(spec.cached).read_bytes()[16:]) != now:
                return True
    codes = [now]
    for code in codes:  # grows on the way
        codes += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    functions = (value for value in vars(module).values() if inspect.isfunction(value))
    return any(fn.__code__ not in codes for fn in functions if fn.__code__.co_filename == str(file))


def _run(name: str, place: Path, source: bytes, shown: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, place)
    if spec is None or not spec.has_location:
        raise UsageError(f"{shown} cannot be imported: its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        # compiled from what was read: bytecode kept on disk can be older than the file within the same second
        exec(compile(source, place, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        del sys.modules[name]
        _forget(place)
        raise UsageError(
            f"{shown} cannot be imported{line_of(error, place)}: {type(error).__name__}: {error}"
        ) from error
    return module


def _forget(place: Path) -> None:
    """Let a file that could not be run be mended, with the modules next to it that have not been imported."""
    imported = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for part in _parts.pop(place):
        if str(part) not in imported:
            _as_run.pop(part, None)


def line_of(error: BaseException, place: Path) -> str:
    """Where in the file ``place`` it happened, in words."""
    if isinstance(error, SyntaxError) and error.filename == str(place):
        return f" (line {error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(place)]
    return f" (line {lines[-1]})" if lines else ""
