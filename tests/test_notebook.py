"""The notebook in docs/, executed cell by cell as a kernel does, and shown."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_cells import Run, run_cells

NOTEBOOK = Path(__file__).resolve().parent.parent / "docs" / "notebook.ipynb"


@pytest.fixture
def run() -> Iterator[Run]:
    with run_cells() as run:
        yield run


def list_code() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def show(value: Any) -> str:
    """What a notebook displays of the value of a cell."""
    methods = (getattr(value, name, None) for name in ("_repr_html_", "_repr_svg_", "__repr__"))
    return next(method() for method in methods if method is not None)


def test_the_notebook_runs_from_the_first_cell_to_the_last(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    shown = []
    for source in list_code():
        namespace = run(source)
        if isinstance(last := ast.parse(source).body[-1], ast.Expr):
            shown.append(show(eval(ast.unparse(last), namespace)))
    assert [text for text in shown if len(text) < 40] == []
    assert sum("<svg" in text for text in shown) == 2
    assert sum("<table" in text for text in shown) == 6
    own = namespace["own"].to_pandas()
    assert {"top_k", "before_the_fall"} <= {name.partition("(")[0] for name in own["gene_passage_filter"]}
    assert own["passages"].min() >= 1


def test_the_notebook_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []
