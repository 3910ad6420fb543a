"""Count files, lines and statements by room.

    python tools/count.py [FOLDER]

Statements are those of the syntax tree, without docstrings; FOLDER is `ragsmith` by default.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from pathlib import Path


def statements(source: str) -> int:
    """Return the number of statements in Python source, docstrings and other lone texts apart."""
    nodes = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt))
    return sum(not _is_text(node) for node in nodes)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def count(folder: Path) -> dict[str, Counter[str]]:
    """Return files, lines and statements of each folder directly below ``folder``, the largest first."""
    rooms: dict[str, Counter[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        room = path.relative_to(folder).parts[0] if path.parent != folder else "."
        found = {"files": 1, "lines": source.count("\n"), "statements": statements(source)}
        rooms.setdefault(room, Counter()).update(found)
    return dict(sorted(rooms.items(), key=lambda item: -item[1]["statements"]))


def main(arguments: list[str]) -> int:
    """Print the table."""
    rooms = count(Path(arguments[0] if arguments else "ragsmith"))
    print(f"{'':16}{'files':>8}{'lines':>8}{'statements':>12}")
    for name, found in [*rooms.items(), ("all", sum(rooms.values(), Counter()))]:
        print(f"{name:16}{found['files']:8,}{found['lines']:8,}{found['statements']:12,}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
