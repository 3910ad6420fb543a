"""The commands that a report shows, run as a user copies them into the folder in which the search was typed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from facts_folder import facts_folder
from html_page import HtmlPage


def test_the_commands_of_a_report_work_where_the_search_was_typed(
    ragsmith: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a data set in another folder than its name says, and a cache that is not the default one."""
    monkeypatch.chdir(tmp_path)
    facts_folder(tmp_path / "facts").rename("my data")
    options = ("--space", "quick", "--max-evaluations", 2, "--no-probes", "--no-warm-start", "--workers", 1, "--quiet")
    assert ragsmith("search", "my data", *options).code == 0
    search = ("search", "my data", *options, "--chunk-size", 150, "--cache", "my.sqlite")
    assert ragsmith(*search).code == 0
    report = tmp_path / "reports" / "facts"
    in_markdown = re.findall(r"`(ragsmith [^`]+)`", (report / "report.md").read_text(encoding="utf-8"))
    page = HtmlPage((report / "index.html").read_text(encoding="utf-8"))
    assert set(in_markdown) == {one for one in page.texts("code") if one.startswith("ragsmith ")}
    commands = {line.split()[1]: shlex.split(line)[1:] for line in in_markdown}
    assert set(commands) == {"export", "search", "explain"}
    exported = ragsmith(*commands["export"])
    assert (exported.code, exported.err) == (0, "")
    assert commands["search"] == [*map(str, search), "--test"]
    tested = ragsmith(*commands["search"])
    assert tested.code == 0
    assert "Not tested" not in tested.out
    monkeypatch.chdir(report)
    for command in (commands["explain"], ["ask", "winner.yaml", "Who?"], ["evaluate", "winner.yaml"]):
        ended = ragsmith(*command)
        assert ended.code == 0, ended.err
