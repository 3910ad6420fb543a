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
import ragsmith.pipelines.space_file

ROOT = Path(__file__).resolve().parent.parent
MODULES = (
    ragsmith.api.diagnosing,
    ragsmith.api.asking,
    ragsmith.api.checking,
    ragsmith.api.comparing,
    ragsmith.api.searching,
    ragsmith.api.result,
    ragsmith.pipelines.space_file,
)


def test_the_first_steps_and_the_examples_of_docstrings_run_as_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One test, since the examples use the cache and the winner of the first steps."""
    pytest.importorskip("pandas", reason="pandas is not installed")
    folder = tmp_path / "first_steps"
    command = [sys.executable, "-W", "error", ROOT / "docs" / "first_steps.py", folder]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "finished: 7 pipelines that differ, of 48" in ended.stdout
    assert "Better than naive RAG" in ended.stdout
    assert {path.name for path in folder.iterdir()} >= {"cache.sqlite", "convergence.html", "reports", "winner.yaml"}
    assert "<svg" in (folder / "convergence.html").read_text(encoding="utf-8")
    monkeypatch.chdir(folder)
    tried = {module.__name__: doctest.testmod(module, extraglobs={"ragsmith": ragsmith}) for module in MODULES}
    assert {name: result.failed for name, result in tried.items()} == dict.fromkeys(tried, 0)
    assert all(result.attempted for result in tried.values())


def test_the_first_steps_say_how_they_are_walked(tmp_path: Path) -> None:
    command = [sys.executable, ROOT / "docs" / "first_steps.py", "--help"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    said = subprocess.check_output(command, text=True, env=environment, timeout=300, cwd=tmp_path)
    assert "python docs/first_steps.py FOLDER" in said
    assert list(tmp_path.iterdir()) == []
