"""Repair the evidence of a data set after its documents were edited; uncertain evidence is not changed."""

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from ragsmith.datasets.anchoring.matches import EvidenceMatch, MatchType, NoMatch
from ragsmith.datasets.anchoring.repair import (
    EvidenceRepair,
    LocalShifts,
    OldEvidence,
    RepairedEvidence,
    count_match_types,
    count_numbers,
)
from ragsmith.datasets.documents import read_documents, resolve_document_path
from ragsmith.datasets.evidence import ANY, EvidenceChecker, entry_places, evidence_record
from ragsmith.datasets.label_checks import PossibleAnswer, find_possible_answers
from ragsmith.datasets.languages import assign_languages
from ragsmith.datasets.locking import lock_questions
from ragsmith.datasets.manifest import read_optional_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.questions import MAX_BYTES, evidence_entries, read_questions
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.jsonl import json_lines, read_json_lines
from ragsmith.text.writing import write_file
from ragsmith.types import Document, Span

UNREPAIRED = "unrepaired.jsonl"
"""File of the evidence that was not repaired."""
REWORDED = "reworded.jsonl"
"""File of the evidence with changed words; the user reviews the evidence and removes the file."""
_REVIEW_KEYS = frozenset({"reviewed", "reviewer"})
"""Keys that a review adds to the ``origin`` of a drafted question."""


@dataclass(frozen=True, slots=True)
class UnrepairedEvidence:
    """Evidence that was not repaired, with the line and id of its question, and its number from 1.

    ``shifts`` are the shifts of the surrounding text since the evidence was written, in characters.
    """

    line: int
    id: str
    number: int
    entry: object
    reason: str
    candidates: tuple[EvidenceMatch, ...] = ()
    shifts: tuple[int, ...] | None = None

    def to_dict(self, documents: Mapping[str, Document]) -> dict[str, object]:
        """Return the JSON object of a line of `UNREPAIRED`."""
        return {
            "id": self.id,
            "line": self.line,
            "number": self.number,
            "evidence": self.entry,
            "reason": self.reason,
            "candidates": [match.to_dict(documents) for match in self.candidates],
            **({} if self.shifts is None else {"moved": list(self.shifts)}),
        }


@dataclass(frozen=True, slots=True)
class RewordedEvidence:
    """Evidence that was found with changed words: its question, its match type, and its texts before and after.

    A ``reopened`` question was reviewed, and has to be reviewed again.
    """

    line: int
    id: str
    number: int
    match_type: MatchType
    before: str
    after: tuple[str, ...]
    reopened: bool = False

    @property
    def changes_a_number(self) -> bool:
        """Whether the numbers in the evidence changed, so that the answer may have changed, too."""
        return count_numbers(self.before) != count_numbers(" ".join(self.after))

    def to_dict(self) -> dict[str, object]:
        """Return the JSON object of a line of `REWORDED`."""
        return {
            "line": self.line,
            "id": self.id,
            "evidence": self.number,
            "how": str(self.match_type),
            "before": self.before,
            "now": list(self.after),
            "changes_a_number": self.changes_a_number,
            "reopened": self.reopened,
        }


@dataclass(frozen=True, slots=True)
class RepairResult:
    """Result of a repair: counts of evidence by match type, evidence that was not repaired, and changed questions.

    ``possible_answers`` are the unanswerable questions that the documents may answer now.
    """

    match_counts: Mapping[str, int]
    unrepaired: tuple[UnrepairedEvidence, ...]
    changed_questions: int
    reworded: tuple[RewordedEvidence, ...] = ()
    possible_answers: tuple[PossibleAnswer, ...] = ()


def repair_dataset(folder: Path) -> RepairResult:
    """Locate the evidence in ``questions.jsonl`` in the present documents of ``folder``, and write the new spans.

    Lines whose evidence has not moved are preserved byte for byte. Evidence that is not found is preserved, and listed
    in ``unrepaired.jsonl``. Evidence with changed words is appended to ``reworded.jsonl``; if its question was drafted
    and reviewed, the review is removed.

    Raises:
        UsageError: ``folder`` has no questions.
        DatasetError: documents or questions cannot be read; no file is written then.
    """
    if not (folder / QUESTIONS).exists():
        raise UsageError(f"{folder} has no {QUESTIONS}: give the folder of a data set")
    with lock_questions(folder):
        manifest, mistakes = read_optional_manifest(folder)
        documents, wrong_documents = read_documents(folder, manifest.titles)
        mistakes += wrong_documents
        questions = read_json_lines(folder / QUESTIONS, MAX_BYTES)
        if mistakes := [*mistakes, *questions.mistakes.values()]:
            raise DatasetError(mistakes)
        valid = {id_: document for id_, document in documents.items() if document is not None}
        repair = _FolderRepair(valid, questions.records, _earlier_shifts(folder, documents))
        if repair.unrepaired:  # written first: once other evidence is rewritten, these shifts cannot be measured
            write_file(json_lines(each.to_dict(valid) for each in repair.unrepaired), folder / UNREPAIRED)
        if repair.reworded:  # also first: questions.jsonl does not show which words changed
            added = [json.dumps(each.to_dict(), ensure_ascii=False) for each in repair.reworded]
            distinct = dict.fromkeys([*_reworded_lines(folder), *added])
            write_file("".join(f"{line}\n" for line in distinct), folder / REWORDED)
        if repair.changed_lines:
            lines = questions.text.split("\n")
            for number, record in repair.changed_lines.items():
                lines[number - 1] = json.dumps(record, ensure_ascii=False)
            write_file("\n".join(lines), folder / QUESTIONS)
        if not repair.unrepaired:
            (folder / UNREPAIRED).unlink(missing_ok=True)
    known = assign_languages([*valid.values()], manifest.metadata.get("language"), manifest.languages)[0]
    return RepairResult(
        count_match_types(repair.outcomes),
        tuple(repair.unrepaired),
        len(repair.changed_lines),
        tuple(repair.reworded),
        tuple(find_possible_answers(read_questions(folder, documents)[0], known)),
    )


def count_reworded(folder: Path) -> int:
    """Return the number of pieces of evidence in ``reworded.jsonl``, which are to be reviewed."""
    return len(_reworded_lines(folder))


def relocate_evidence(entry: object, documents: Mapping[str, Document]) -> list[dict[str, object]]:
    """Return the records of an evidence entry in the present ``documents``; none if the match is uncertain.

    Of an entry with several places, those that are found remain.
    """
    if (places := entry_places(entry)) != [entry]:
        return _join_records(record for place in places for record in relocate_evidence(place, documents))
    piece = _old_evidence(entry, documents)
    if piece is None:
        return []
    outcome = EvidenceRepair(list(documents.values())).repair([piece])[piece]
    return _evidence_records(outcome, documents) if isinstance(outcome, RepairedEvidence) else []


def _join_records(places: Iterable[Any]) -> list[Any]:
    """Return the evidence that stands in each of the distinct ``places``; several may have moved to the same one."""
    distinct: list[Any] = []
    distinct += (place for place in places if place not in distinct)
    return [{ANY: distinct}] if len(distinct) > 1 else distinct


def _reworded_lines(folder: Path) -> list[str]:
    return [line for line in read_json_lines(folder / REWORDED, MAX_BYTES).text.split("\n") if line.strip()]


def _earlier_shifts(folder: Path, documents: Container[str]) -> dict[OldEvidence, tuple[int, ...]]:
    """Return the shifts around evidence that an earlier repair left; invalid lines are skipped."""
    earlier: dict[OldEvidence, tuple[int, ...]] = {}
    for record in read_json_lines(folder / UNREPAIRED, MAX_BYTES).records.values():
        piece, shifts = _old_evidence(record.get("evidence"), documents), record.get("moved")
        if piece is not None and isinstance(shifts, list):
            earlier[piece] = tuple(shift for shift in shifts if type(shift) is int)
    return earlier


def _evidence_records(repaired: RepairedEvidence, documents: Mapping[str, Document]) -> list[dict[str, object]]:
    return [evidence_record(match.span, documents[match.span.doc].text) for match in repaired.matches]


class _FolderRepair:
    """The repair of the questions in ``records``, by line; ``earlier`` has the shifts measured by earlier repairs."""

    def __init__(
        self,
        documents: Mapping[str, Document],
        records: Mapping[int, Mapping[str, object]],
        earlier: Mapping[OldEvidence, tuple[int, ...]],
    ) -> None:
        entries = chain.from_iterable(map(evidence_entries, records.values()))
        places = chain.from_iterable(map(entry_places, entries))
        pieces = [piece for place in places if (piece := _old_evidence(place, documents)) is not None]
        repair = EvidenceRepair(list(documents.values()))
        self._documents = documents
        self._repaired = repair.repair(pieces, earlier)
        self._shifts: Mapping[OldEvidence, LocalShifts] = repair.local_shifts(pieces, earlier)
        self._checker = EvidenceChecker(documents)
        self.changed_lines: dict[int, Mapping[str, object]] = {}
        self.outcomes: list[RepairedEvidence] = []
        self.reworded: list[RewordedEvidence] = []
        self.unrepaired: list[UnrepairedEvidence] = []
        for line, record in records.items():
            self._repair_line(line, record)

    def _repair_line(self, line: int, record: Mapping[str, object]) -> None:
        origin = record.get("origin")
        origin = origin if isinstance(origin, dict) else {}
        reviewed = bool(origin.keys() & _REVIEW_KEYS)
        reworded_before = len(self.reworded)
        entries: list[object] = []
        for number, entry in enumerate(evidence_entries(record), start=1):
            repaired = self._repair_entry(entry, line, str(record.get("id", "")), number, reviewed=reviewed)
            entries += [each for each in repaired if each not in entries]
        if entries == evidence_entries(record):
            return
        self.changed_lines[line] = {**record, "evidence": entries}
        if reviewed and len(self.reworded) > reworded_before:
            unreviewed = {key: value for key, value in origin.items() if key not in _REVIEW_KEYS}
            self.changed_lines[line] = {**self.changed_lines[line], "origin": unreviewed}

    def _repair_places(self, places: list[object], line: int, id_: str, number: int, *, reviewed: bool) -> list[object]:
        """Return the replacement of evidence in several ``places``: those that are found, unless none is."""
        before = len(self.unrepaired)
        found: list[object] = []
        for place in places:
            lost = len(self.unrepaired)
            repaired = self._repair_entry(place, line, id_, number, reviewed=reviewed)
            found += repaired if len(self.unrepaired) == lost else []
        if found:
            del self.unrepaired[before:]
        return _join_records(found)

    def _repair_entry(self, entry: object, line: int, id_: str, number: int, *, reviewed: bool) -> Iterable[object]:
        """Return the replacements of an entry of ``evidence``: the entry itself if it is not repaired."""
        if (places := entry_places(entry)) != [entry]:
            return self._repair_places(places, line, id_, number, reviewed=reviewed) or [entry]
        piece = _old_evidence(entry, self._documents)
        outcome = self._repaired[piece] if piece else None
        repaired = outcome if isinstance(outcome, RepairedEvidence) else None
        records = _evidence_records(repaired, self._documents) if repaired else [entry]
        problems = self._checker.spans(records)[1]
        if isinstance(outcome, NoMatch) or problems:
            no_match = outcome if isinstance(outcome, NoMatch) else None
            reason = no_match.reason if no_match else problems[0].removeprefix("evidence 1: ")
            shifts = tuple(sorted(self._shifts[piece])) if piece else None
            candidates = no_match.candidates if no_match else ()
            self.unrepaired.append(UnrepairedEvidence(line, id_, number, entry, reason, candidates, shifts))
            return [entry]
        if repaired:
            self.outcomes.append(repaired)
            if repaired.match_type in (MatchType.FUZZY, MatchType.BY_SENTENCES):
                texts = tuple(self._documents[m.span.doc].text[m.span.start : m.span.end] for m in repaired.matches)
                reworded = RewordedEvidence(
                    line, id_, number, repaired.match_type, repaired.piece.text, texts, reviewed
                )
                self.reworded.append(reworded)
        return records


def _old_evidence(entry: object, documents: Container[str]) -> OldEvidence | None:
    """Return the span and text of an entry that has both, else None."""
    match entry:
        case {"doc": str(doc), "start": int(start), "end": int(end), "text": str(text), **others}:
            if text.strip() and not others and not isinstance(start, bool) and not isinstance(end, bool):
                return OldEvidence(Span(resolve_document_path(doc, documents), start, end), text)
    return None
