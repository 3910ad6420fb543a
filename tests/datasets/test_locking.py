"""Processes that replace the questions of a data set wait for each other and lose no changes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from ragsmith.datasets.anchoring.anchor_dataset import anchor_list
from ragsmith.datasets.anchoring.repair_dataset import repair_dataset
from ragsmith.datasets.ingest.ingest import ingest_folder
from ragsmith.datasets.locking import lock_questions
from ragsmith.datasets.questions import write_offsets

TEXT = "# Gate\n\nThe gate is shut at nine.\n"
QUOTE = "The gate is shut at nine."


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "gate.md").write_text(TEXT)
    ingest_folder(tmp_path / "files", tmp_path / "made")
    return tmp_path / "made"


def row(number: int, **evidence: object) -> str:
    return json.dumps({"id": f"q{number}", "question": "When?", "answer": "At nine.", "evidence": [evidence]}) + "\n"


def meanwhile(folder: Path, change: Callable[[], object], lines: str) -> None:
    """Start ``change`` while another thread holds the lock, which then writes ``lines``."""
    with lock_questions(folder):
        other = threading.Thread(target=change)
        other.start()
        other.join(0.3)
        (folder / "questions.jsonl").write_text(lines)
    other.join(20)
    assert not other.is_alive()


def spans(folder: Path) -> list[tuple[int, str]]:
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    return [(entry["start"], entry["text"]) for row in rows for entry in row["evidence"]]


def test_offsets_are_added_to_concurrently_written_questions(folder: Path) -> None:
    (folder / "questions.jsonl").write_text(row(1, text=QUOTE))
    meanwhile(folder, lambda: write_offsets(folder), row(1, text=QUOTE) + row(2, text=QUOTE))
    assert spans(folder) == [(TEXT.index(QUOTE), QUOTE)] * 2


def test_concurrently_written_evidence_is_repaired(folder: Path) -> None:
    old = {"doc": "gate", "start": 0, "end": len(QUOTE), "text": QUOTE}
    (folder / "questions.jsonl").write_text(row(1, **old))
    meanwhile(folder, lambda: repair_dataset(folder), row(1, **old) + row(2, **old))
    assert spans(folder) == [(TEXT.index(QUOTE), QUOTE)] * 2


def test_anchored_questions_are_appended_to_concurrently_written_ones(folder: Path, tmp_path: Path) -> None:
    asked = tmp_path / "asked.jsonl"
    asked.write_text(json.dumps({"id": "a1", "question": "When is it shut?", "answer": "At nine.", "quote": QUOTE}))
    kept = row(1, text=QUOTE)
    meanwhile(folder, lambda: anchor_list(asked, folder), kept)
    lines = (folder / "questions.jsonl").read_text().splitlines(keepends=True)
    assert (lines[0], [json.loads(line)["id"] for line in lines]) == (kept, ["q1", "a1"])


def test_a_document_with_concurrently_written_evidence_is_not_moved_away(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "files" / "gate.md").rename(tmp_path / "files" / "pump.md")
    (tmp_path / "files" / "pump.md").write_text("# Pump\n\nThe pump is red.\n")
    meanwhile(folder, lambda: ingest_folder(tmp_path / "files", folder), row(1, doc="gate", text=QUOTE))
    assert (folder / "documents" / "gate.md").read_text() == TEXT
