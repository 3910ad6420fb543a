"""Fingerprints of code: what changes them, and what does not.

Each is taken in a process of its own, over a small package with ragsmith's name, its `code`, and modules to change.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import ragsmith.code
import ragsmith.errors
from ragsmith.code import closure, fingerprint

FUSING = '''\
"""A technique."""

from ragsmith.fusing import fuse

PROMPT = "Answer {question}"


def double(x: int) -> int:
    """Double it."""
    return 2 * fuse(x)
'''
FUSE = "def fuse(x):\n    return x\n"


@pytest.fixture
def take(tmp_path: Path) -> Callable[..., str]:
    """The fingerprint of ``technique.py`` with this source; ``modules`` are those of the package."""
    package = tmp_path / "ragsmith"
    package.mkdir()
    (package / "__init__.py").write_text("")
    shutil.copy(ragsmith.code.__file__, package / "code.py")
    shutil.copy(ragsmith.errors.__file__, package / "errors.py")

    def measure(source: str = FUSING, **modules: str) -> str:
        (tmp_path / "technique.py").write_text(source)
        for name, text in {"fusing": FUSE, **modules}.items():
            (package / f"{name}.py").write_text(text)
        command = "from ragsmith.code import fingerprint; print(fingerprint('technique'))"
        run = subprocess.run(
            [sys.executable, "-B", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        return run.stdout.strip()

    return measure


def test_a_fingerprint_is_short_and_the_same_in_every_process(take: Callable[..., str]) -> None:
    assert re.fullmatch("[0-9a-f]{16}", take())
    assert take() == take()


@pytest.mark.parametrize(
    "source",
    [
        FUSING.replace('"""A technique."""', '"""Another description of it."""'),
        FUSING.replace('"""A technique."""\n', ""),
        FUSING.replace('    """Double it."""\n', ""),
        FUSING.replace("def double", "# a comment\ndef double").replace("2 * fuse(x)", "2 * fuse(x)  # twice"),
        FUSING.replace("x: int) -> int", "\n    x: int,\n) -> int").replace(
            '"Answer {question}"', "'Answer {question}'"
        ),
        FUSING.replace("2 * fuse(x)", "(2*fuse( x ))"),
        FUSING.replace("\n", "\r\n"),
    ],
    ids=["docstring", "no docstring", "no function docstring", "comments", "formatting", "parentheses", "line ends"],
)
def test_comments_docstrings_and_formatting_do_not_count(take: Callable[..., str], source: str) -> None:
    assert source != FUSING
    assert take(source) == take()


@pytest.mark.parametrize(
    "source",
    [
        FUSING.replace("2 * fuse(x)", "3 * fuse(x)"),
        FUSING.replace("Answer {question}", "Answer briefly {question}"),
        FUSING.replace("def double(x: int)", "def double(x: int, y: int = 1)"),
        FUSING.replace("return 2", "x += 1\n    return 2"),
    ],
    ids=["expression", "prompt", "parameter", "statement"],
)
def test_statements_and_constants_count(take: Callable[..., str], source: str) -> None:
    assert source != FUSING
    assert take(source) != take()


@pytest.mark.parametrize(
    "statement",
    [
        "from ragsmith.fusing import fuse",
        "from ragsmith import fusing\nfuse = fusing.fuse",
        "import ragsmith.fusing\nfuse = ragsmith.fusing.fuse",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ragsmith.fusing import fuse",
    ],
)
def test_a_change_in_an_imported_module_of_the_project_counts(take: Callable[..., str], statement: str) -> None:
    source = FUSING.replace("from ragsmith.fusing import fuse", statement)
    before = take(source)
    assert take(source, fusing=FUSE.replace("return x", "return x + 1")) != before
    assert take(source, fusing="# a comment\n" + FUSE) == before


def test_modules_that_are_imported_indirectly_count(take: Callable[..., str]) -> None:
    through = "from ragsmith.deeper import fuse\n"
    assert take(fusing=through, deeper=FUSE) != take(fusing=through, deeper=FUSE.replace("return x", "return -x"))


def test_modules_that_nobody_imports_do_not_count(take: Callable[..., str]) -> None:
    assert take(other="A = 1\n") == take(other="A = 2\n")


def test_modules_that_import_each_other_are_no_endless_loop(take: Callable[..., str]) -> None:
    take(fusing="import ragsmith.back\n" + FUSE, back="import ragsmith.fusing\n")


def test_a_technique_rests_on_what_it_fuses_with_and_not_on_the_machinery() -> None:
    modules = closure("ragsmith.techniques.query_expansion.rag_fusion")
    assert "ragsmith.techniques.fusion" in modules
    assert "ragsmith.types" in modules
    assert not modules & {
        "ragsmith.techniques.registry",
        "ragsmith.techniques.families",
        "ragsmith.errors",
        "ragsmith.gateway.memo",
        "ragsmith.store.store",
    }


def test_every_technique_of_the_project_has_a_fingerprint_of_its_own() -> None:
    folder = Path(ragsmith.code.__file__).parent / "techniques"
    modules = [
        f"ragsmith.techniques.{path.parent.name}.{path.stem}"
        for path in folder.glob("*/*.py")
        if path.stem != "__init__"
    ]
    prints = {fingerprint(module) for module in modules}
    assert len(prints) == len(modules) > 30


def test_a_module_without_source_is_named() -> None:
    with pytest.raises(ModuleNotFoundError, match="nothing_like_this"):
        fingerprint("nothing_like_this")
