"""Writes a data set with drafted questions to a folder, and reads what a review made of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PLACES = ("harbour", "mill")
FACTS = (
    "The gate opens at six, and the keeper rings a bell.",
    "Grain is weighed twice before it is stored.",
    "A lantern burns at the end of the pier all night.",
    "Nobody may carry fire across the yard.",
)


def text_of(place: str) -> str:
    """A document: the same facts stand in each, so that a quote is unique in its document and not among all."""
    return f"# The {place}\r\n\r\n" + "\n\n".join(FACTS) + "\n\nThe bell is rung. The bell is rung.\n"


def drafted_row(number: int, **changes: Any) -> dict[str, Any]:
    """A drafted question about fact ``number``; a change to ``None`` removes the key."""
    doc, fact = PLACES[number % 2], FACTS[number % len(FACTS)]
    start = text_of(doc).index(fact)
    base = {
        "id": f"draft-{number:03}",
        "question": f"What is said of number {number} at the {doc}?",
        "answer": fact.split(",")[0] + ".",
        "type": ("factual", "interpretation")[number % 3 == 0],
        "evidence": [{"doc": doc, "start": start, "end": start + len(fact), "text": fact}],
        "origin": {
            "by": "drafted",
            "method": ("definitions", "headings")[number % 5 == 0],
            "passage": {"doc": doc, "start": start, "end": start + len(fact)},
        },
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def drafted_dataset(folder: Path, count: int = 6, *more: dict[str, Any]) -> Path:
    """Write a data set with a written question, ``count`` drafted ones and ``more`` rows."""
    (folder / "documents").mkdir(parents=True)
    (folder / "dataset.yaml").write_text("name: yard\ntitle: The yard\n")
    for place in PLACES:
        (folder / "documents" / f"{place}.md").write_bytes(text_of(place).encode())
    written = {key: value for key, value in drafted_row(0).items() if key != "origin"}
    write_rows(folder, [{**written, "id": "written-1"}, *(drafted_row(number) for number in range(count)), *more])
    return folder


def write_rows(folder: Path, rows: list[dict[str, Any]], name: str = "questions.jsonl") -> None:
    """Write a file of rows."""
    (folder / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def rows_of(folder: Path, name: str = "questions.jsonl") -> dict[str, dict[str, Any]]:
    """The rows of a file by identifier, of which each stands once."""
    path = folder / name
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}
