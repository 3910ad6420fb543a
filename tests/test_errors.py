"""Warnings name the line of the user whose call they are about."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import ragsmith as library
from ragsmith.errors import DamagedRows, Notice, warn_caller


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


class LongQueries:
    """An embedder whose vectors of queries have length 2."""

    id, dimensions, slow = "long queries", 2, True

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.array([[1, 0]] * len(texts), dtype=np.float32)

    def embed_queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return 2 * self.embed(texts)


def test_a_notice_from_a_thread_names_the_line_of_the_call(tiny_folder: Path, tmp_path: Path) -> None:
    models, cache = {"embedder": LongQueries()}, tmp_path / "cache.sqlite"
    with pytest.warns(Notice, match="long queries gives vectors that do not have length 1") as noticed:
        library.compare("naive", "bm25", dataset=tiny_folder, models=models, workers=2, cache=cache)
    assert {warning.filename for warning in noticed} == {__file__}


def test_a_notice_from_a_thread_of_its_own_names_the_line_of_the_main_thread() -> None:
    # the frames of the thread are those of the standard library and of the package
    with ThreadPoolExecutor(1) as pool, pytest.warns(Notice) as noticed:
        pool.submit(warn_caller, "x").result()
    assert [warning.filename for warning in noticed] == [__file__]


def test_only_whole_names_of_packages_are_between_a_call_and_its_notice() -> None:
    mine = {"__name__": "functools_of_mine", "warn_caller": warn_caller}
    with pytest.warns(Notice) as noticed:
        exec(compile("warn_caller('x')", "mine.py", "exec"), mine)
    assert [(warning.filename, warning.lineno) for warning in noticed] == [("mine.py", 1)]
