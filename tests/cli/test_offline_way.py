"""From a bare folder of documents to an answer, without questions and without a model of a provider."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RULES = """# Harbour rules

## Mooring

The skipper must report to the harbour office within two hours of arrival. The outer quay is closed to small boats when
the wind exceeds forty knots.

## Dues

A dinghy pays four crowns a day. A barge pays thirty crowns a day, and leaves a deposit of sixty crowns.
"""
TIDES = "The tide at the northern shoal is highest two hours after noon, and it is listed in the tide table.\n"


def test_documents_without_a_question_are_answered_from(
    tmp_path: Path, ragsmith: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "rules.md").write_text(RULES)
    (tmp_path / "files" / "tides.txt").write_text(TIDES)
    made = ragsmith("dataset", "init", "files", "-o", "data")
    assert made.code == 0, made.err
    assert "ragsmith recommend data" in made.out
    assert not (tmp_path / "data" / "questions.jsonl").exists()
    named = ragsmith("recommend", "data")
    assert named.code == 0, named.err
    answered = ragsmith("ask", "winner.yaml", "What does a barge pay a day?")
    assert answered.code == 0, answered.err
    assert "thirty crowns" in answered.out
    assert "rules" in answered.out
