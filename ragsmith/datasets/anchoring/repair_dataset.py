"""Repair the evidence of a data set after its documents were edited; what is uncertain stays as it is."""

import json
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch
from ragsmith.datasets.anchoring.repair import (
    Around,
    EvidenceRepair,
    OldEvidence,
    RepairedEvidence,
    count_match_types,
    count_numbers,
)
from ragsmith.datasets.documents import read_documents
from ragsmith.datasets.evidence import KEYS, EvidenceChecker, evidence_record
from ragsmith.datasets.locking import lock_questions
from ragsmith.datasets.manifest import read_optional_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.questions import MAX_BYTES
from ragsmith.errors import DatasetError
from ragsmith.text.jsonl import json_lines, read_json_lines
from ragsmith.text.writing import write_file
from ragsmith.types import Document, Span

UNREPAIRED = "unrepaired.jsonl"
REWORDED = "reworded.jsonl"
"""Evidence that repairs found with other words; a person checks it and removes the file."""
_REVIEW_KEYS = frozenset({"reviewed", "reviewer"})
"""What a review of a drafted question adds to its ``origin``."""


@dataclass(frozen=True, slots=True)
class UnrepairedEvidence:
    """Evidence that was not repaired: the line and id of its question, its number from 1, and why."""

    line: int
    id: str
    number: int
    entry: object
    why: str
    candidates: tuple[EvidenceMatch, ...] = ()
    moved: tuple[int, ...] | None = None
    """Shifts in characters of the surrounding text since the evidence was written, if known to matter."""

    def to_dict(self, documents: Mapping[str, Document]) -> dict[str, object]:
        """Return the line of `UNREPAIRED`."""
        return {
            "id": self.id,
            "line": self.line,
            "number": self.number,
            "evidence": self.entry,
            "reason": self.why,
            "candidates": [match.to_dict(documents) for match in self.candidates],
            **({} if self.moved is None else {"moved": list(self.moved)}),
        }


@dataclass(frozen=True, slots=True)
class RewordedEvidence:
    """Evidence that was found with other words: its question, how it was found, and its texts before and now."""

    line: int
    id: str
    number: int
    how: MatchType
    before: str
    now: tuple[str, ...]
    reopened: bool = False
    """Whether a reviewed question has to be reviewed again."""

    @property
    def changes_a_number(self) -> bool:
        """Whether its numbers changed, so that the answer may have changed, too."""
        return count_numbers(self.before) != count_numbers(" ".join(self.now))

    def to_dict(self) -> dict[str, object]:
        """Return the line of `REWORDED`."""
        return {
            "line": self.line,
            "id": self.id,
            "evidence": self.number,
            "how": str(self.how),
            "before": self.before,
            "now": list(self.now),
            "changes_a_number": self.changes_a_number,
            "reopened": self.reopened,
        }


@dataclass(frozen=True, slots=True)
class RepairedFolder:
    """Result of a repair: counts of evidence by match type, evidence left as it was, and changed lines."""

    hows: Mapping[str, int]
    left: tuple[UnrepairedEvidence, ...]
    changed: int
    reworded: tuple[RewordedEvidence, ...] = ()


def repair_folder(folder: Path) -> RepairedFolder:
    """Find the evidence of ``questions.jsonl`` in the present documents of ``folder`` and write its new spans.

    Lines whose evidence has not moved stay byte for byte, and so does evidence that is not found, which
    ``unrepaired.jsonl`` lists. Evidence found with other words is appended to ``reworded.jsonl``, and a drafted
    question that was reviewed with the old words has to be reviewed again.

    Raises:
        DatasetError: the documents or the lines cannot be read; nothing is written then.
    """
    with lock_questions(folder):
        manifest, mistakes = read_optional_manifest(folder)
        documents, wrong_documents = read_documents(folder, manifest.titles)
        mistakes += wrong_documents
        questions = read_json_lines(folder / QUESTIONS, MAX_BYTES)
        if not (folder / QUESTIONS).exists():
            mistakes.append(f"{QUESTIONS}: is missing")
        if mistakes := [*mistakes, *questions.mistakes.values()]:
            raise DatasetError(mistakes)
        known = {id_: document for id_, document in documents.items() if document is not None}
        found = _FolderRepair(known, questions.records, _earlier_shifts(folder))
        if found.left:  # first: once the others are rewritten, the shifts around these cannot be measured
            write_file(json_lines(each.to_dict(known) for each in found.left), folder / UNREPAIRED)
        if found.reworded:  # first, too: questions.jsonl does not show which words are new
            added = [json.dumps(each.to_dict(), ensure_ascii=False) for each in found.reworded]
            listing = dict.fromkeys([*_reworded_lines(folder), *added])
            write_file("".join(f"{line}\n" for line in listing), folder / REWORDED)
        if found.changed:
            lines = questions.text.split("\n")
            for number, record in found.changed.items():
                lines[number - 1] = json.dumps(record, ensure_ascii=False)
            write_file("\n".join(lines), folder / QUESTIONS)
        if not found.left:
            (folder / UNREPAIRED).unlink(missing_ok=True)
    hows = count_match_types(found.outcomes)
    return RepairedFolder(hows, tuple(found.left), len(found.changed), tuple(found.reworded))


def count_reworded(folder: Path) -> int:
    """Return the number of pieces of evidence in ``reworded.jsonl``, which a person has not checked yet."""
    return len(_reworded_lines(folder))


def relocate_evidence(entry: object, documents: Mapping[str, Document]) -> list[dict[str, object]]:
    """Return evidence at its present places in ``documents``, several if its text was split; none if uncertain."""
    piece = _old_evidence(entry)
    if piece is None:
        return []
    outcome = EvidenceRepair(list(documents.values())).repair([piece])[piece]
    return _evidence_records(outcome, documents) if isinstance(outcome, RepairedEvidence) else []


def _reworded_lines(folder: Path) -> list[str]:
    return [line for line in read_json_lines(folder / REWORDED, MAX_BYTES).text.split("\n") if line.strip()]


def _earlier_shifts(folder: Path) -> dict[OldEvidence, tuple[int, ...]]:
    """Return the shifts around evidence that an earlier repair left; invalid lines are skipped."""
    found: dict[OldEvidence, tuple[int, ...]] = {}
    for record in read_json_lines(folder / UNREPAIRED, MAX_BYTES).records.values():
        piece, shifts = _old_evidence(record.get("evidence")), record.get("moved")
        if piece is not None and isinstance(shifts, list):
            found[piece] = tuple(shift for shift in shifts if type(shift) is int)
    return found


def _evidence_records(repaired: RepairedEvidence, documents: Mapping[str, Document]) -> list[dict[str, object]]:
    return [evidence_record(place.span, documents[place.span.doc].text) for place in repaired.places]


class _FolderRepair:
    """The repair of the questions in ``records``, by line; ``earlier`` are shifts measured by earlier repairs."""

    def __init__(
        self,
        documents: Mapping[str, Document],
        records: Mapping[int, Mapping[str, object]],
        earlier: Mapping[OldEvidence, tuple[int, ...]],
    ) -> None:
        pieces = [piece for record in records.values() for piece in map(_old_evidence, _entries(record)) if piece]
        repair = EvidenceRepair(list(documents.values()))
        self._documents = documents
        self._repaired = repair.repair(pieces, earlier)
        self._around: Mapping[OldEvidence, Around] = repair.around(pieces, earlier)
        self._checker = EvidenceChecker(documents)
        self.changed: dict[int, Mapping[str, object]] = {}
        self.outcomes: list[RepairedEvidence] = []
        self.reworded: list[RewordedEvidence] = []
        self.left: list[UnrepairedEvidence] = []
        for line, record in records.items():
            self._repair_line(line, record)

    def _repair_line(self, line: int, record: Mapping[str, object]) -> None:
        origin = record.get("origin")
        origin = origin if isinstance(origin, dict) else {}
        reviewed = bool(origin.keys() & _REVIEW_KEYS)
        reworded_before = len(self.reworded)
        entries: list[object] = []
        for number, entry in enumerate(_entries(record), start=1):
            repaired = self._repair_entry(entry, line, str(record.get("id", "")), number, reviewed=reviewed)
            entries += [each for each in repaired if each not in entries]
        if entries == list(_entries(record)):
            return
        self.changed[line] = {**record, "evidence": entries}
        if reviewed and len(self.reworded) > reworded_before:
            kept = {key: value for key, value in origin.items() if key not in _REVIEW_KEYS}
            self.changed[line] = {**self.changed[line], "origin": kept}

    def _repair_entry(self, entry: object, line: int, id_: str, number: int, *, reviewed: bool) -> Iterable[object]:
        """Return what replaces an entry of ``evidence``: the entry itself if it is left."""
        piece = _old_evidence(entry)
        outcome = self._repaired[piece] if piece else None
        repaired = outcome if isinstance(outcome, RepairedEvidence) else None
        records = _evidence_records(repaired, self._documents) if repaired else [entry]
        problems = self._checker.spans(records)[1]
        if isinstance(outcome, NoMatch) or problems:
            match = outcome if isinstance(outcome, NoMatch) else None
            why = match.reason if match else problems[0].removeprefix("evidence 1: ")
            shifts = tuple(sorted(self._around[piece])) if piece else None
            candidates = match.candidates if match else ()
            self.left.append(UnrepairedEvidence(line, id_, number, entry, why, candidates, shifts))
            return [entry]
        if repaired:
            self.outcomes.append(repaired)
            if repaired.how in (MatchType.FUZZY, MatchType.BY_SENTENCES):
                texts = tuple(self._documents[at.span.doc].text[at.span.start : at.span.end] for at in repaired.places)
                reworded = RewordedEvidence(line, id_, number, repaired.how, repaired.piece.text, texts, reviewed)
                self.reworded.append(reworded)
        return records


def _entries(record: Mapping[str, object]) -> list[object]:
    evidence = record.get("evidence")
    return evidence if isinstance(evidence, list) else []


def _old_evidence(entry: object) -> OldEvidence | None:
    """Return the span and text of an entry that has both, else None."""
    if not isinstance(entry, dict) or entry.keys() != set(KEYS):
        return None
    match entry:
        case {"doc": str(doc), "start": int(start), "end": int(end), "text": str(text)} if text.strip():
            if not isinstance(start, bool) and not isinstance(end, bool):
                return OldEvidence(Span(unicodedata.normalize("NFC", doc), start, end), text)
    return None
