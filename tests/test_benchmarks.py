"""Benchmarks are run by hand, so that what one takes from another, or from `tests/support`, is looked at here."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench_languages import write_documents

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


PROGRAMS = [path for path in FILES if path.parent == FOLDERS[0] and "__main__" in path.read_text(encoding="utf-8")]


def test_each_program_is_in_the_table() -> None:
    table = (FOLDERS[0] / "README.md").read_text(encoding="utf-8")
    named = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(named) == sorted(path.name for path in PROGRAMS)
    assert len(PROGRAMS) <= 25


HELP = """
import contextlib, io, json, runpy, sys

for program in sys.argv[1:]:
    said, sys.argv = io.StringIO(), [program, "--help"]
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(program, run_name="__main__")
        code = None
    except SystemExit as ended:
        code = ended.code
    print(json.dumps([program, code, said.getvalue()[:7]]))
"""


@pytest.mark.processes
def test_each_program_has_help() -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (ROOT, *FOLDERS)))}
    command = [sys.executable, "-c", HELP, *map(str, PROGRAMS)]  # one process: most of the time goes into imports
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert found == [[str(path), 0, "usage: "] for path in PROGRAMS]


@pytest.mark.parametrize("collection", ["german", "turkish", "mixed"])
def test_every_question_of_the_small_folders_quotes_one_place(collection: str, tmp_path: Path) -> None:
    questions = write_documents(collection, tmp_path / "documents")
    assert len({question["question"] for question in questions}) == 20
    assert len(list((tmp_path / "documents").iterdir())) == 10
    for question in questions:
        text = (tmp_path / "documents" / f"{question['doc']}.md").read_text(encoding="utf-8")
        assert text.count(question["evidence"]) == 1, question
