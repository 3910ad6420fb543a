"""Digests of values and fingerprints of code: a stored result is stale if either has changed.

Values have one canonical JSON form, which does not depend on the order of keys, the process or the platform. Values
that JSON cannot represent exactly (NaN, bytes, sets, arrays, mutable objects) raise an error. Text is not normalised:
NFC and NFD spellings differ, and so do 1, 1.0 and True.

Code is hashed by statement: the fingerprint of a function covers the statements that it uses by name, directly or not.
"""

import ast
import atexit
import importlib.util
import json
import math
import os
import re
import sys
import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from functools import cache, cached_property
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, packages_distributions, requires, version
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from ragsmith.errors import UsageError

VERSION = 1
"""Version of the canonical form, part of every digest: increasing it invalidates all stored keys."""

MAX_NUMBER = 1e60
"""Maximum absolute value of a stored number, so that sums of fourth powers are floats."""

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
_SCALARS = frozenset({str, int, bool, type(None)})
_SCALARS_AND_FLOATS = _SCALARS | {float}
_CONTAINERS = frozenset({dict, list, tuple})
_TEXT = frozenset({str})
_SLICE_ITEMS = 1 << 14
"""Number of items of a long list that are encoded at a time."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")

_Path = tuple["_Path", int | str] | None
"""Path to a nested value: the path of its parent, and its position or key."""


def to_canonical_json(value: object) -> str:
    """Return ``value`` as JSON with sorted keys, no white space and floats by their shortest exact ``repr``.

    Allowed are None, bool, int, float, str, list and tuple (the same array), mappings with text keys, and frozen
    dataclasses (the object of the fields by which they are compared). A member of a ``StrEnum`` is its text. The result
    can always be encoded as UTF-8: lone surrogates are escaped.

    Raises:
        TypeError: a value has another type; the message has its path.
        ValueError: a number is NaN or infinite, or the value contains itself or is nested too deeply.
    """
    try:
        try:
            text = _ENCODER.encode(value if _is_json_encodable(value) else _to_json_types(value, None))
        except ValueError:  # a number is not finite: encode again, to name its path in the error
            text = _ENCODER.encode(_to_json_types(value, None))
    except RecursionError:
        raise ValueError("value is nested too deeply or contains itself: pass a flatter value") from None
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, as in truncated replies: JSON can represent it, UTF-8 cannot
        return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    return text


def digest(*parts: object) -> str:
    """Return 32 hexadecimal digits (BLAKE2b, 16 bytes) over the version and the canonical form of ``parts``.

    The boundaries between parts count: ``digest("ab", "c") != digest("a", "bc")``.

    Raises:
        TypeError, ValueError: see `to_canonical_json`.
    """
    hashed = blake2b(f"ragsmith/{VERSION}:".encode(), digest_size=16)
    try:
        for text in _iter_canonical_json(parts):
            hashed.update(text.encode())
    except (TypeError, ValueError):
        to_canonical_json(parts)  # raises the same error with the whole path of the value
        raise
    return hashed.hexdigest()


def _iter_canonical_json(parts: tuple[object, ...]) -> Iterator[str]:
    """Yield the pieces of `to_canonical_json`, those of long lists one by one, as their JSON may have gigabytes."""
    opening = "["
    for part in parts:
        if not isinstance(part, list | tuple) or len(part) <= _SLICE_ITEMS:
            yield opening + to_canonical_json(part)
        else:
            for start in range(0, len(part), _SLICE_ITEMS):
                yield (opening + "[" if not start else ",") + to_canonical_json(part[start : start + _SLICE_ITEMS])[
                    1:-1
                ]
            yield "]"
        opening = ","
    yield "]" if parts else "[]"


def _is_json_encodable(value: object) -> bool:
    """Whether the encoder accepts ``value`` as it is: JSON types and text keys only.

    The encoder itself raises an error for numbers that are not finite.
    """
    kind = type(value)
    if kind is dict:
        mapping: Mapping[object, object] = value  # type: ignore[assignment]
        return _TEXT.issuperset(map(type, mapping)) and _are_json_encodable(mapping.values())
    if kind is list or kind is tuple:
        sequence: Collection[object] = value  # type: ignore[assignment]
        return _are_json_encodable(sequence)
    return kind in _SCALARS_AND_FLOATS


def _are_json_encodable(values: Collection[object]) -> bool:
    further = set(map(type, values)) - _SCALARS_AND_FLOATS
    if not further:
        return True
    return further <= _CONTAINERS and all(_is_json_encodable(v) for v in values if type(v) in _CONTAINERS)


def _to_json_types(value: object, path: _Path) -> object:
    """Convert ``value`` to the types of JSON; ``path`` is only needed for errors."""
    kind: type = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, list | tuple):
        return [_to_json_types(item, (path, position)) for position, item in enumerate(value)]
    if isinstance(value, float | str | int):
        return _convert_scalar(value, path)
    if isinstance(value, Mapping):
        return {_check_key(key, path): _to_json_types(item, (path, key)) for key, item in value.items()}
    names = _compared_fields(kind)
    if names is None:
        raise TypeError(
            f"{_format_path(path)} is a {kind.__name__}, which has no canonical JSON form: convert it first"
        )
    return {name: _to_json_types(getattr(value, name), (path, name)) for name in names}


def _convert_scalar(value: float | str, path: _Path) -> float | str:
    """Return a finite float, or the plain value of a subclass of an atom (a ``StrEnum``, a ``numpy.float64``)."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if not math.isfinite(value):
        raise ValueError(f"{_format_path(path)} is {float(value)}: a missing number is None, never NaN or an infinity")
    return float(value)


def _check_key(key: object, path: _Path) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{_format_path(path)} has the key {key!r} of type {type(key).__name__}: use text keys")
    return str.__str__(key)


@cache
def _compared_fields(kind: type) -> tuple[str, ...] | None:
    """Return the names of the compared fields of a frozen dataclass; None for other types."""
    if not is_dataclass(kind) or not kind.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        return None
    return tuple(field.name for field in fields(kind) if field.compare)


def _format_path(path: _Path) -> str:
    """Format a path with positions and keys in brackets, as in ``value[0]['scores']['f1']``."""
    steps: list[str] = []
    while path is not None:
        path, step = path
        steps.append(f"[{step!r}]")
    return "value" + "".join(reversed(steps))


# --- code ------------------------------------------------------------------------------------------------------------

DECLARATIVE_MODULES = frozenset(
    {
        "ragsmith",
        "ragsmith.caches",
        "ragsmith.errors",
        "ragsmith.extensions",
        "ragsmith.digest",
        "ragsmith.mapped",
        "ragsmith.measures.registry",
        "ragsmith.models.registry",
        "ragsmith.models.vector_stores",
        "ragsmith.plugins",
        "ragsmith.strategies.registry",
        "ragsmith.techniques.registry",
    }
)
"""Modules of declarations and errors, which cannot change the result of a function and are not fingerprinted."""

T = TypeVar("T")


def not_fingerprinted(method: T) -> T:
    """Exclude a method of this package that cannot change a stored result, and the code that only it uses.

    See `fingerprint`.
    """
    return method


_MARK = "ragsmith.digest", not_fingerprinted.__name__
_PACKAGE = Path(__file__).resolve().parent
_HOME = _PACKAGE.parent
_REFINEMENT_DEPTH = 3
"""Depth to which uses are followed to distinguish two statements with the same text."""


class _NameUse(NamedTuple):
    """A name in a statement: its ``label`` there, and its referent, ``attribute`` of ``name`` of ``module``.

    ``attribute`` is "" if there is none, ``name`` for a whole module, and ``module`` for that of the statement.
    """

    label: str
    module: str
    name: str
    attribute: str


class _Statement(NamedTuple):
    """A top-level statement of a module: the names that it defines, with "" for side effects, its text and its uses."""

    defines: list[str]
    text: str
    uses: list[_NameUse]


@dataclass(frozen=True, eq=False)
class _Module:
    """A source file with its dotted name, and the folder ``base`` that contains its top-level package."""

    name: str
    path: Path
    base: Path

    @cached_property
    def is_ours(self) -> bool:
        """Whether it belongs to this package; in other code, every statement and text counts."""
        return self.path.is_relative_to(_PACKAGE)

    @property
    def is_declarative(self) -> bool:
        """Whether the module is one of `DECLARATIVE_MODULES`."""
        return self.name in DECLARATIVE_MODULES and self.is_ours

    @cached_property
    def outline(self) -> list[_Statement]:
        """The top-level statements."""
        return _load_outline(self.path, self.is_ours)

    @cached_property
    def places(self) -> dict[str, list[int]]:
        """The positions of the statements by the name that they define; "" for those with side effects."""
        found: dict[str, list[int]] = {}
        for at, statement in enumerate(self.outline):
            for name in statement.defines:
                found.setdefault(name, []).append(at)
        return found

    @cached_property
    def in_order(self) -> frozenset[int]:
        """The positions of the statements whose order counts.

        These have side effects, or define or use a name that is defined more than once. In modules outside this
        package, the order of all statements counts.
        """
        if not self.is_ours:
            return frozenset(range(len(self.outline)))
        changing = {name for name, places in self.places.items() if len(places) > 1} | {""}
        return frozenset(
            at
            for at, statement in enumerate(self.outline)
            if not changing.isdisjoint([*statement.defines, *(use.name for use in statement.uses if not use.module)])
        )

    @cached_property
    def effects(self) -> list[int]:
        """The positions of the statements with side effects."""
        return self.places.get("", [])


DISTRIBUTION_NAMES = {"Stemmer": "PyStemmer", "faiss": "faiss-cpu", "umap": "umap-learn", "yaml": "PyYAML"}
"""The names of distributions whose import name differs."""

_Node = tuple[_Module, int]
"""A statement, as its module and its position there."""


@cache
def fingerprint(module: str, name: str = "") -> str:
    """Return the digest of the statements that determine what ``name`` of ``module`` computes, or the whole module; 16
    hex digits.

    These are the statement that defines it and those it uses by name, directly or not, in whatever file, and
    the versions of the libraries they use. Comments, docstrings, formatting, what is imported for type checkers, the
    names and places of modules, the wording of errors that are raised and methods under `not_fingerprinted` do not
    count; constants such as prompts do,
    and so does the order of statements that do something, or define a name once more.
    Of a module outside this package, with those it imports from next to it or from another folder on Python's path that
    holds no installed libraries, every statement counts in its order, with docstrings and the wording of errors.

    Raises:
        UsageError: the code is in the script that is run, which other processes cannot import.
        ModuleNotFoundError: there is no source of it.
    """
    roots = _find_roots(module, name)
    reached = _find_reachable(roots)
    libraries = {library for node in reached for library in _list_libraries(node)}
    parts = [
        _compute_colour(roots, _REFINEMENT_DEPTH),
        *sorted({_compute_colour(frozenset([node]), _REFINEMENT_DEPTH) for node in reached}),
    ]
    parts += sorted(_hash_ordered_statements(reached))
    _store_outlines(_MIN_NEW_FILES)
    return _hash(parts + [f"{library} {_installed_version(library)}" for library in sorted(libraries)], 8)


def fingerprint_import(module: str, name: str = "") -> str:
    """Return the fingerprint of what is imported: of code of this package or of a user, else library and version."""
    top = module.partition(".")[0]
    if module == _PACKAGE.name and not name:
        return program_digest()
    if top == _PACKAGE.name or _find_on_path(module):
        return fingerprint(module, name)
    return f"{module} {name} {'' if top in sys.stdlib_module_names else _installed_version(top)}"


def list_dependencies(module: str, name: str = "") -> frozenset[str]:
    """Return the modules with a statement that counts in the fingerprint of ``name`` of ``module``."""
    return frozenset(node[0].name for node in _find_reachable(_find_roots(module, name)))


@cache
def program_digest() -> str:
    """Return the digest of every line of this package and of the versions of its requirements; 16 hex digits.

    `fingerprint` covers what may change a result; this covers everything.
    """
    code = (path.read_text(encoding="utf-8") for path in sorted(_PACKAGE.rglob("*.py")))
    needed: list[str] = []
    with suppress(PackageNotFoundError):  # used without installation
        needed = [line for line in requires("ragsmith") or () if "extra ==" not in line]
    names = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in needed]
    return _hash([*code, sys.version, *(f"{name} {_installed_version(name)}" for name in sorted(names))], 8)


def _hash(parts: Iterable[str], size: int = 16) -> str:
    return blake2b("\0".join(parts).encode(), digest_size=size).hexdigest()


def _find_roots(module: str, name: str) -> frozenset[_Node]:
    if module == "__main__":
        raise UsageError(
            "a technique in the script that is run cannot be fingerprinted: put it in a module of its own, and import "
            'that or pass it as  imports=["FILE.py"]; in a notebook, a cell may define it'
        )
    found = _find_module(module)
    if found is None:
        raise ModuleNotFoundError(f"no source for {module}")
    return _find_definitions(found, name)


@cache
def _find_module(name: str) -> _Module | None:
    """Return a module by its dotted name; modules of this package are found without an import."""
    if name.partition(".")[0] == "ragsmith":
        return _find_in_folder(_HOME, name)
    origin = getattr(sys.modules.get(name), "__file__", None)
    if origin is None:
        spec = importlib.util.find_spec(name)
        origin = spec.origin if spec and spec.has_location else None
    if origin is None:
        return None
    path = Path(origin)
    whole = path.parent if path.stem == "__init__" else path.with_suffix("")
    depth = name.count(".") + 1
    if ".".join(whole.parts[-depth:]) == name:
        return _Module(name, path, whole.parents[depth - 1])
    return _Module(path.stem, path, path.parent)


@cache
def _find_in_folder(base: Path, name: str) -> _Module | None:
    """Return the module ``name``, whose first part is in the folder ``base``."""
    place = base.joinpath(*name.split("."))
    files = (place.with_name(f"{place.name}.py"), place / "__init__.py")
    return next((_Module(name, path, base) for path in files if path.is_file()), None)


@cache
def _resolve_import(name: str, by: _Module) -> _Module | None:
    """Return the module that ``by`` imports as ``name``; None for a library, which counts by its version."""
    if name.startswith("."):
        package = by.name if by.path.stem == "__init__" else by.name.rpartition(".")[0]
        name = importlib.util.resolve_name(name, package or by.name)
    top = name.partition(".")[0]
    if top == "ragsmith":
        return _find_in_folder(_HOME, name)
    if _is_installed(by.base):
        return _find_in_folder(by.base, name) if top == by.name.partition(".")[0] else None
    return _find_in_folder(by.base, name) or (None if by.is_ours else _find_on_path(name))


def _is_installed(folder: Path) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(folder.parts)


def _find_on_path(name: str) -> _Module | None:
    """Return the module ``name`` in a folder of the user on Python's path; None for a library."""
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return None
    spec = None
    with suppress(ValueError):  # a module without a spec
        spec = importlib.util.find_spec(top)
    if spec is None or not (spec.has_location or spec.submodule_search_locations):
        return None
    folders = [Path(place).parent for place in spec.submodule_search_locations or [str(spec.origin)]]
    found = (_find_in_folder(folder, name) for folder in folders if not _is_installed(folder))
    return next((module for module in found if module is not None), None)


@cache
def _find_definitions(module: _Module, name: str) -> frozenset[_Node]:
    """Return the statements that define ``name``; all statements of the module if there are none."""
    if module.is_declarative:
        return frozenset()
    found = name and module.is_ours and module.places.get(name)
    return frozenset((module, at) for at in found or range(len(module.outline)))


@cache
def _resolve_uses(node: _Node) -> tuple[tuple[str, frozenset[_Node]], ...]:
    """Return the names that a statement uses: their labels, and the statements that define them."""
    by = node[0]
    found = []
    for use in _get_statement(node).uses:
        if not use.module:
            found.append((use.label, _find_definitions(by, use.name)))
        elif submodule := use.name and _resolve_import(_join_module_name(use.module, use.name), by):
            found.append((f"{use.label}.{use.attribute}", _find_definitions(submodule, use.attribute)))
        elif module := _resolve_import(use.module, by):
            found.append((use.label, _find_definitions(module, use.name or use.attribute)))
        else:
            found.append((f"{use.label} {use.module} {use.name}", frozenset()))
    return tuple(found)


def _list_libraries(node: _Node) -> set[str]:
    """Return the installed packages that a statement uses."""
    modules = {
        use.module for use in _get_statement(node).uses if use.module and not _resolve_import(use.module, node[0])
    }
    return {module.partition(".")[0] for module in modules} - sys.stdlib_module_names


def _join_module_name(module: str, name: str) -> str:
    return f"{module}{name}" if module.endswith(".") else f"{module}.{name}"


@cache
def _installed_version(library: str) -> str:
    """Return the version of the package imported as ``library``; "" if it is not installed."""
    with suppress(PackageNotFoundError):
        return version(DISTRIBUTION_NAMES.get(library, library))
    if importlib.util.find_spec(library) is None:
        return ""
    return " ".join(
        version(name) for name in packages_distributions().get(library, ())
    )  # takes 0.3 s, so it is the last resort


def _get_statement(node: _Node) -> _Statement:
    return node[0].outline[node[1]]


def _find_reachable(roots: Iterable[_Node]) -> set[_Node]:
    """Return ``roots``, the statements that they use, and the effects of importing their modules."""
    seen: set[_Node] = set()
    waiting = list(roots)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen.add(node)
            waiting.extend(_find_side_effects(node[0]))
            waiting.extend(target for _, targets in _resolve_uses(node) for target in targets)
    return seen


@cache
def _find_side_effects(module: _Module) -> frozenset[_Node]:
    """Return the statements of ``module`` and its imports that do something besides defining names."""
    seen = {module}
    waiting = [module]
    while waiting:
        new = _list_imports(waiting.pop()) - seen
        seen |= new
        waiting.extend(new)
    return frozenset((by, at) for by in seen for at in by.effects)


@cache
def _list_imports(module: _Module) -> frozenset[_Module]:
    """Return the modules that ``module`` imports at its top level."""
    uses = [use for statement in module.outline if not statement.text for use in statement.uses]
    names = {name for use in uses for name in (_join_module_name(use.module, use.name), use.module)}
    found = {_resolve_import(name, module) for name in names}
    return frozenset(other for other in found if other is not None and not other.is_declarative)


def _hash_ordered_statements(nodes: Iterable[_Node]) -> Iterable[str]:
    """Yield for each module a digest of the statements among ``nodes`` whose order counts."""
    ordered: dict[_Module, list[int]] = {}
    for module, at in nodes:
        if at in module.in_order:
            ordered.setdefault(module, []).append(at)
    for module, places in ordered.items():
        yield _hash(_compute_colour(frozenset([(module, at)]), _REFINEMENT_DEPTH) for at in sorted(places))


@cache
def _compute_colour(nodes: frozenset[_Node], deep: int) -> str:
    """Return a digest of statements and of the statements that they use, to a depth of ``deep`` uses."""
    colours = []
    for node in nodes:
        uses = (
            sorted(f"{label}={_compute_colour(targets, deep - 1)}" for label, targets in _resolve_uses(node))
            if deep
            else []
        )
        colours.append(_hash([_get_statement(node).text, *uses]))
    return _hash(sorted(colours))


# --- code, statement by statement ------------------------------------------------------------------------------------


def _parse_statements(source: str, is_ours: bool) -> list[_Statement]:
    """Return the statements of a module in normal form; docstrings and messages count if it is not ours."""
    body = [statement for block in ast.parse(source).body for statement in _runtime_statements(block)]
    imports: dict[str, tuple[str, str]] = {}
    own: set[str] = set()
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports.update((bound, (module, name)) for bound, module, name in _list_bindings(node))
        else:
            own.update(name for name in _list_defined_names(node) if name)
    keeps_docstrings = not is_ours or "__doc__" in source or "getdoc" in source
    statements = []
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            statements += [
                _Statement([bound], "", [_NameUse("", module, name, "")])
                for bound, module, name in _list_bindings(node)
            ]
            continue
        names = _list_defined_names(node)
        reader = _StatementReader(imports, own, keeps_docstrings, keeps_messages=not is_ours)
        read = reader.visit(node)
        if read is not None:
            statements.append(_Statement(names, ast.unparse(read), list(reader.uses)))
    return statements


def _runtime_statements(node: ast.stmt) -> list[ast.stmt]:
    """Return ``node``, or the executed statements of a block for type checkers."""
    if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
        return [inner for statement in node.orelse for inner in _runtime_statements(statement)]
    return [node]


def _list_bindings(node: ast.Import | ast.ImportFrom) -> Iterable[tuple[str, str, str]]:
    """Yield each name that an import binds, the module, and the name there; "" for ``*`` and for a whole module."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield alias.asname or ("" if "." in alias.name else alias.name), alias.name, ""
        elif node.module != "__future__":
            module = "." * node.level + (node.module or "")
            yield ("", module, "") if alias.name == "*" else (alias.asname or alias.name, module, alias.name)


def _list_defined_names(node: ast.stmt) -> list[str]:
    """Return the names that a statement defines, and "" if it does anything else."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    found = [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    if targets and all(isinstance(target, ast.Name | ast.Tuple) for target in targets):
        return found
    for inner in ast.walk(node):
        if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.append(inner.name)
        elif isinstance(inner, ast.Import | ast.ImportFrom):
            found.extend(bound for bound, _, _ in _list_bindings(inner))
    return ["", *found]


class _StatementReader(ast.NodeTransformer):
    """Normalise a statement and record the names that it uses; imported names are numbered in its text."""

    def __init__(
        self,
        imports: Mapping[str, tuple[str, str]],
        own: Container[str],
        keeps_docstrings: bool,
        *,
        keeps_messages: bool,
    ) -> None:
        self.uses: dict[_NameUse, None] = {}
        self._imports = dict(imports)
        self._own = own
        self._keeps_docstrings = keeps_docstrings
        self._keeps_messages = keeps_messages
        self._labels: dict[str, str] = {}

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if getattr(node, "body", None) == []:
            node.body = [ast.Pass()]  # type: ignore[attr-defined]
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        if not self._keeps_messages:
            node.body = [statement for statement in node.body if not self._is_marked(statement)]
        return self.generic_visit(node)

    def _is_marked(self, node: ast.stmt) -> bool:
        """Whether ``node`` is a method marked by `not_fingerprinted`."""
        return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
            isinstance(decorator, ast.Name) and self._imports.get(decorator.id) == _MARK
            for decorator in node.decorator_list
        )

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        is_docstring = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if is_docstring and not self._keeps_docstrings else self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.AST]:
        executed = _runtime_statements(node)
        if executed == [node]:
            return self.generic_visit(node)
        return [read for inner in executed if (read := self.visit(inner)) is not None]

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> ast.Expr:
        label = f"<import {len(self.uses)}>"  # in the text, so that swapping two imports is a change
        for bound, module, name in _list_bindings(node):
            self._imports[bound] = module, name
            self.uses[_NameUse(label, module, name, "")] = None
        return ast.Expr(ast.Name(label, ast.Load()))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.Expr:
        return self.visit_Import(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call) and not self._keeps_messages:
            _MessageRemover().visit(node.exc)
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        if not isinstance(node.value, ast.Name):
            return self.generic_visit(node)
        node.value = self._read(node.value, node.attr)
        return node

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return self._read(node, "")

    def _read(self, node: ast.Name, attribute: str) -> ast.Name:
        if node.id in self._own:
            self.uses[_NameUse(node.id, "", node.id, "")] = None
        if node.id not in self._imports:
            return node
        label = self._labels.setdefault(node.id, f"<{len(self._labels)}>")
        self.uses[_NameUse(label, *self._imports[node.id], attribute)] = None
        return ast.Name(label, node.ctx)


class _MessageRemover(ast.NodeTransformer):
    """Remove the text from the arguments of an error."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant("") if isinstance(node.value, str) else node

    def visit_JoinedStr(self, _: ast.JoinedStr) -> ast.Constant:
        return ast.Constant("")


# --- code, stored between processes ----------------------------------------------------------------------------------

_MIN_NEW_FILES = 16
"""Minimum number of new files that are stored immediately; fewer are stored when the process ends."""
_EXPIRY_SECONDS = 30 * 24 * 3600
"""Age of a file of outlines that is deleted, of a removed installation or a killed process."""
_RECENT_NS = 2_000_000_000
"""A file changed within the last two seconds may change again with the same time: it is not stored."""

_StoredOutlines = dict[str, Any]
"""By path: the state of the file (mtime and ctime in ns, inode, size in bytes), and its statements.

The ctime is included, as tools can set the mtime.
"""

_unsaved_outlines: _StoredOutlines = {}


@cache
def _load_outline(path: Path, is_ours: bool) -> list[_Statement]:
    """Return the statements of a file, parsed only if it has changed since they were stored."""
    now = path.stat()
    state = [now.st_mtime_ns, now.st_ctime_ns, now.st_ino, now.st_size]
    known, statements = _stored_outlines().get(str(path), (None, ()))
    if known == state:
        return [_Statement(defines, text, [_NameUse(*use) for use in uses]) for defines, text, uses in statements]
    read = _parse_statements(path.read_text(encoding="utf-8"), is_ours)
    hashed = [statement._replace(text=statement.text and _hash([statement.text])) for statement in read]
    if time.time_ns() - now.st_mtime_ns > _RECENT_NS:
        _unsaved_outlines[str(path)] = state, hashed
    return hashed


def _outline_path() -> Path:
    """Return the file of outlines of this installation."""
    from platformdirs import user_cache_path  # noqa: PLC0415  only needed for fingerprints

    name = f"code.{sys.implementation.cache_tag}.{_hash([str(_PACKAGE)], 4)}.json"
    return user_cache_path("ragsmith", appauthor=False) / name


@cache
def _parser_digest() -> str:
    """Return the digest of this file, as other versions may parse code differently."""
    return _hash([Path(__file__).read_text(encoding="utf-8")])


def _read_outlines() -> _StoredOutlines:
    """Return the stored outlines; none if the file is damaged or cannot be read."""
    with suppress(OSError, RuntimeError, ValueError):
        checksum, _, text = _outline_path().read_text(encoding="utf-8").partition("\n")
        if checksum == _hash([_parser_digest(), text]):
            found: _StoredOutlines = json.loads(text)
            return found
    return {}


_stored_outlines = cache(_read_outlines)


def _store_outlines(at_least: int = 1) -> None:
    """Store the outlines parsed by this process atomically, if they are of ``at_least`` that many files."""
    if len(_unsaved_outlines) < at_least:
        return
    known = {path: entry for path, entry in {**_read_outlines(), **_unsaved_outlines}.items() if Path(path).is_file()}
    _unsaved_outlines.clear()
    text = json.dumps(known, separators=(",", ":"))
    with suppress(OSError, RuntimeError):
        place = _outline_path()
        place.parent.mkdir(parents=True, exist_ok=True)
        draft = place.with_name(f"{place.name}.{os.getpid()}")
        draft.write_text(f"{_hash([_parser_digest(), text])}\n{text}", encoding="utf-8")
        draft.replace(place)
        for other in place.parent.glob("code.*"):
            if time.time() - other.stat().st_mtime > _EXPIRY_SECONDS:
                other.unlink()


atexit.register(_store_outlines)
