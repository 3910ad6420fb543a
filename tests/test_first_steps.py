"""The first steps in docs/, and the examples of docstrings, run as they are printed."""

from __future__ import annotations

import doctest
import os
import subprocess
import sys
from pathlib import Path

import pytest

import ragsmith
import ragsmith.api.asking
import ragsmith.api.checking
import ragsmith.api.comparing
import ragsmith.api.diagnosing
import ragsmith.api.result
import ragsmith.api.searching

ROOT = Path(__file__).resolve().parent.parent
MODULES = (
    ragsmith.api.diagnosing,
    ragsmith.api.asking,
    ragsmith.api.checking,
    ragsmith.api.checking,
    ragsmith.api.comparing,
    ragsmith.api.searching,
    ragsmith.api.result,
)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder in which the first steps were walked, and what they printed."""
    pytest.importorskip("pandas", reason="pandas is not installed")
    folder = tmp_path_factory.mktemp("steps") / "first_steps"
    command = [sys.executable, "-W", "error", ROOT / "docs" / "first_steps.py", folder]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    return folder, ended.stdout


def test_the_first_steps_can_be_walked(walked: tuple[Path, str]) -> None:
    folder, said = walked
    assert "finished: 7 pipelines that differ, of 48" in said
    assert "Better than naive RAG" in said
    assert {path.name for path in folder.iterdir()} >= {"cache.sqlite", "convergence.html", "reports", "winner.yaml"}
    assert "<svg" in (folder / "convergence.html").read_text(encoding="utf-8")


def test_the_first_steps_say_how_they_are_walked(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "docs" / "first_steps.py", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.check_output(command, text=True, env=environment, timeout=300, cwd=tmp_path)
    assert "python docs/first_steps.py FOLDER" in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_the_examples_of_docstrings_hold(
    walked: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, module: object
) -> None:
    monkeypatch.chdir(walked[0])  # where the examples find the cache and the winner of the first steps
    tried = doctest.testmod(module, extraglobs={"ragsmith": ragsmith})  # type: ignore[arg-type]
    assert tried.attempted > 0
    assert tried.failed == 0
