"""The journal of a review: each decision is a line of ``review.jsonl`` before it changes another file.

A decision touches two files, ``questions.jsonl`` and ``rejected.jsonl``, and a process may be killed between them, or
the disk be full. So a line is appended first, and is on the disk when that returns; a file is replaced whole
afterwards, and a line ``{"applied": true}`` says that the files show all decisions above it. The next process applies
those below the last such line. A line that was cut in the middle was never confirmed, and is removed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.errors import DatasetError
from ragsmith.labelling.reviewing.decisions import DecisionState, Row
from ragsmith.text.files import TextError
from ragsmith.text.jsonl import parse_record
from ragsmith.text.writing import replace_file, sync_folder

JOURNAL = "review.jsonl"
REJECTED = "rejected.jsonl"


APPLIED = b'{"applied": true}\n'


class Unapplied(OSError):
    """A decision is kept in the journal, and another file that shows it could not be written."""


class FolderDisk:
    """The files of a data set's folder that a review changes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def read(self, name: str) -> bytes:
        """What is in a file; nothing where there is none."""
        path = self.folder / name
        return path.read_bytes() if path.exists() else b""

    def append(self, name: str, data: bytes) -> None:
        """Add to the end of a file, all or nothing; on the disk when this returns."""
        path = self.folder / name
        new = not path.exists()
        with path.open("ab", buffering=0) as file:
            length = os.fstat(file.fileno()).st_size
            left = memoryview(data)
            try:
                while left:  # a disk that is nearly full takes a part
                    left = left[file.write(left) :]
                os.fsync(file)
            except OSError:
                file.truncate(length)
                raise
        if new:
            sync_folder(self.folder)

    def cut(self, name: str, length: int) -> None:
        """Keep so many bytes of a file."""
        os.truncate(self.folder / name, length)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file whole or not at all; on the disk when this returns."""
        replace_file(data, self.folder / name)

    def mark(self, name: str) -> tuple[int, ...]:
        """A value that changes with the file; nothing where there is none."""
        try:
            status = (self.folder / name).stat()
        except FileNotFoundError:
            return ()
        return status.st_ino, status.st_mtime_ns, status.st_size


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """A line of the journal.

    ``state`` is what the draft was decided to be, `DecisionState.PENDING` where a decision was taken back; ``before``
    and ``after`` are its row. A mending that was begun has no ``state``: ``after`` is what was typed, which is nothing
    where it was given up.
    """

    id: str
    state: DecisionState | None
    reviewer: str
    at: str
    before: Row
    after: Row

    @property
    def line(self) -> bytes:
        """As it is written."""
        what = {"id": self.id, "decision": self.state.value if self.state else "unfinished", "reviewer": self.reviewer}
        record = {**what, "at": self.at, "before": self.before, "after": self.after}
        return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def read_entry(line: str) -> JournalEntry:
    """A line that `JournalEntry.line` wrote.

    Raises:
        TextError: it is another line.
    """
    record = parse_record(line)
    id_, decision, reviewer, at = (record.get(key) for key in ("id", "decision", "reviewer", "at"))
    before, after = record.get("before"), record.get("after")
    known = decision == "unfinished" or decision in tuple(DecisionState)
    if not (isinstance(id_, str) and known and isinstance(before, dict) and isinstance(after, dict)):
        raise TextError("is no decision of a review; remove the line, or the file where you keep no record of reviews")
    state = None if decision == "unfinished" else DecisionState(str(decision))
    return JournalEntry(id_, state, str(reviewer), str(at), before, after)


@dataclass
class Lines:
    """A file of rows as it stands: each line as it is written, and the row in it."""

    name: str
    raw: list[bytes] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)

    @classmethod
    def read(cls, name: str, data: bytes) -> Lines:
        """The lines of a file.

        Raises:
            DatasetError: with every line that is no JSON object with an ``id``.
        """
        found = cls(name)
        mistakes: list[str] = []
        for number, raw in enumerate(data.split(b"\n"), start=1):
            if not raw.strip():
                continue
            try:
                row = parse_record(raw.decode("utf-8"))
            except TextError as error:
                mistakes.append(f"{name}:{number}: {error.reason}")
                continue
            except UnicodeDecodeError:
                mistakes.append(f"{name}:{number}: is not UTF-8; save the file as UTF-8")
                continue
            if not isinstance(row.get("id"), str):
                mistakes.append(f"{name}:{number}: the key 'id' is missing or no text; add it")
                continue
            found.places[str(row["id"])] = len(found.rows)
            found.raw.append(raw)
            found.rows.append(row)
        if mistakes:
            raise DatasetError(mistakes)
        return found

    def get(self, id_: str) -> Row | None:
        """The row of that identifier."""
        return self.rows[self.places[id_]] if id_ in self.places else None

    def with_row(self, id_: str, row: Row) -> bytes:
        """The file with this row in the place of the one of that identifier, or behind all others."""
        raw = json.dumps(row, ensure_ascii=False).encode()
        lines = list(self.raw)
        if id_ in self.places:
            lines[self.places[id_]] = raw
        else:
            lines.append(raw)
        return b"".join(line + b"\n" for line in lines)

    def without(self, id_: str) -> bytes:
        """The file without the row of that identifier."""
        gone = self.places.get(id_)
        return b"".join(line + b"\n" for place, line in enumerate(self.raw) if place != gone)


class Journal:
    """``review.jsonl`` and the files that it is ahead of.

    One process alone has the journal open; call it while the folder is locked, as others may write questions.

    Raises:
        DatasetError: the file has a line that is no decision.
    """

    def __init__(self, disk: FolderDisk) -> None:
        self.disk = disk
        self.entries: list[JournalEntry] = []
        self.files = {name: Lines(name) for name in (QUESTIONS, REJECTED)}
        self._open: list[JournalEntry] = []  # decisions that the files may not show yet
        self._marks: dict[str, tuple[int, ...]] = {}
        data = disk.read(JOURNAL)
        whole = data.rfind(b"\n") + 1
        if whole < len(data):  # its writer was killed before the decision was confirmed
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
        """Read the rows that others changed, and finish what was begun.

        Where the disk is full, it is finished by the first call when it is not.

        Raises:
            DatasetError: a file has lines that cannot be read.
        """
        for name in self.files:
            if (mark := self.disk.mark(name)) != self._marks.get(name):
                self.files[name] = Lines.read(name, self.disk.read(name))
                self._marks[name] = mark
        with suppress(OSError):
            self._finish()

    def write(self, entry: JournalEntry) -> None:
        """Keep an entry: on the disk when this returns, whatever happens to the process meanwhile.

        Raises:
            Unapplied: it is kept, and the other files do not show it yet.
            OSError: it is not kept.
        """
        self.disk.append(JOURNAL, entry.line)
        self._remember(entry)
        try:
            self._finish()
        except OSError as error:
            said = f"it is decided and kept in {JOURNAL}, and {QUESTIONS} is brought up to date when it can be written"
            raise Unapplied(error.errno, f"{said} ({error.strerror or error})") from error

    def _remember(self, entry: JournalEntry) -> None:
        self.entries.append(entry)
        if entry.state is not None:
            self._open.append(entry)

    def _finish(self) -> None:
        """Apply the last decision about each draft whose row is as one of those that are open knew it.

        A row that another program wrote since stays.
        """
        if not self._open:
            return
        for last in {entry.id: entry for entry in self._open}.values():
            known = [row for entry in self._open if entry.id == last.id for row in (entry.before, entry.after)]
            if any(lines.get(last.id) in known for lines in self.files.values()):
                self._apply(last)
        self._open = []
        with suppress(OSError):  # then they are looked at once more, and found applied
            self.disk.append(JOURNAL, APPLIED)

    def _apply(self, entry: JournalEntry) -> None:
        """Let the files show an entry; where a row goes from one to the other it is never in neither."""
        there, gone = self.files.values()
        if entry.state is DecisionState.REJECTED:
            there, gone = gone, there
        if there.get(entry.id) != entry.after:
            self._replace(there.name, there.with_row(entry.id, entry.after))
        if gone.get(entry.id) is not None:
            self._replace(gone.name, gone.without(entry.id))

    def _replace(self, name: str, data: bytes) -> None:
        self.disk.replace(name, data)
        self.files[name] = Lines.read(name, data)
        self._marks[name] = self.disk.mark(name)


def drafted_rows(folder: Path) -> tuple[Row, ...]:
    """The rows as they were drafted, before any decision; lines that cannot be read are skipped."""
    found: dict[str, Row] = {}
    for raw in FolderDisk(folder).read(JOURNAL).split(b"\n"):
        with suppress(TextError):
            entry = read_entry(raw.decode("utf-8", "replace"))
            if entry.state is not None:
                found.setdefault(entry.id, entry.before)
    return tuple(found.values())


def unfinished(entries: Sequence[JournalEntry]) -> Mapping[str, JournalEntry]:
    """The mendings that were begun, and neither given up nor finished, by identifier."""
    found: dict[str, JournalEntry] = {}
    for entry in entries:
        if entry.state is None and entry.after:
            found[entry.id] = entry
        else:
            found.pop(entry.id, None)
    return found
