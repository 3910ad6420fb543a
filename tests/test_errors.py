"""Warnings name the line of the user whose call they are about."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import ragsmith as library
from ragsmith.errors import DamagedRows, Notice


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


def replace_a_file(folder: Path) -> None:
    Path("winner.yaml").write_text("notes", encoding="utf-8")
    library.recommend(folder, output="winner.yaml")


def limit_models_that_are_free(folder: Path) -> None:
    space = {"retrieval": ["vector", "bm25"]}
    library.search(folder, space=space, probes=False, workers=1, limits={"calls": 9}, cache="cache.sqlite")


def report_damaged_rows(folder: Path) -> None:
    library.search(folder, space={"retrieval": ["vector", "bm25"]}, probes=False, workers=1, cache="cache.sqlite")
    with closing(sqlite3.connect("cache.sqlite")) as connection, connection:
        connection.execute("UPDATE result SET value = 'x'")
    library.report("cache.sqlite", "reports")


CALLS = (
    ask_a_program,
    give_a_context_that_is_nowhere,
    serve_other_documents,
    replace_a_file,
    limit_models_that_are_free,
    report_damaged_rows,
)


@pytest.mark.parametrize("call", CALLS)
def test_a_notice_names_the_line_of_the_caller(
    call: Callable[[Path], None], tiny_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.warns((Notice, DamagedRows)) as noticed:
        call(tiny_folder)
    assert {warning.filename for warning in noticed} == {__file__}
