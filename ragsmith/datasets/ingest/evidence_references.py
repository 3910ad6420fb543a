"""Count the questions with evidence in a document, even where ``questions.jsonl`` is invalid."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import normalize

from ragsmith.datasets.questions import FILE


@dataclass(frozen=True)
class EvidenceReferences:
    """Line numbers of questions with evidence, by document, and by text for evidence without a document."""

    lines: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    texts: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def from_dataset(cls, dataset: Path) -> EvidenceReferences:
        """Read the questions of a data set; invalid lines are skipped."""
        found = cls()
        path = dataset / FILE
        if not path.is_file():
            return found
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").split("\n")):
            try:
                record = json.loads(line) if line.strip() else {}
            except (ValueError, RecursionError):
                continue
            evidence = record.get("evidence") if isinstance(record, dict) else None
            for entry in evidence if isinstance(evidence, list) else ():
                if isinstance(entry, dict) and isinstance(entry.get("doc"), str):
                    found.lines[normalize("NFC", entry["doc"])].add(number)
                elif isinstance(entry, dict) and isinstance(entry.get("text"), str):
                    found.texts[entry["text"]].add(number)
        return found

    def count(self, doc: str, text: str) -> int:
        """Return the number of questions with evidence in document ``doc``, which has this ``text``."""
        quoted = (lines for quotation, lines in self.texts.items() if quotation in text)
        return len(self.lines.get(doc, set()).union(*quoted))
