"""Write the offsets of quoted evidence to ``questions.jsonl``, so that it stays unique when text is added."""

from __future__ import annotations

import json
from pathlib import Path

from ragsmith.datasets.documents import Documents, read_documents
from ragsmith.datasets.evidence import EvidenceChecker, evidence_record, needs_place
from ragsmith.datasets.locking import locked
from ragsmith.datasets.questions import FILE, MAX_BYTES, read_questions
from ragsmith.errors import DatasetError
from ragsmith.text.files import read_text
from ragsmith.text.jsonl import Record, parse_record
from ragsmith.text.writing import write_file


def write_offsets(folder: Path) -> int:
    """Add ``doc``, ``start`` and ``end`` to evidence that is a ``text`` without offsets; return the number of pieces.

    Other lines stay byte for byte, and so does evidence with a place, which means all of that place. The file is
    replaced atomically.

    Raises:
        DatasetError: documents or questions have mistakes; it lists all of them.
    """
    with locked(folder):
        documents, wrong_documents = read_documents(folder)
        _, wrong_questions = read_questions(folder, documents)
        if mistakes := (*wrong_documents, *wrong_questions):
            raise DatasetError(mistakes)
        lines, written = [], 0
        checker = EvidenceChecker(documents)
        for line in read_text(folder / FILE, limit=MAX_BYTES).split("\n"):
            record = parse_record(line) if line.strip() else {}
            if count := sum(map(_is_quotation, _entries(record))):
                written += count
                ending = "\r" if line.endswith("\r") else ""
                lines.append(json.dumps(_with_offsets(record, checker, documents), ensure_ascii=False) + ending)
            else:
                lines.append(line)
        if written:
            write_file("\n".join(lines), folder / FILE)
    return written


def _with_offsets(record: Record, checker: EvidenceChecker, documents: Documents) -> Record:
    evidence: list[object] = []
    for entry in _entries(record):
        span = checker.span(entry)[0] if _is_quotation(entry) else None
        document = documents[span.doc] if span else None
        if span is None or document is None:
            evidence.append(entry)
        else:
            evidence.append(evidence_record(span, document.text))
    return {**record, "evidence": evidence}


def _entries(record: Record) -> list[object]:
    evidence = record.get("evidence")
    return evidence if isinstance(evidence, list) else []


def _is_quotation(entry: object) -> bool:
    return isinstance(entry, dict) and "text" in entry and needs_place(entry)
