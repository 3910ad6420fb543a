"""Cells of a notebook: what is fingerprinted, what may be run again, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from notebook_cells import Run, run_cells

import ragsmith
from ragsmith.cells import fingerprint_source, is_in_cell
from ragsmith.errors import UsageError
from ragsmith.measures.registry import measures
from ragsmith.techniques.families import passage_filter


@pytest.fixture
def run() -> Iterator[Run]:
    with run_cells() as run:
        yield run


IMPORTS = """
import re
import numpy as np
from ragsmith.measures.registry import measure
from ragsmith.techniques.families import passage_filter
from ragsmith.techniques.fusion import rank
from ragsmith.types import Hits, Question
LEAST = 2
WORD = re.compile("a+")
def kept(hits):
    return hits[:LEAST]
"""
TECHNIQUE = """
@passage_filter(paper="https://doi.org/10.1108/eb050097")
def few(question: Question, hits: Hits, *, most: int = 3) -> Hits:
    \"\"\"Keep a few.\"\"\"
    return kept(rank(hits))[:most]
"""
MEASURE = """
@measure(label="Kept", subject="ranking")
def n_kept(case):
    \"\"\"The number of hits.\"\"\"
    return 1 / (1 + len(case.hits))
"""


def test_a_technique_may_be_run_again_and_the_later_one_counts(run: Run) -> None:
    run(IMPORTS)
    run(TECHNIQUE)
    first = passage_filter["few"].code
    run(TECHNIQUE)
    assert passage_filter["few"].code == first  # in whichever cell
    run(TECHNIQUE.replace("[:most]", "[: most + 1]"))
    assert passage_filter["few"].code != first


@pytest.mark.parametrize(
    "edit",
    [
        "LEAST = 3",
        "def kept(hits):\n    return hits[:LEAST + 1]",
        "from ragsmith.techniques.fusion import normalize as rank",
        "def rank(hits):\n    return hits",
    ],
)
def test_an_edit_of_what_a_technique_uses_in_another_cell_makes_its_results_stale(run: Run, edit: str) -> None:
    run(IMPORTS)
    run(TECHNIQUE)
    before = passage_filter["few"].code
    run("UNUSED = 1\ndef unused():\n    return WORD")
    assert passage_filter["few"].code == before
    run(edit)
    assert passage_filter["few"].code != before


def test_a_measure_may_be_run_again(run: Run) -> None:
    run(IMPORTS)
    run(MEASURE)
    first = measures()["n_kept"].identity
    run(MEASURE.replace("1 +", "2 +"))
    assert measures()["n_kept"].identity != first


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        (
            TECHNIQUE.replace("few", "top_k"),
            r"passage_filter\.top_k is registered twice: give the function another name",
        ),
        (MEASURE.replace("n_kept", "recall"), "the measure recall is registered twice"),
    ],
)
def test_a_name_of_ragsmith_is_not_replaced(run: Run, cell: str, complaint: str) -> None:
    run(IMPORTS)
    with pytest.raises(ValueError, match=complaint):
        run(cell)


@pytest.mark.parametrize(
    ("cell", "complaint"),
    [
        ("table = object()\ndef f():\n    return table", "f of <ipy.*> uses table, a object that has no fingerprint"),
        ("class A:\n    pass\ndef f():\n    return A()", "f of <ipy.*> uses A, a type that has no fingerprint"),
        ("array = np.ones(3)\ndef f():\n    return array", "uses array, a ndarray"),
    ],
)
def test_what_has_no_fingerprint_is_named(run: Run, cell: str, complaint: str) -> None:
    run(IMPORTS)
    with pytest.raises(UsageError, match=complaint):
        fingerprint_source(run(cell)["f"])


def test_what_is_used_is_described_by_value_by_code_or_by_library(run: Run) -> None:
    run(IMPORTS)
    source = "def f(least=LEAST):\n    return [np.mean, WORD, NAMES, len, missing]"
    run("NAMES = {'b', 'a'}")
    first = fingerprint_source(run(source)["f"])
    assert fingerprint_source(run("NAMES = {'a', 'b'}")["f"]) == first
    assert fingerprint_source(run("WORD = re.compile('b+')")["f"]) != first
    run("WORD = re.compile('a+')\nLEAST = 9")
    assert fingerprint_source(run(source)["f"]) != first  # the default has another value


def test_functions_that_call_each_other_are_fingerprinted(run: Run) -> None:
    source = "def even(n):\n    return n == 0 or odd(n - 1)\ndef odd(n):\n    return n > 0 and even(n - 1)"
    first = fingerprint_source(run(source)["even"])
    assert fingerprint_source(run(source)["even"]) == first
    assert fingerprint_source(run(source.replace("n > 0", "n > 1"))["even"]) != first


def test_functions_of_files_are_in_no_cell_and_without_source_nothing_is_known(run: Run) -> None:
    assert is_in_cell(run("def f():\n    return 1")["f"])
    assert not is_in_cell(test_a_measure_may_be_run_again)
    unknown = FunctionType(compile("def f():\n    return 1", "<gone>", "exec").co_consts[0], {"__name__": "__main__"})
    assert not is_in_cell(unknown)
    with pytest.raises(UsageError, match="the source of f is not known"):
        fingerprint_source(unknown)


def test_a_search_with_code_of_cells_repeats_only_what_an_edit_changes(run: Run, tmp_path: Any) -> None:
    def search() -> ragsmith.Result:
        space = {"retrieval": ["bm25"], "passage_filter": ["top_k", "few"]}
        settings: Any = {"cache": tmp_path / "cache.sqlite", "workers": 2, "fitness": run("")["own"]}
        return ragsmith.search("law", space=space, probes=False, simplify=False, **settings)

    run(IMPORTS)
    run(MEASURE)
    run("def own(m):\n    return 1.0 if m['n_kept'] is None else m['n_kept']")
    run(TECHNIQUE)
    first = search()
    assert first.setup.prefers_threads
    assert first.computed > 0
    assert search().computed == 0
    run("LEAST = 1")
    edited = search()
    assert 0 < edited.computed < first.computed
    assert edited.ranking[0].label == "bm25 + few"
    assert edited.ranking[0].scores["fitness"].mean > first.ranking[0].scores["fitness"].mean


BROKEN = """
@passage_filter()
def broken(question: Question, hits: Hits) -> Hits:
    \"\"\"Read what hits do not have.\"\"\"
    return hits[0].missing
"""


def test_a_technique_that_always_fails_is_named_with_its_error_beside_the_winner(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run(f"import ragsmith\n{IMPORTS}")
    run(BROKEN)
    space = {"retrieval": ["bm25", "vector"], "passage_filter": ["top_k", "broken"]}
    found = ragsmith.search("law", space=space, probes=False, simplify=False, workers=1, cache="cache.sqlite")
    said = "Every pipeline with passage_filter.broken failed on half of the questions or more; the technique raised Att"
    assert [note for note in found.run_report.notes if note.startswith(said)]
    assert " ".join(str(found).split()).count(f"! {said}") == 1
    assert "216 answers failed: print(result) says why." in found._repr_html_()
    # the command line does not know the cell, so what exports the pipeline is a call for this session
    assert found.decision
    exported = run(f"exported = {found.decision.command}")["exported"]
    assert exported.pick == found.decision.take
