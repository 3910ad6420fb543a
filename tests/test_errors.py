"""Warnings name the line of the user whose call they are about."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import ragsmith as library
from ragsmith.errors import Notice


def ask_a_program(folder: Path) -> None:
    Path("mine.py").write_text('def answer(question):\n    return {"answer": "x", "contexts": []}\n', encoding="utf-8")
    library.evaluate("mine.py:answer", dataset=folder)


def give_a_context_that_is_nowhere(folder: Path) -> None:
    library.evaluate(lambda question: {"answer": "x", "contexts": ["not in any document"]}, dataset=folder)


def serve_other_documents(folder: Path) -> None:
    Path("docs").mkdir()
    Path("docs/gate.md").write_text("# Gate\n\nThe gate is shut at ten at night.\n", encoding="utf-8")
    library.recommend(folder, output="winner.yaml")
    library.asgi_app("winner.yaml", documents="docs")


@pytest.mark.parametrize("call", [ask_a_program, give_a_context_that_is_nowhere, serve_other_documents])
def test_a_notice_names_the_line_of_the_caller(
    call: Callable[[Path], None], tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns(Notice) as noticed:
        call(tiny_folder)
    assert {warning.filename for warning in noticed} == {__file__}
