"""Writes a tiny data set to a folder, for tests to read or to break."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ragsmith.datasets.dataset import load_dataset

ALPHA = "# Alpha\n\nThe alpha rule holds since 1990. It ends in May.\n"
BETA = "Beta has no heading.\r\nIts second line, caf\u00e9.\n"


def evidence(doc: str, whole: str, text: str) -> dict[str, Any]:
    """Return the evidence that ``text`` is in document ``doc``."""
    start = whole.index(text)
    return {"doc": doc, "start": start, "end": start + len(text), "text": text}


def record(number: int, **changes: Any) -> dict[str, Any]:
    """Return a question without mistakes, with ``changes``; a change to ``None`` removes the key."""
    base: dict[str, Any] = {
        "id": f"q{number}",
        "question": f"Question {number}?",
        "answer": "Since 1990.",
        "type": "factual",
        "evidence": [evidence("alpha", ALPHA, "The alpha rule holds since 1990.")],
    }
    return {key: value for key, value in {**base, **changes}.items() if value is not None}


def questions(folder: Path, *lines: dict[str, Any] | str | bytes) -> None:
    """Write ``questions.jsonl``."""
    raw = [
        line if isinstance(line, bytes) else (line if isinstance(line, str) else json.dumps(line)).encode()
        for line in lines
    ]
    (folder / "questions.jsonl").write_bytes(b"".join(line + b"\n" for line in raw))


def small_dataset(folder: Path) -> Path:
    """Write a data set of two documents and three questions; return its folder."""
    (folder / "documents").mkdir(parents=True)
    (folder / "dataset.yaml").write_text("name: small\ntitle: Small\nlicence: CC0\nlanguage: en\n")
    (folder / "documents" / "alpha.md").write_bytes(ALPHA.encode())
    (folder / "documents" / "beta.txt").write_bytes(BETA.encode())
    both = [evidence("beta", BETA, "Its second line"), evidence("alpha", ALPHA, "It ends in May.")]
    questions(folder, record(1), record(2, type="multi", evidence=both), record(3, answer="May."))
    return folder


def spans_of(folder: Path) -> dict[str, list[str]]:
    """Return the texts of the evidence of each question in a data set's folder."""
    data = load_dataset(folder)
    texts = {document.id: document.text for document in data.documents}
    return {e.id: [texts[span.doc][span.start : span.end] for span in e.evidence] for e in data.examples}
