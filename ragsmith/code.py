"""Fingerprints of code: what a result depends on besides its inputs.

A module's fingerprint covers its own statements and, transitively, those of every module it imports from this package
or from its own, so a change in `fusion` is a change in each technique that fuses. Comments, docstrings and formatting
do not count; constants such as prompts do.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from functools import cache
from pathlib import Path

from ragsmith.errors import UsageError

DECLARATIVE = frozenset(
    {
        "ragsmith",
        "ragsmith.errors",
        "ragsmith.techniques.families",
        "ragsmith.techniques.registry",
        "ragsmith.models.registry",
        "ragsmith.measures.registry",
        "ragsmith.plugins",
        "ragsmith.code",
    }
)
"""Modules that declare, and cannot change what a technique returns."""


@cache
def fingerprint(module: str) -> str:
    """Digest of ``module`` and of all ragsmith modules it builds on, 16 hex digits."""
    state = hashlib.blake2b(digest_size=8)
    for name in sorted(closure(module)):
        state.update(f"{name}\0{_statements(name)[0]}\0".encode())
    return state.hexdigest()


@cache
def closure(module: str) -> frozenset[str]:
    """``module`` and every module of ours or its own that it imports, directly or not, without the declarative ones."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name not in seen and name not in DECLARATIVE:
            seen.add(name)
            waiting.extend(_statements(name)[1])
    return frozenset(seen)


@cache
def _statements(module: str) -> tuple[str, frozenset[str]]:
    """Normal form of a module's code, and the modules of this package or its own that it imports."""
    tree = ast.parse(_source(module))
    imports: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            source = _imported_from(node, module)
            imports.update([source, *(f"{source}.{alias.name}" for alias in node.names)])
        elif isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        if isinstance(node, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    ours = {"ragsmith", module.split(".", maxsplit=1)[0]}
    return ast.unparse(tree), frozenset(n for n in imports if n.split(".")[0] in ours and _is_module(n))


def _imported_from(node: ast.ImportFrom, module: str) -> str:
    if not node.level:
        return node.module or ""
    spec = importlib.util.find_spec(module)
    package = module if spec and spec.submodule_search_locations is not None else module.rpartition(".")[0]
    return importlib.util.resolve_name("." * node.level + (node.module or ""), package)


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:  # ``name`` is an attribute of a module, not a submodule
        return False


def _source(module: str) -> str:
    if module == "__main__":
        raise UsageError("a technique in the script that is run cannot be fingerprinted: put it in a module of its own")
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"no source for {module}")
    return Path(spec.origin).read_text(encoding="utf-8")
