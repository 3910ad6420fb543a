"""`docs/caches.md` lists every cache in memory, as the code declares it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import ragsmith

PACKAGE = Path(ragsmith.__file__).parent
PAGE = PACKAGE.parent / "docs" / "caches.md"


def declarations() -> Iterator[tuple[str, str, int, str]]:
    """Module, cached function or emptying method, bound and key of every declaration in the package."""
    for path in sorted(PACKAGE.rglob("*.py"), key=str):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        module = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        constants = {
            target.id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        functions = {
            id(decorator): node.name
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef)
            for decorator in node.decorator_list
        }
        wrapped = {id(node.func): ast.unparse(node.args[0]) for node in ast.walk(tree) if is_wrapping(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("bounded_cache", "register_cache"):
                named = {keyword.arg: keyword.value for keyword in node.keywords}
                if ast.unparse(node.func) == "bounded_cache":
                    name, bound = functions.get(id(node)) or wrapped[id(node)], node.args[0]
                else:
                    name, bound = ast.unparse(node.args[0]), named["entries"]
                yield module, name.removeprefix("self."), computed(bound, constants), ast.literal_eval(named["key"])


def is_wrapping(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Call) and bool(node.args)


def computed(bound: ast.expr, constants: dict[str, ast.expr]) -> int:
    """An expression of whole numbers, ``+``, ``<<`` and constants of the module."""
    if isinstance(bound, ast.Name):
        return computed(constants[bound.id], constants)
    if isinstance(bound, ast.BinOp):
        left, right = computed(bound.left, constants), computed(bound.right, constants)
        return left + right if isinstance(bound.op, ast.Add) else left << right
    return int(ast.literal_eval(bound))


def rows() -> list[str]:
    return [f"| `{module}` | `{name}` | {key} | {bound:,} |" for module, name, bound, key in declarations()]


def test_the_page_lists_every_cache_in_memory() -> None:
    listed = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `ragsmith.")]
    assert listed == rows()


def test_no_bounded_cache_is_made_without_being_declared() -> None:
    undeclared = [
        path.name
        for path in PACKAGE.rglob("*.py")
        if path.name != "caches.py" and "lru_cache" in path.read_text(encoding="utf-8")
    ]
    assert undeclared == []
