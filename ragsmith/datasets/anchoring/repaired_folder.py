"""The evidence of a data set's folder is put right after its documents were edited; what is not sure stays as it is."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ragsmith.datasets.anchoring.anchored_folder import candidate_record
from ragsmith.datasets.anchoring.places import EvidenceMatch, MatchType, NoMatch
from ragsmith.datasets.anchoring.repair import (
    EvidenceRepair,
    OldEvidence,
    RepairedEvidence,
    count_match_types,
    count_numbers,
)
from ragsmith.datasets.documents import read_documents
from ragsmith.datasets.evidence import KEYS, EvidenceChecker, evidence_record
from ragsmith.datasets.locking import locked
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import read_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.questions import MAX_BYTES
from ragsmith.errors import DatasetError
from ragsmith.text.jsonl import json_lines, read_json_lines
from ragsmith.text.writing import write_file
from ragsmith.types import Document, Span

UNREPAIRED = "unrepaired.jsonl"
REWORDED = "reworded.jsonl"
"""What repairs found in other words, until a person has looked at it and removes the file."""
_REVIEW = frozenset({"reviewed", "reviewer"})
"""What a review of a drafted question leaves in its ``origin``."""


@dataclass(frozen=True, slots=True)
class UnrepairedEvidence:
    """A piece of evidence that was not repaired: on which ``line``, of which question, the which, from 1, and why."""

    line: int
    id: str
    number: int
    entry: object
    why: str
    candidates: tuple[EvidenceMatch, ...] = ()
    moved: tuple[int, ...] | None = None
    """By how much the text around it has moved since it was written, where that is known to matter."""


@dataclass(frozen=True, slots=True)
class RewordedEvidence:
    """A piece of evidence whose words are others now: where it is, how it was found, its text before and its texts."""

    line: int
    id: str
    number: int
    how: MatchType
    before: str
    now: tuple[str, ...]
    reopened: bool = False
    """Whether a person had reviewed the question as it was, so that it is to be reviewed again."""

    @property
    def changes_a_number(self) -> bool:
        """Whether a number in it is gone or new: the answer to its question may be another now."""
        return count_numbers(self.before) != count_numbers(" ".join(self.now))

    def plain(self) -> dict[str, object]:
        """For programs and for `REWORDED`."""
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
    """What was done to ``questions.jsonl``: pieces of evidence by how they were found, and those that were not."""

    hows: Mapping[str, int]
    left: tuple[UnrepairedEvidence, ...]
    changed: int
    """Lines that were written anew."""
    reworded: tuple[RewordedEvidence, ...] = ()


def repair_folder(folder: Path) -> RepairedFolder:
    """Find the evidence of ``questions.jsonl`` in the documents of ``folder`` as they are, and write where it stands.

    Lines whose evidence stands where it stood are kept to the letter, and so is evidence that is not found, which is
    listed in ``unrepaired.jsonl``. What was found in other words is added to ``reworded.jsonl``, and a drafted question
    that a person had reviewed with the old words is to be reviewed again. Raises ``DatasetError`` when the documents or
    the lines cannot be read; nothing is written then.
    """
    with locked(folder):
        return _repair_folder(folder)


def _repair_folder(folder: Path) -> RepairedFolder:
    manifest, wrong = read_manifest(folder) if (folder / MANIFEST).exists() else (None, [])
    documents, mistakes = read_documents(folder, manifest.titles if manifest else None)
    there = read_json_lines(folder / QUESTIONS, MAX_BYTES)
    if not (folder / QUESTIONS).exists():
        mistakes.append(f"{QUESTIONS}: is missing")
    if found_wrong := [*wrong, *mistakes, *there.mistakes.values()]:
        raise DatasetError(found_wrong)
    lines, records = there.text.split("\n"), there.records
    known = {id_: document for id_, document in documents.items() if document is not None}
    found = _repaired(records, known, _moved_before(folder))
    left = found.left
    if left:  # first: how far the text around them moved is not seen any more once the others are written anew
        write_file(json_lines(_listed(each, known) for each in left), folder / UNREPAIRED)
    if found.reworded:  # first, too: once questions.jsonl has the new words, nothing tells them from others
        added = [json.dumps(each.plain(), ensure_ascii=False) for each in found.reworded]
        listing = dict.fromkeys([*_reworded_before(folder), *added])
        write_file("".join(f"{line}\n" for line in listing), folder / REWORDED)
    for number, record in found.changed.items():
        lines[number - 1] = json.dumps(record, ensure_ascii=False)
    if found.changed:
        write_file("\n".join(lines), folder / QUESTIONS)
    if not left:
        (folder / UNREPAIRED).unlink(missing_ok=True)
    return RepairedFolder(count_match_types(found.outcomes), tuple(left), len(found.changed), tuple(found.reworded))


def count_reworded(folder: Path) -> int:
    """How many pieces of evidence repairs found in other words, by the file that lists them until somebody looked."""
    return len(_reworded_before(folder))


def _reworded_before(folder: Path) -> list[str]:
    text = read_json_lines(folder / REWORDED, MAX_BYTES).text
    return [line for line in text.split("\n") if line.strip()]


def _moved_before(folder: Path) -> dict[OldEvidence, tuple[int, ...]]:
    """By how much the text around pieces had moved that an earlier repair left; broken lines say nothing."""
    found: dict[OldEvidence, tuple[int, ...]] = {}
    for record in read_json_lines(folder / UNREPAIRED, MAX_BYTES).records.values():
        piece, shifts = _old_evidence(record.get("evidence")), record.get("moved")
        if piece is not None and isinstance(shifts, list):
            found[piece] = tuple(shift for shift in shifts if type(shift) is int)
    return found


def relocate_evidence(entry: object, documents: Mapping[str, Document]) -> list[dict[str, object]]:
    """Return one piece of evidence as it stands in ``documents``, in several places where its text was torn apart.

    There is none where it is not sure.
    """
    piece = _old_evidence(entry)
    if piece is None:
        return []
    outcome = EvidenceRepair(list(documents.values())).repair([piece])[piece]
    return _entries(outcome, documents) if isinstance(outcome, RepairedEvidence) else []


def _entries(repaired: RepairedEvidence, documents: Mapping[str, Document]) -> list[dict[str, object]]:
    return [evidence_record(place.span, documents[place.span.doc].text) for place in repaired.places]


@dataclass
class _Repairs:
    """Repairs the evidence of ``documents``, line by line, and collects what became of it."""

    documents: Mapping[str, Document]
    repaired: Mapping[OldEvidence, RepairedEvidence | NoMatch]
    around: Mapping[OldEvidence, Collection[int]]
    checker: EvidenceChecker
    changed: dict[int, Mapping[str, object]] = field(default_factory=dict)
    outcomes: list[RepairedEvidence | NoMatch] = field(default_factory=list)
    reworded: list[RewordedEvidence] = field(default_factory=list)
    left: list[UnrepairedEvidence] = field(default_factory=list)

    def repair(self, number: int, record: Mapping[str, object]) -> None:
        """Repair the evidence on a line."""
        evidence = record.get("evidence")
        if not isinstance(evidence, list):
            return
        mended: list[object] = []
        unsure = False
        reviewed = bool(_origin(record).keys() & _REVIEW)
        for at, entry in enumerate(evidence, start=1):
            piece = _old_evidence(entry)
            outcome = self.repaired[piece] if piece else None
            new = _entries(outcome, self.documents) if isinstance(outcome, RepairedEvidence) else [entry]
            problems = [outcome.reason] if isinstance(outcome, NoMatch) else self.checker.spans(new)[1]
            if outcome is not None and not (problems and isinstance(outcome, RepairedEvidence)):
                self.outcomes.append(outcome)
            id_ = str(record.get("id", ""))
            if problems:
                candidates = outcome.candidates if isinstance(outcome, NoMatch) else ()
                shifted = tuple(sorted(self.around[piece])) if piece else None
                why = problems[0].removeprefix("evidence 1: ")
                self.left.append(UnrepairedEvidence(number, id_, at, entry, why, candidates, shifted))
                new = [entry]
            elif piece and isinstance(outcome, RepairedEvidence) and outcome.how in (MatchType.FUZZY, MatchType.PARTS):
                now = tuple(str(one["text"]) for one in _entries(outcome, self.documents))
                self.reworded.append(RewordedEvidence(number, id_, at, outcome.how, piece.text, now, reviewed))
                unsure = True
            mended += [each for each in new if each not in mended]
        if mended != evidence:
            self.changed[number] = {**record, "evidence": mended}
            if unsure and reviewed:
                origin = {key: said for key, said in _origin(record).items() if key not in _REVIEW}
                self.changed[number] = {**self.changed[number], "origin": origin}


def _repaired(
    records: Mapping[int, Mapping[str, object]],
    documents: Mapping[str, Document],
    before: Mapping[OldEvidence, tuple[int, ...]],
) -> _Repairs:
    listed = [entries for record in records.values() if isinstance(entries := record.get("evidence"), list)]
    stood = [piece for entries in listed for entry in entries if (piece := _old_evidence(entry))]
    repair = EvidenceRepair(list(documents.values()))
    found = _Repairs(documents, repair.repair(stood, before), repair.around(stood, before), EvidenceChecker(documents))
    for number, record in records.items():
        found.repair(number, record)
    return found


def _origin(record: Mapping[str, object]) -> Mapping[str, object]:
    origin = record.get("origin")
    return origin if isinstance(origin, dict) else {}


def _old_evidence(entry: object) -> OldEvidence | None:
    """The span and text of evidence that has both."""
    if not isinstance(entry, dict) or entry.keys() != set(KEYS):
        return None
    doc, start, end, text = (entry[key] for key in KEYS)
    if not (
        isinstance(doc, str) and isinstance(text, str) and type(start) is int and type(end) is int and text.strip()
    ):
        return None
    return OldEvidence(Span(unicodedata.normalize("NFC", doc), start, end), text)


def _listed(left: UnrepairedEvidence, documents: Mapping[str, Document]) -> dict[str, object]:
    places = [candidate_record(place, documents) for place in left.candidates]
    about = {"id": left.id, "line": left.line, "number": left.number, "evidence": left.entry, "reason": left.why}
    return {**about, "candidates": places, **({} if left.moved is None else {"moved": list(left.moved)})}
