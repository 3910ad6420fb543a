"""A pipeline of each framework, by its own package, is a system: the programs of the docs, scored on `finance`."""

from __future__ import annotations

import ast
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import ragsmith as package
from ragsmith.plugins import load_file

DOCS = Path(__file__).resolve().parents[2] / "docs"
PACKAGES = {
    "langchain": ("langchain_core", "langchain_text_splitters"),
    "haystack": ("haystack",),
    "llama_index": ("llama_index.core",),
}


@pytest.fixture(params=PACKAGES)
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    for needed in PACKAGES[request.param]:
        pytest.importorskip(needed, reason=f"needs the extra {request.param.replace('_', '-')}")
    return DOCS / f"rag_{request.param}.py"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning")
def test_the_program_of_the_docs_is_scored_and_its_contexts_are_found(
    program: Path, ragsmith: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    compared = ("compare", f"{program}:answer", "recommended", "bm25", "--dataset", "finance", "--split", "test")
    ended = ragsmith(*compared, "--json")
    assert ended.code == 0, ended.err
    found = json.loads(ended.out)
    assert {one["name"] for one in found["comparisons"]} == {"recommended", "bm25"}
    assert "of 1,000 contexts" not in ended.err, "each context is at one place of the document that it names"
    scored = json.loads(ragsmith("evaluate", f"{program}:answer", "--dataset", "finance", "--json").out)["all"]
    assert scored["scored"] == 200
    assert scored["metrics"]["success_10"]["mean"] > 0.5


KILLED = """
import os, signal, sys
from ragsmith.systems.searched import BuiltSystem

asked, ask = [], BuiltSystem.__call__


def count(self, question):
    asked.append(question)
    if len(asked) == 300:
        os.kill(os.getpid(), signal.SIGKILL)
    return ask(self, question)


BuiltSystem.__call__ = count
from ragsmith.cli import main

sys.argv = ["ragsmith", *sys.argv[1:]]
main()
"""


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning", "ignore::ResourceWarning")
def test_its_parameters_are_searched_through_a_kill_and_the_winner_scores_what_its_own_program_scores(
    program: Path, ragsmith: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    space = str(program.with_suffix(".yaml"))
    search = (*("search", "--dataset", "finance", "--space", space, "--max-evaluations", "12"), "--reports", "reports")
    killed = subprocess.run([sys.executable, "-c", KILLED, *search], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kept = sum(len(file.read_text().splitlines()) for file in (tmp_path / "cache.sqlite.answers").iterdir())
    assert kept == 299
    ended = ragsmith(*search)
    assert ended.code == 0, ended.err
    winner = yaml.safe_load((tmp_path / "reports/finance/winner.yaml").read_text())
    answer = vars(load_file(program))["build"](**winner["parameters"])
    found = package.compare("reports/finance/winner.yaml", answer, dataset="finance", split="all")
    assert found.fitness.difference.mean_difference == 0, "asked anew, without the cache of the search"
    assert found.fitness.difference.n > 150


@pytest.mark.parametrize("name", PACKAGES)
def test_the_function_that_makes_it_a_system_has_at_most_ten_lines(name: str) -> None:
    program = ast.parse((DOCS / f"rag_{name}.py").read_text())
    [function] = [node for node in ast.walk(program) if isinstance(node, ast.FunctionDef) and node.name == "answer"]
    assert function.end_lineno is not None
    assert function.end_lineno - function.lineno < 10
