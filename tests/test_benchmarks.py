"""Benchmarks are run by hand, so that what one takes from another, or from `tests/support`, is looked at here."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = (ROOT / "benchmarks", ROOT / "tests" / "support")
FILES = {
    path: ast.parse(path.read_text(encoding="utf-8")) for folder in FOLDERS for path in sorted(folder.glob("*.py"))
}


def defined(module: str) -> set[str]:
    """The names that the files of this name have."""
    found: set[str] = set()
    for node in (node for path, tree in FILES.items() if path.stem == module for node in tree.body):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {one.id for target in targets for one in ast.walk(target) if isinstance(one, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("path", [path for path in FILES if path.parent == FOLDERS[0]], ids=lambda path: path.stem)
def test_what_a_benchmark_takes_from_another_is_there(path: Path) -> None:
    known = {path.stem for path in FILES}
    for node in ast.walk(FILES[path]):
        if isinstance(node, ast.ImportFrom) and node.module in known:
            assert {alias.name for alias in node.names} <= defined(node.module), f"from {node.module}"
