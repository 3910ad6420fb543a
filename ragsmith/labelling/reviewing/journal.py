"""Write-ahead log of a review: each decision is a line of ``review.jsonl`` before it changes another file.

A decision changes two files, ``questions.jsonl`` and ``rejected.jsonl``, and the process may be killed between the two
writes, or the disk be full. A line is therefore appended and synced first; then the files are replaced atomically, and
a line ``{"applied": true}`` records that they show all decisions before it. The next process applies the decisions
after the last such line. An incomplete last line was never confirmed, and is removed.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.errors import DatasetError
from ragsmith.labelling.reviewing.decisions import DecisionState, Row
from ragsmith.text.files import TextError
from ragsmith.text.jsonl import parse_json_lines, parse_record
from ragsmith.text.writing import replace_file, sync_folder

JOURNAL = "review.jsonl"
REJECTED = "rejected.jsonl"


APPLIED = b'{"applied": true}\n'

_NOT_UTF8 = re.compile("[\udc80-\udcff]")
"""Bytes that are not UTF-8, as ``surrogateescape`` decodes them."""


class Unapplied(OSError):
    """A decision is in the journal, but could not be applied to the other files."""


class FolderDisk:
    """Files in the folder of a data set that a review changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> bytes:
        """Return the contents of a file; empty if it does not exist."""
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    def append(self, name: str, data: bytes) -> None:
        """Append to a file atomically, and sync it."""
        path = self.folder / name
        new = not path.exists()
        with path.open("ab", buffering=0) as file:
            length = os.fstat(file.fileno()).st_size
            left = memoryview(data)
            try:
                while left:  # a write to a nearly full disk may be partial
                    left = left[file.write(left) :]
                os.fsync(file)
            except OSError:
                file.truncate(length)
                raise
        if new:
            sync_folder(self.folder)

    def cut(self, name: str, length: int) -> None:
        """Truncate a file to ``length`` bytes."""
        os.truncate(self.folder / name, length)

    def replace(self, name: str, data: bytes) -> None:
        """Replace a file atomically, and sync it."""
        replace_file(data, self.folder / name)

    def fingerprint(self, name: str) -> tuple[int, ...]:
        """Return a value that changes with the file; empty if it does not exist."""
        try:
            status = (self.folder / name).stat()
        except FileNotFoundError:
            return ()
        return status.st_ino, status.st_mtime_ns, status.st_size


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """Line of the journal.

    ``state`` is the new state of the draft, `DecisionState.PENDING` for a revoked decision; ``before`` and ``after``
    are its rows. An unfinished edit has ``state`` None and its values in ``after``, empty if the edit was discarded.
    """

    id: str
    state: DecisionState | None
    reviewer: str
    at: str
    before: Row
    after: Row

    @property
    def line(self) -> bytes:
        """The entry in the form of the file."""
        what = {"id": self.id, "decision": self.state.value if self.state else "unfinished", "reviewer": self.reviewer}
        record = {**what, "at": self.at, "before": self.before, "after": self.after}
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def read_entry(line: str) -> JournalEntry:
    """Parse a line of the form of `JournalEntry.line`.

    Raises:
        TextError: the line has another form.
    """
    record = parse_record(line)
    id_, decision, reviewer, at = (record.get(key) for key in ("id", "decision", "reviewer", "at"))
    before, after = record.get("before"), record.get("after")
    known = decision == "unfinished" or decision in tuple(DecisionState)
    if not (isinstance(id_, str) and known and isinstance(before, dict) and isinstance(after, dict)):
        raise TextError("is not a decision of a review; remove the line, or the file if no record of reviews is needed")
    state = None if decision == "unfinished" else DecisionState(str(decision))
    return JournalEntry(id_, state, str(reviewer), str(at), before, after)


@dataclass
class RowFile:
    """Contents of a file of rows: the raw lines, and the parsed rows."""

    name: str
    raw: list[bytes] = field(default_factory=list)
    rows: Sequence[Row] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str, data: bytes) -> RowFile:
        """Parse the contents of a file.

        Raises:
            DatasetError: some lines are not JSON objects with an ``id``; all of them are listed.
        """
        content = parse_json_lines(data.decode("utf-8", "surrogateescape"), name)
        unnamed = [number for number, row in content.records.items() if not isinstance(row.get("id"), str)]
        unread = [number for number, line in enumerate(content.text.split("\n"), 1) if _NOT_UTF8.search(line)]
        mistakes = {
            **content.mistakes,
            **{number: f"{name}:{number}: the key 'id' is missing or no text; add it" for number in unnamed},
            **{number: f"{name}:{number}: is not UTF-8; save the file as UTF-8" for number in unread},
        }
        if mistakes:
            raise DatasetError([mistakes[number] for number in sorted(mistakes)])
        lines, rows = data.split(b"\n"), list(content.records.values())
        places = {str(row["id"]): place for place, row in enumerate(rows)}
        return cls(name, [lines[number - 1] for number in content.records], rows, places)

    def get(self, id_: str) -> Row | None:
        """Return the row with this identifier, or None."""
        return self.rows[self.places[id_]] if id_ in self.places else None

    def with_row(self, id_: str, row: Row) -> bytes:
        """Return the contents with ``row`` in place of the one with this identifier, or appended."""
        raw = json.dumps(row, ensure_ascii=False).encode()
        lines = list(self.raw)
        if id_ in self.places:
            lines[self.places[id_]] = raw
        else:
            lines.append(raw)
        return b"".join(line + b"\n" for line in lines)

    def without(self, id_: str) -> bytes:
        """Return the contents without the row with this identifier."""
        removed = self.places.get(id_)
        return b"".join(line + b"\n" for place, line in enumerate(self.raw) if place != removed)


class Journal:
    """Write-ahead log ``review.jsonl``, and the files to which its decisions are applied.

    Only one process may have the journal open. Call its methods while the folder is locked, as other processes may
    write questions.

    Raises:
        DatasetError: the file has an invalid line.
    """

    def __init__(self, disk: FolderDisk) -> None:
        self.disk = disk
        self.entries: list[JournalEntry] = []
        self.files = {name: RowFile(name) for name in (QUESTIONS, REJECTED)}
        self._open: list[JournalEntry] = []  # decisions that may not have been applied yet
        self._fingerprints: dict[str, tuple[int, ...]] = {}
        data = disk.read(JOURNAL)
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # the process was killed before the decision was confirmed
            disk.cut(JOURNAL, whole)
        for raw in filter(None, map(bytes.strip, data[:whole].split(b"\n"))):
            if raw == APPLIED.strip():
                self._open = []
                continue
            try:
                entry = read_entry(raw.decode("utf-8", "replace"))
            except TextError as error:
                raise DatasetError([f"{JOURNAL}: a line {error.reason}"]) from None
            self._remember(entry)

    def refresh(self) -> None:
        """Read the rows that other processes changed, and apply open decisions.

        If the disk is full, the decisions stay open until a later call.

        Raises:
            DatasetError: a file has lines that cannot be read.
        """
        for name in self.files:
            if (mark := self.disk.fingerprint(name)) != self._fingerprints.get(name):
                self.files[name] = RowFile.read(name, self.disk.read(name))
                self._fingerprints[name] = mark
        with suppress(OSError):
            self._apply_open()

    def write(self, entry: JournalEntry) -> None:
        """Append an entry, sync it, and apply it.

        Raises:
            Unapplied: the entry is written, but not applied yet.
            OSError: the entry is not written.
        """
        self.disk.append(JOURNAL, entry.line)
        self._remember(entry)
        try:
            self._apply_open()
        except OSError as error:
            problem = f"the decision is saved in {JOURNAL}, and {QUESTIONS} will be updated when it can be written"
            raise Unapplied(error.errno, f"{problem} ({error.strerror or error})") from error

    def _remember(self, entry: JournalEntry) -> None:
        self.entries.append(entry)
        if entry.state is not None:
            self._open.append(entry)

    def _apply_open(self) -> None:
        """Apply the last open decision about each draft whose row is known from an open decision.

        Rows that another program has changed since are unchanged.
        """
        if not self._open:
            return
        for last in {entry.id: entry for entry in self._open}.values():
            known = [row for entry in self._open if entry.id == last.id for row in (entry.before, entry.after)]
            if any(lines.get(last.id) in known for lines in self.files.values()):
                self._apply(last)
        self._open = []
        with suppress(OSError):  # then they are applied again, which changes nothing
            self.disk.append(JOURNAL, APPLIED)

    def _apply(self, entry: JournalEntry) -> None:
        """Apply an entry to the files; a row is added to its new file before it is removed from the old one."""
        target, source = self.files.values()
        if entry.state is DecisionState.REJECTED:
            target, source = source, target
        if target.get(entry.id) != entry.after:
            self._replace(target.name, target.with_row(entry.id, entry.after))
        if source.get(entry.id) is not None:
            self._replace(source.name, source.without(entry.id))

    def _replace(self, name: str, data: bytes) -> None:
        self.disk.replace(name, data)
        self.files[name] = RowFile.read(name, data)
        self._fingerprints[name] = self.disk.fingerprint(name)


def drafted_rows(folder: Path) -> tuple[Row, ...]:
    """Return the rows before any decision; invalid lines are skipped."""
    found: dict[str, Row] = {}
    for raw in FolderDisk(folder).read(JOURNAL).split(b"\n"):
        with suppress(TextError):
            entry = read_entry(raw.decode("utf-8", "replace"))
            if entry.state is not None:
                found.setdefault(entry.id, entry.before)
    return tuple(found.values())


def unfinished_edits(entries: Sequence[JournalEntry]) -> Mapping[str, JournalEntry]:
    """Return the edits that were neither finished nor discarded, by identifier."""
    found: dict[str, JournalEntry] = {}
    for entry in entries:
        if entry.state is None and entry.after:
            found[entry.id] = entry
        else:
            found.pop(entry.id, None)
    return found
