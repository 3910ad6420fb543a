"""A pipeline of each framework, by its own package, is a system: the programs of the docs, scored on `finance`."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
PACKAGES = {
    "langchain": ("langchain_core", "langchain_text_splitters"),
    "haystack": ("haystack",),
    "llama_index": ("llama_index.core",),
}


@pytest.fixture(params=PACKAGES)
def program(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HAYSTACK_TELEMETRY_ENABLED", "False")
    for package in PACKAGES[request.param]:
        pytest.importorskip(package, reason=f"needs the extra {request.param.replace('_', '-')}")
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


@pytest.mark.parametrize("name", PACKAGES)
def test_the_function_that_makes_it_a_system_has_at_most_ten_lines(name: str) -> None:
    body = ast.parse((DOCS / f"rag_{name}.py").read_text()).body
    [function] = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == "answer"]
    assert function.end_lineno is not None
    assert function.end_lineno - function.lineno < 10
