"""Which documents questions have their evidence in, whatever state the questions are in."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from unicodedata import normalize

from ragsmith.datasets.questions import FILE


@dataclass(frozen=True)
class EvidenceReferences:
    """The numbers of the lines with evidence in a document, by document, and those with evidence as a text alone."""

    lines: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    texts: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))

    @classmethod
    def read(cls, dataset: Path) -> EvidenceReferences:
        """Read the questions of a data set; a line that is wrong points at nothing, and is left for others to mend."""
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

    def at(self, doc: str, text: str) -> int:
        """How many questions have evidence in document ``doc``, which has this ``text``."""
        quoted = (lines for quotation, lines in self.texts.items() if quotation in text)
        return len(self.lines.get(doc, set()).union(*quoted))
