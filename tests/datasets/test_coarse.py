"""Warnings name evidence of whole documents and sections, and too few questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragsmith.datasets.dataset import load_dataset
from ragsmith.datasets.summary import Coarseness, count_coarse_evidence, dataset_warnings

SENTENCE = "The keeper of the mill counts every sack before the gate is shut. "
LONG = SENTENCE * 20  # 1,320 characters, more than a chunk of 900
TEXT = f"# Mill\n\n## Sacks\n\n{LONG}\n\n## Gate\n\n{LONG}{LONG}\n"


def write(folder: Path, *evidence: dict[str, Any], questions: int = 1) -> Path:
    (folder / "documents").mkdir(parents=True)
    (folder / "dataset.yaml").write_text("name: mill\n")
    (folder / "documents" / "mill.md").write_text(TEXT)
    (folder / "documents" / "note.md").write_text("# Note\n\nA short one, which has one line and no more.\n")
    rows = [
        {"id": f"q{n}", "question": f"What is {n}?", "answer": "That.", "evidence": list(evidence)}
        for n in range(questions)
    ]
    (folder / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize(
    ("evidence", "found"),
    [
        ({"doc": "mill"}, Coarseness(1, 1, 0, 0)),
        ({"doc": "mill", "heading": "Gate"}, Coarseness(1, 0, 1, 0)),
        ({"doc": "mill", "heading": "Sacks"}, Coarseness(1, 0, 1, 0)),
        ({"doc": "mill", "lines": [4, 8]}, Coarseness(1, 0, 0, 1)),
        ({"doc": "note"}, Coarseness(1, 0, 0, 0)),  # a chunk holds it
    ],
)
def test_what_is_longer_than_a_chunk_is_counted_once(tmp_path: Path, evidence: Any, found: Coarseness) -> None:
    assert count_coarse_evidence(load_dataset(write(tmp_path / "mill", evidence))) == found


def test_a_data_set_without_either_fault_has_no_warning() -> None:
    assert list(dataset_warnings(load_dataset("law"))) == []


def test_validate_and_show_say_both(tmp_path: Path, ragsmith: Callable[..., Any]) -> None:
    folder = write(tmp_path / "mill", {"doc": "mill"}, {"doc": "note"}, questions=3)
    few, coarse = json.loads(ragsmith("dataset", "validate", folder, "--json").out)["warnings"]
    assert few.startswith("there are 3 questions, fewer than 20: none is held out for a test")
    assert "(3 of 6 spans a whole document)" in coarse
    shown = json.loads(ragsmith("dataset", "show", folder, "--json").out)["evidence"]
    assert [shown[name] for name in ("whole_documents", "whole_sections", "longer_than_chunks")] == [3, 0, 0]
    said = ragsmith("dataset", "validate", folder)
    assert said.code == 0
    assert few in said.err
    assert coarse in said.err
