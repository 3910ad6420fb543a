"""Import of plugins: modules of a package, entry points of installed packages, and Python files given by path.

The signatures of their functions declare the arguments that they receive. Worker processes load the same user files as
their parent (`LoadedFiles`).
"""

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
from ragsmith.digest import digest
from ragsmith.errors import UsageError


def tools_of(fn: Callable[..., Any], kinds: Mapping[Any, str]) -> dict[str, str]:
    """Return the arguments of ``fn`` whose type is one of ``kinds`` with their kinds, in the order of the signature."""
    return {name: kinds[hint] for name, hint in _classes(fn) if hint in kinds}


@bounded_cache(1 << 10, key="a function")
def _classes(fn: Callable[..., Any]) -> tuple[tuple[str, type], ...]:
    """Return the arguments of ``fn`` whose type is a class; cached, as they are needed for each question."""
    hints = get_type_hints(fn)
    named = ((name, hints.get(name)) for name in inspect.signature(fn).parameters)
    return tuple((name, hint) for name, hint in named if inspect.isclass(hint))


@cache
def load_plugins(package: str) -> None:
    """Import every module of ``package``, and the entry points of that group in installed packages."""
    for module in sorted(
        m.name for m in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}.")
    ):
        importlib.import_module(module)
    for entry in entry_points(group=package):
        entry.load()


@dataclass(frozen=True, slots=True)
class Range:
    """The closed interval of valid values of a parameter of a technique or an option of a model.

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
"""Descriptions of the valid types of parameters of techniques and options of models."""


def is_instance_of(kind: type, value: object) -> bool:
    """Whether ``value`` is of one of `KINDS`: a whole number is a number as well, and true or false is neither."""
    return isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)


def expected(kind: type, within: Sequence[Range], value: object) -> str | None:
    """Return a description of the valid values, such as "a number from 0 to 1", if ``value`` is invalid; else None."""
    if is_instance_of(kind, value) and (not isinstance(value, (int, float)) or all(value in one for one in within)):
        return None
    return " ".join([KINDS[kind], *map(str, within)])


Count = Annotated[int, Range(1)]
"""A count of at least 1."""
Share = Annotated[float, Range(0, 1)]
"""A share or a weight between 0 and 1."""
Amount = Annotated[float, Range(0)]
"""A non-negative number without an upper bound."""


_loaded: dict[Path, ModuleType] = {}
"""The modules of the user files that this process has loaded, by absolute path."""
_parts: dict[Path, tuple[Path, ...]] = {}
"""The files of each loaded user file: itself and the neighbouring modules that it imports, directly or not."""
_executed_digests: dict[Path, str] = {}
"""Digests of these files at the time when this process executed them."""
_loading = RLock()
"""Lock that prevents two threads from executing a file twice."""


def load_file(path: str | Path) -> ModuleType:
    """Load the Python file ``path`` and return its module; a file is executed once per process.

    Its definitions register themselves. The name of its module does not depend on its folder, so that a project can be
    moved. The file can import modules of the same folder.

    Raises:
        UsageError: there is no such file, it cannot be executed, or this process has executed another version of it or
            of a module that it imports.
    """
    place = Path(path).resolve()
    with _loading:
        try:
            source = place.read_bytes()
        except OSError as error:
            raise UsageError(
                f"{path} cannot be imported ({error.strerror or error}): check its name and folder"
            ) from None
        if place not in _loaded:
            name = f"ragsmith_own_{re.sub(r'[^A-Za-z0-9_]', '_', place.stem)}_{_digest(source)}"
            module = imported_file(place)
            if module is None:
                if str(place.parent) not in sys.path:
                    sys.path.append(str(place.parent))  # at the end, so that it does not shadow a library
                _record_parts(place, place.parent)
                module = sys.modules.get(name) or _run(name, place, source, str(path))
            _loaded[place] = module
        _check(place)
        return _loaded[place]


def imported_file(place: Path) -> ModuleType | None:
    """Return the module imported from this file, if any: a second import would register everything twice.

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
                _record_parts(place, place.parents[depth] if in_package else place.parent)
            _check(place)
    return module


def loaded_modules() -> tuple[ModuleType, ...]:
    """Return the modules of the user files that this process has loaded, in order of loading."""
    return tuple(_loaded.values())


def file_of(module: str) -> Path | None:
    """Return the user file loaded as the module of this name; None for other modules."""
    return next((path for path, loaded in list(_loaded.items()) if loaded.__name__ == module), None)


def parts_of(place: Path) -> tuple[Path, ...]:
    """Return a loaded user file and the neighbouring modules that it imports, directly or not."""
    return _parts[place.resolve()]


def version_of(place: Path) -> str:
    """Return the digest of a user file, which is loaded, and of the neighbouring modules that it imports.

    Raises:
        UsageError: as `load_file`.
    """
    load_file(place)
    return digest([part.read_text(encoding="utf-8") for part in parts_of(place)])


def load_files(files: Mapping[Path, Mapping[Path, str]]) -> None:
    """Load ``files``, each with the digests of its parts; see `load_file`.

    Raises:
        UsageError: a part differs from that of the sending process.
    """
    for place, parts in files.items():
        load_file(place)
        for part, expected in parts.items():
            if _executed_digests.get(part) != expected:
                raise UsageError(_changed(part))


class LoadedFiles:
    """A picklable reference to the loaded user files: a process that unpickles it loads the same code."""

    def __reduce__(self) -> tuple[object, ...]:
        for place in _loaded:
            _check(place)
        return load_files, ({place: {part: _executed_digests[part] for part in _parts[place]} for place in _loaded},)


def _digest(source: bytes) -> str:
    return blake2b(source, digest_size=8).hexdigest()


def _changed(file: Path) -> str:
    return f"{file} has changed since it was imported: start again, so that the new version is used"


def _check(place: Path) -> None:
    """Raise UsageError if a part of a file has changed since it was executed."""
    for part in _parts[place]:
        if not part.is_file() or _digest(part.read_bytes()) != _executed_digests[part]:
            raise UsageError(_changed(part))


def _record_parts(place: Path, folder: Path) -> None:
    """Record the parts of the file ``place`` and their digests; imports are relative to ``folder``.

    Raises:
        UsageError: a part was already imported from another folder or in an earlier version.
    """
    importlib.invalidate_caches()
    parts, digests = [place], {}
    for part in parts:  # grows during the loop
        source = part.read_bytes()
        for name in _imports(source, part.relative_to(folder).parts[:-1]):
            path = folder.joinpath(*name.split("."))
            file = next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)
            if file and file not in parts and _is_next_to(name, file, place):
                parts.append(file)
        if part not in _executed_digests and _is_older(part, source):
            raise UsageError(_changed(part))
        digests[part] = _digest(source)
    _executed_digests.update({part: digest for part, digest in digests.items() if part not in _executed_digests})
    _parts[place] = tuple(parts)


def _imports(source: bytes, package: tuple[str, ...]) -> set[str]:
    """Return the dotted names that a file of ``package`` may import, with the names of their parent packages."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError):  # executing it raises the error
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
    """Whether ``name`` refers to ``file`` when ``place`` imports it, and not to an installed library.

    Raises:
        UsageError: it refers to a different file in another folder.
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
    """Whether Python has imported another version of ``file`` than ``source``, as far as that can be detected.

    The cached bytecode and the functions of the module are compared with ``source``.
    """
    module = next((m for m in list(sys.modules.values()) if vars(m).get("__file__") == str(file)), None)
    spec = module and module.__spec__
    if module is None or spec is None or type(spec.loader) is not SourceFileLoader:
        return False
    try:
        now = compile(source, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):  # it was imported, so it was another version
        return True
    if not sys.dont_write_bytecode and spec.cached and os.access(spec.cached, os.W_OK):
        with suppress(EOFError, TypeError, ValueError):  # damaged bytecode is ignored
            if marshal.loads(Path(spec.cached).read_bytes()[16:]) != now:
                return True
    codes = [now]
    for code in codes:  # grows during the loop
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
        # compiled from the source: cached bytecode can be older than the file within the same second
        exec(compile(source, place, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:  # a user's file may raise anything
        del sys.modules[name]
        _forget(place)
        raise UsageError(
            f"{shown} cannot be imported{line_of(error, place)}: {type(error).__name__}: "
            f"{getattr(error, 'msg', error)}; mend it"
        ) from error
    return module


def _forget(place: Path) -> None:
    """Remove the record of a file that could not be executed, and of its parts that were not imported."""
    imported = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    for part in _parts.pop(place):
        if str(part) not in imported:
            _executed_digests.pop(part, None)


def line_of(error: BaseException, place: Path) -> str:
    """Return the line of ``error`` in the file ``place`` as text."""
    if isinstance(error, SyntaxError) and error.filename == str(place):
        return f" (line {error.lineno})"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(place)]
    return f" (line {lines[-1]})" if lines else ""
