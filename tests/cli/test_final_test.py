"""The test questions are looked at once, however many searches there are, unless a test is asked for."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from facts_folder import facts_folder

Command = Callable[..., Any]
TEST_QUESTIONS = 18
TEN = (
    (),
    ("--seed", 2),
    ("--max-evaluations", 3),
    ("--strategy", "random"),
    ("--objective", "retrieval"),
    ("--space", "paper"),
    ("--chunk-size", 150),
    ("--chunk-size", 200, "--no-simplify"),
    ("--chunk-size", 150, "--without", "retrieval.bm25"),
    ("--chunk-size", 200, "--seed", 3, "--cache", "another.sqlite"),
)
"""Options of ten searches; the others are the same."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the data set ``facts``."""
    monkeypatch.chdir(tmp_path)
    facts_folder(tmp_path / "facts")
    return tmp_path


def search(ragsmith: Command, *more: object) -> tuple[dict[str, Any], str]:
    """Search the data set, and return what is written as JSON and what is printed besides."""
    given = {"--space": "quick", "--max-evaluations": 2, "--dataset": "facts", "--workers": 1}
    options = [part for name, value in given.items() if name not in more for part in (name, value)]
    ended = ragsmith("search", *options, "--no-probes", "--no-warm-start", "--quiet", "--json", *more)
    assert ended.code == 0, ended.err
    return json.loads(ended.out), ended.err


def looks(ledger: Path) -> list[int]:
    """The numbers of the looks in the ledger."""
    with closing(sqlite3.connect(f"{ledger.as_uri()}?mode=ro", uri=True)) as opened:
        return [number for (number,) in opened.execute("SELECT number FROM look ORDER BY number")]


def test_ten_searches_are_one_look_and_the_eleventh_costs_what_it_said_before(
    home: Path, ragsmith: Command, ledger: Path
) -> None:
    first, *others = [search(ragsmith, *options)[0] for options in TEN]
    assert looks(ledger) == [1]
    assert "not_tested" not in first
    assert sum("not_tested" in one for one in others) >= len(TEN) // 2
    for one in others:
        compared = one["decision"]["differences"]
        if "not_tested" in one:
            assert "looked at once before" in one["not_tested"]
            assert f"(ledger: {ledger})" in one["not_tested"]
            assert one["not_tested"].partition(" (")[0].endswith("--test` would test at level 0.025")
            assert {(it["look"], it["p"], it["verdict"]) for it in compared} == {(None, None, "not tested")}
        else:  # the same pipelines are the same look
            assert {it["look"] for it in compared} == {1}

    eleventh = ("--chunk-size", 250)
    assert search(ragsmith, *eleventh)[0]["not_tested"].partition(" (")[0].endswith("--test` would test at level 0.025")
    assert looks(ledger) == [1]
    tested, said = search(ragsmith, *eleventh, "--test")
    cost = f"This is look 2 at these questions (ledger: {ledger}): tested at 0.025, later looks at half."
    assert said.startswith(cost)
    assert "not_tested" not in tested
    assert looks(ledger) == [1, 2]
    compared = tested["decision"]["differences"]
    assert {one["look"] for one in compared} == {2}
    again = search(ragsmith, *eleventh, "--test")[0]
    assert (again["decision"]["differences"], looks(ledger)) == (compared, [1, 2])
