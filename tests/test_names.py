"""No two classes of the package have the same name, so that a search for a name finds one thing."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import ragsmith


def test_no_two_classes_have_the_same_name() -> None:
    names = Counter(
        node.name
        for module in Path(ragsmith.__file__).parent.rglob("*.py")
        for node in ast.parse(module.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef)
    )
    assert len(names) > 300
    assert [name for name, count in names.items() if count > 1] == []
