"""The commands that a report shows, run as a user copies them into the folder in which the search was typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from facts_folder import facts_folder
from html_page import HtmlPage

import ragsmith as package


def test_the_commands_of_a_report_work_where_the_search_was_typed(
    ragsmith: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a data set in another folder than its name says, and a cache that is not the default one."""
    monkeypatch.chdir(tmp_path)
    facts_folder(tmp_path / "facts").rename("my data")
    options = ("--space", "quick", "--max-evaluations", 2, "--no-probes", "--no-warm-start", "--workers", 1, "--quiet")
    assert ragsmith("search", "my data", *options).code == 0
    search = ("search", "my data", *options, "--chunk-size", 150, "--cache", "my.sqlite")
    searched = ragsmith(*search)
    assert searched.code == 0
    assert 'ask it  ragsmith ask reports/facts/winner.yaml "your question"' in searched.out
    report = tmp_path / "reports" / "facts"
    in_markdown = re.findall(r"`(ragsmith [^`]+)`", (report / "report.md").read_text(encoding="utf-8"))
    page = HtmlPage((report / "index.html").read_text(encoding="utf-8"))
    assert set(in_markdown) == {one for one in page.texts("code") if one.startswith("ragsmith ")}
    commands = [shlex.split(line)[1:] for line in dict.fromkeys(in_markdown)]
    assert {command[0] for command in commands} == {"export", "search", "ask", "verify", "explain", "ablate"}
    exports, searches = ([one for one in commands if one[0] == verb] for verb in ("export", "search"))
    others = [one for one in commands if one not in (*exports, *searches)]
    assert ragsmith("search", "my data", *options, "--seed", 7, "--cache", "my.sqlite", "--reports", "other").code == 0
    for command in exports:  # they name the run, so that a later search of this data set changes nothing
        exported = ragsmith(*command)
        assert (exported.code, exported.err) == (0, "")
    taken = yaml.safe_load(Path("take-facts.yaml").read_text(encoding="utf-8"))
    assert taken["run"]["key"].startswith(exports[0][exports[0].index("--run") + 1])
    assert (taken["chunk_size"], taken["run"]["seed"]) == (150, 42)
    for command in (*others, ["evaluate", "take-facts.yaml"]):
        ended = ragsmith(*command)
        assert ended.code == 0, ended.err
    [repeated] = searches
    assert repeated == [*map(str, search), "--test"]
    tested = ragsmith(*repeated)
    assert tested.code == 0
    assert "Not tested" not in tested.out
    assert "take: naive RAG" in tested.out
    asked = "ask the one to take, once exported  ragsmith ask take-facts.yaml 'your question' --cache my.sqlite"
    assert asked in tested.out.splitlines(), "winner.yaml is another pipeline"


def test_the_calls_of_a_report_work_in_the_session_that_its_search_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fitness that is a lambda is in no file, so that no command line knows it."""
    monkeypatch.chdir(tmp_path)
    few: dict[str, Any] = {"space": "quick", "max_evaluations": 2, "probes": False, "warm_start": False, "workers": 1}
    package.search(facts_folder(tmp_path / "facts"), **few, fitness=lambda one: one["retrieval"], reports="reports")
    report = (tmp_path / "reports" / "facts" / "report.md").read_text(encoding="utf-8")
    assert "`ragsmith " not in report
    calls = list(dict.fromkeys(re.findall(r"`(ragsmith\.[^`]+)`", report)))
    assert [call.split("(")[0] for call in calls] == [
        f"ragsmith.{f}" for f in ("export", "ask", "verify", "diagnose", "explain", "ablate")
    ]
    exported, answer, verified, causes, explained, ablated = (eval(call, {"ragsmith": package}) for call in calls)
    assert exported.path == Path("take-facts.yaml")
    assert causes.questions == exported.questions
    assert (bool(answer.answer), verified.differences) == (True, ())
    assert explained.id in calls[4]
    assert ablated.label == exported.label
