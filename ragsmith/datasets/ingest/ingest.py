"""Convert a folder of files to a data set, or update the data set that was created from the folder.

Files are converted in a temporary folder and then moved to the data set. A row of ``sources.jsonl`` has the digest of
the converted document: a document with another digest was edited, and is not overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from ragsmith.datasets.document_types import find_document_type
from ragsmith.datasets.documents import FOLDER, document_id, read_document_folder
from ragsmith.datasets.ingest.naming import (
    choose_file_name,
    choose_titles,
    collect_titles,
    format_new_manifest,
    update_manifest,
)
from ragsmith.datasets.ingest.near_duplicates import NearDuplicatePair, find_near_duplicates, find_versions
from ragsmith.datasets.ingest.readers.part import FilePart, choose_reader
from ragsmith.datasets.ingest.repeated_passages import find_repeated_passages
from ragsmith.datasets.ingest.tree import FolderEntry, walk
from ragsmith.datasets.ingest.writing import (
    EvidenceReference,
    FolderChanges,
    count_questions,
    folder_changes,
    read_evidence_references,
)
from ragsmith.datasets.label_checks import PossibleAnswer, find_new_answers
from ragsmith.datasets.languages import assign_languages
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import Manifest, read_optional_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.questions import MAX_BYTES, read_questions
from ragsmith.datasets.sources import FILE as SOURCES
from ragsmith.datasets.sources import SourceRecord, format_sources, read_sources
from ragsmith.errors import DatasetError, MissingExtra, UsageError, WrongOption
from ragsmith.grouping import group_values
from ragsmith.text.files import MAX_DOCUMENT_BYTES, TextError, format_size, read_bytes
from ragsmith.text.folded import fold
from ragsmith.text.jsonl import read_json_lines
from ragsmith.types import Document, Modality


class FileOutcome(StrEnum):
    """The outcome of ingesting an entry of the folder."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    MOVED = "moved"
    EDITED = "edited"  # the document was edited in the data set and is not overwritten
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    SKIPPED = "left aside"  # hidden, or written by programs


_BY_PRECEDENCE = (
    FileOutcome.EDITED,
    FileOutcome.CHANGED,
    FileOutcome.ADDED,
    FileOutcome.MOVED,
    FileOutcome.UNCHANGED,
)
"""Outcomes in order of precedence, which determines the outcome of a file with several documents."""


@dataclass(frozen=True, slots=True)
class ConvertedFile:
    """An entry of the folder: its relative path, and its documents or the reason why there are none.

    For a duplicate, ``docs`` are the documents with the same text. ``install`` is the command that installs the package
    that reads the file, if it is missing.
    """

    source: str
    outcome: FileOutcome
    kind: str = ""
    docs: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()
    install: str = ""


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A document whose source file no longer exists, and the number of ``questions`` with evidence in the document."""

    doc: str
    source: str
    questions: int

    @property
    def kept(self) -> bool:
        """Whether the document is retained in the data set, as questions have evidence in it."""
        return self.questions > 0


@dataclass(frozen=True)
class IngestResult:
    """Result of `ingest_folder`: a `ConvertedFile` for every entry of the folder, sorted by path.

    ``versions`` are groups of documents that differ only in numbers and dates, unless their fields tell all of a group
    apart, and ``repeated`` has the documents of each passage that many of them have. ``repointed`` counts the questions
    with evidence in changed documents, by document; ``possible_answers`` are the unanswerable questions that a new
    paragraph may answer, and ``malformed_questions`` are the mistakes of lines that were not read for that.
    """

    folder: Path
    output: Path
    fresh: bool
    files: tuple[ConvertedFile, ...]
    removed: tuple[RemovedFile, ...]
    documents: tuple[Document, ...]
    sources: tuple[SourceRecord, ...]
    near: tuple[NearDuplicatePair, ...]
    versions: tuple[tuple[str, ...], ...]
    repeated: Mapping[str, tuple[str, ...]]
    repointed: Mapping[str, int] = field(default_factory=dict)
    possible_answers: tuple[PossibleAnswer, ...] = ()
    malformed_questions: tuple[str, ...] = ()

    def with_outcome(self, outcome: FileOutcome) -> tuple[ConvertedFile, ...]:
        """Return the files with this outcome."""
        return tuple(file for file in self.files if file.outcome is outcome)


@dataclass(frozen=True, slots=True)
class _ConvertedPart:
    """A part of a file: its text and its row of ``sources.jsonl``."""

    row: SourceRecord
    text: str


def _content_key(row: SourceRecord) -> tuple[str, Modality]:
    """Return the identity of a document."""
    kind = find_document_type(f"x{row.ending}")
    return row.text_sha256, kind.modality if kind else Modality.PROSE


def ingest_folder(
    folder: Path,
    output: Path,
    on_file: Callable[[str, int], None] | None = None,
    *,
    fold_copies: bool | None = None,
) -> IngestResult:
    """Convert the files in ``folder`` to documents in ``output``, a new folder or an existing data set.

    ``on_file`` is called with the path of each file and the number of files before it. With ``fold_copies``, texts of
    the same words become one document; by default if the data set has such a document.

    Raises:
        UsageError: ``folder`` is not a folder, ``output`` is not a data set, or another process writes to it.
        DatasetError: no file in ``folder`` can be read, or a file in ``output`` is invalid; all reasons are listed.
        OSError: a file cannot be written; no file was changed then.
    """
    _check_folders(folder, output)
    with folder_changes(output) as changes:
        existing_rows = read_sources(output)
        manifest, mistakes = read_optional_manifest(output)
        if mistakes:
            raise DatasetError([f"{output}/{mistake}" for mistake in mistakes])
        before = _ExistingDataset.from_folder(folder, output, existing_rows)
        files: dict[str, ConvertedFile] = {}
        parts: list[_ConvertedPart] = []
        for number, entry in enumerate(walk(folder, output.resolve())):
            source = _printable_path(entry.name)
            if on_file:
                on_file(entry.name, number)
            try:
                read = _read_parts(entry, before, source)
                _refuse_conflicts(read, before)
                parts += read
            except (TextError, MissingExtra) as error:
                reason = error.reason if isinstance(error, TextError) and error.line is None else str(error)
                outcome = FileOutcome.SKIPPED if entry.hidden else FileOutcome.REFUSED
                install = error.command if isinstance(error, MissingExtra) else ""
                files[source] = ConvertedFile(source, outcome, reason=reason, install=install)
        fold_copies = any(row.folded for row in existing_rows) if fold_copies is None else fold_copies
        with changes.lock_questions():
            references = read_evidence_references(output, {document_id(file) for file in before.documents})
            unfolded = before.needed(references) if fold_copies else None
            assigned = _choose_titles(_assign_documents(parts, before, unfolded))
            orphaned = [row for row in before.docs.values() if row.doc not in {part.row.doc for part in assigned}]
            rows, outcomes = _write_documents(assigned, before, changes)
            removed = _remove_documents(orphaned, before, references, rows, changes)
            if not any(row.doc for row in rows) and not before.unconverted():
                reasons = [f"{source}: {file.reason}" for source, file in sorted(files.items())]
                raise DatasetError(
                    [f"{folder}: has no file that can be read; put text, tables or PDF files there", *reasons]
                )
            by_source = group_values(
                (part.row.source, part) for part in sorted(assigned, key=lambda part: (part.row.source, part.row.part))
            )
            files |= {source: _summarise_file(parts, outcomes, before) for source, parts in by_source.items()}
            rows.sort(key=lambda row: (row.source, row.part))
            documents = _validate_documents(changes, manifest, rows, before)
            languages = {document.id: document.language for document in documents}
            rows = [replace(row, language=languages.get(row.doc or "")) for row in rows]
            changes.write(SOURCES, format_sources(rows))
            changes.apply()
    texts = {document.id: document.text for document in documents}
    near = find_near_duplicates(texts)
    declared = {document.id: repr(sorted(document.fields.items())) for document in documents}
    repointed = {
        doc: count
        for doc in sorted(outcomes)
        if outcomes[doc] is FileOutcome.CHANGED and (count := count_questions(references, doc, ""))
    }
    new = [each for each in documents if outcomes.get(each.id) in (FileOutcome.ADDED, FileOutcome.CHANGED)]
    lines = read_json_lines(output / QUESTIONS, MAX_BYTES)
    has_unanswerable = any(record.get("answerable") is False for record in lines.records.values())
    asked = read_questions(output, {one.id: one for one in documents})[0] if new and has_unanswerable else []
    earlier = [data.decode(errors="replace") for data in before.documents.values() if asked]
    return IngestResult(
        folder,
        output,
        before.fresh,
        tuple(files[source] for source in sorted(files)),
        removed,
        documents,
        tuple(rows),
        near,
        tuple(group for group in find_versions(texts) if len({declared[doc] for doc in group}) < len(group)),
        find_repeated_passages(documents, near),
        repointed,
        tuple(find_new_answers(asked, earlier, new)),
        tuple(lines.mistakes.values()),
    )


@dataclass(frozen=True)
class _ExistingDataset:
    """The data set before the update: rows of ``sources.jsonl`` by source and by document, and the document files."""

    folder: Path
    fresh: bool
    rows: Mapping[str, Sequence[SourceRecord]]
    docs: Mapping[str, SourceRecord]
    documents: Mapping[str, bytes]
    texts: Mapping[str, str]

    @classmethod
    def from_folder(cls, folder: Path, output: Path, known: Sequence[SourceRecord]) -> _ExistingDataset:
        inside = output / FOLDER
        paths = sorted(path for path in inside.rglob("*") if path.is_file() and not path.is_symlink())
        documents = {path.relative_to(inside).as_posix(): path.read_bytes() for path in paths}
        docs = {row.doc: row for row in known if row.doc}
        written = ((row.text_sha256, documents.get(row.file or "")) for row in docs.values())
        texts = {sha256: data.decode() for sha256, data in written if data is not None and _digest(data) == sha256}
        rows = group_values((row.source, row) for row in known)
        return cls(folder, not known and not documents, rows, docs, documents, texts)

    def is_edited(self, row: SourceRecord) -> bool:
        """Whether the file of a document was edited since it was written."""
        data = self.documents.get(row.file or "")
        return data is not None and _digest(data) != row.text_sha256

    def needed(self, references: Sequence[EvidenceReference]) -> set[tuple[str, str]]:
        """Return the sources and parts of documents that were edited, or that questions have evidence in."""
        texts = {doc: self.documents.get(row.file or "", b"") for doc, row in self.docs.items()}
        return {
            (row.source, row.part)
            for doc, row in self.docs.items()
            if self.is_edited(row) or count_questions(references, doc, texts[doc].decode(errors="replace"))
        }

    def unconverted(self) -> set[str]:
        """Return the identifiers of documents that were not converted from files."""
        converted = {row.file for row in self.docs.values()}
        return {document_id(file) for file in self.documents if file not in converted}


def _check_folders(folder: Path, output: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; give the folder with your files")
    inside, outside = folder.resolve(), output.resolve()
    if inside == outside or inside.is_relative_to(outside):
        raise WrongOption("output", f"is {output}, but {folder} would be read and written to: give another folder")
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file; give a new folder after -o")
    known = output.is_dir() and any((output / name).exists() for name in (SOURCES, MANIFEST, FOLDER))
    if output.is_dir() and not known and any(output.iterdir()):
        raise UsageError(f"{output} has files and is not a data set; give a new folder after -o")


def _read_parts(entry: FolderEntry, before: _ExistingDataset, source: str) -> list[_ConvertedPart]:
    """Return the parts of a file; reuse the documents of an unchanged file. Raises ``TextError``."""
    if entry.problem:
        raise TextError(entry.problem)
    data = read_bytes(entry.path, limit=MAX_DOCUMENT_BYTES)
    if not data.strip():
        raise TextError("is empty")
    digest = _digest(data)
    reader = choose_reader(data, entry.name)
    converter = reader.converter
    known = before.rows.get(source, ())
    if known and all((row.sha256, row.converter) == (digest, converter) for row in known):
        texts = [before.texts.get(row.text_sha256) for row in known]
        if None not in texts:
            return [_ConvertedPart(row, text or "") for row, text in zip(known, texts, strict=True)]
    parts = [part for part in reader.read(data, entry.name) if part.text.strip()]
    if not parts:
        raise TextError("has no text")
    if large := next((part for part in parts if len(part.text.encode()) > MAX_DOCUMENT_BYTES), None):
        what = f"the sheet {large.name!r}" if large.name else "it"
        raise TextError(f"as text, {what} is larger than the limit of {format_size(MAX_DOCUMENT_BYTES)}; split it")
    return [_make_part(part, source, digest, reader.name, converter) for part in parts]


def _refuse_conflicts(parts: Sequence[_ConvertedPart], before: _ExistingDataset) -> None:
    """Raise ``TextError`` for a file whose document exists with another text and was not converted from a file."""
    former = {(row.source, row.part) for row in before.docs.values()}
    files = {row.file for row in before.docs.values()}
    texts = {row.text_sha256 for row in before.docs.values()}  # the document of a moved file is reused
    for part in parts:
        if (part.row.source, part.row.part) in former or part.row.text_sha256 in texts:
            continue
        file = choose_file_name(part.row.source, FilePart(part.text, part.row.ending, name=part.row.part), set())
        if file in before.documents and file not in files and before.documents[file] != part.text.encode():
            conflict = f"{FOLDER}/{file} exists with another text, and {SOURCES} does not name its source"
            raise TextError(f"{conflict}; remove or rename it, or give a new folder after -o")


def _make_part(part: FilePart, source: str, digest: str, kind: str, converter: str) -> _ConvertedPart:
    row = SourceRecord(
        source=source,
        sha256=digest,
        kind=kind,
        converter=converter,
        text_sha256=_digest(part.text.encode()),
        ending=part.ending,
        part=part.name,
        metadata_title=part.title,
        pages=part.pages,
        notes=part.notes,
    )
    return _ConvertedPart(row, part.text)


def _assign_documents(
    parts: Sequence[_ConvertedPart], before: _ExistingDataset, unfolded: Container[tuple[str, str]] | None
) -> list[_ConvertedPart]:
    """Assign a document to every part: its former one, that of a moved file, or a new one.

    Of equal texts, an existing document takes precedence, then the one with the shortest path. Unless ``unfolded`` is
    None, prose with the same words is equal, except for ``unfolded`` parts, which take precedence over all others.
    """
    former = {(row.source, row.part): row for row in before.docs.values()}
    present = {(part.row.source, part.row.part) for part in parts}
    orphaned = {_content_key(row): row for row in before.docs.values() if (row.source, row.part) not in present}
    taken = {*before.docs, *before.unconverted()}
    first: dict[tuple[str, Modality | None], str] = {}
    assigned: list[_ConvertedPart] = []

    def order(part: _ConvertedPart) -> tuple[bool, bool, int, str, str]:
        key = part.row.source, part.row.part
        return key not in (unfolded or ()), key not in former, len(part.row.source), *key

    for part in sorted(parts, key=order):
        row, old = part.row, former.get((part.row.source, part.row.part))
        key = _content_key(row)
        words = key if unfolded is None or key[1] is not Modality.PROSE else (fold(part.text).text, None)
        if kept := first.get(key) or (None if (row.source, row.part) in (unfolded or ()) else first.get(words)):
            assigned.append(
                replace(
                    part,
                    row=replace(row, doc=None, file=None, duplicate_of=kept, folded=None if key in first else True),
                )
            )
            continue
        if old is None or old.ending != row.ending:
            old = orphaned.pop(key, None)
        if old is not None and old.file is not None:
            file = old.file
        else:
            file_part = FilePart(part.text, row.ending, name=row.part)
            file = choose_file_name(row.source, file_part, set())
            if before.documents.get(file) != part.text.encode():  # else an interrupted update wrote it
                file = choose_file_name(row.source, file_part, taken)
        doc = document_id(file)
        taken.add(doc)
        first |= {words: first.get(words, doc), key: doc}
        assigned.append(replace(part, row=replace(row, doc=doc, file=file, duplicate_of=None, folded=None)))
    return assigned


def _choose_titles(parts: Sequence[_ConvertedPart]) -> list[_ConvertedPart]:
    """Choose the titles of all documents, of unchanged ones as well, as they depend on each other."""
    titled = [part for part in parts if part.row.doc]
    titles = choose_titles(
        [
            (FilePart(one.text, one.row.ending, one.row.metadata_title or one.row.title, one.row.part), one.row.source)
            for one in titled
        ]
    )
    chosen = {part.row.doc: title for part, title in zip(titled, titles, strict=True)}
    return [replace(part, row=replace(part.row, title=chosen.get(part.row.doc))) for part in parts]


def _write_documents(
    assigned: Sequence[_ConvertedPart], before: _ExistingDataset, changes: FolderChanges
) -> tuple[list[SourceRecord], dict[str, FileOutcome]]:
    """Write new and changed documents; return the rows and the outcome of each document."""
    rows: list[SourceRecord] = []
    outcomes: dict[str, FileOutcome] = {}
    for part in assigned:
        row = part.row
        if row.doc is None or row.file is None:
            rows.append(row)
            continue
        old, data = before.docs.get(row.doc), before.documents.get(row.file)
        if old is not None and data is not None and data != part.text.encode() and before.is_edited(old):
            outcomes[row.doc] = FileOutcome.EDITED
            rows.append(old)
            continue
        if data != part.text.encode():
            changes.write(f"{FOLDER}/{row.file}", part.text)
        rows.append(row)
        if old is None:
            outcomes[row.doc] = FileOutcome.ADDED
        elif old.text_sha256 != row.text_sha256 or data is None:
            outcomes[row.doc] = FileOutcome.CHANGED
        else:
            outcomes[row.doc] = FileOutcome.UNCHANGED if old.source == row.source else FileOutcome.MOVED
    return rows, outcomes


def _remove_documents(
    orphaned: Sequence[SourceRecord],
    before: _ExistingDataset,
    references: Sequence[EvidenceReference],
    rows: list[SourceRecord],
    changes: FolderChanges,
) -> tuple[RemovedFile, ...]:
    """Move documents without a source file to the folder of removed documents, except those with evidence."""
    found: list[RemovedFile] = []
    for row in orphaned:
        data = before.documents.get(row.file or "", b"")
        questions = count_questions(references, str(row.doc), data.decode(errors="replace"))
        found.append(RemovedFile(str(row.doc), row.source, questions if data else 0))
        if found[-1].kept:
            rows.append(row)
        elif data:
            changes.remove(f"{FOLDER}/{row.file}")
    return tuple(found)


def _summarise_file(
    parts: Sequence[_ConvertedPart], outcomes: Mapping[str, FileOutcome], before: _ExistingDataset
) -> ConvertedFile:
    source = parts[0].row.source
    docs = [part.row.doc for part in parts if part.row.doc]
    notes = tuple(note for part in parts for note in part.row.notes)
    kind = parts[0].row.kind
    if not docs:
        repeated = tuple(dict.fromkeys(str(part.row.duplicate_of) for part in parts))
        same = "words" if any(part.row.folded for part in parts) else "text"
        reason = f"has the same {same} as {', '.join(repeated)}"
        return ConvertedFile(source, FileOutcome.DUPLICATE, kind, repeated, reason, notes)
    distinct = {outcomes[doc] for doc in docs}
    outcome = next(candidate for candidate in _BY_PRECEDENCE if candidate in distinct)
    if outcome is FileOutcome.ADDED and len(distinct) > 1:
        outcome = FileOutcome.CHANGED  # such as a workbook with a new sheet
    reason = ""
    if outcome is FileOutcome.EDITED:
        edited = [doc for doc in docs if outcomes[doc] is FileOutcome.EDITED]
        changed = [
            p.row.doc for p in parts if p.row.doc in edited and p.row.sha256 != before.docs[str(p.row.doc)].sha256
        ]
        reason = f"{', '.join(edited)} was edited in the data set and is not overwritten"
        if changed:
            reason += "; its file changed, too: remove the document and run this again to convert it"
    return ConvertedFile(source, outcome, kind, tuple(docs), reason, notes)


def _validate_documents(
    changes: FolderChanges, manifest: Manifest, rows: Sequence[SourceRecord], before: _ExistingDataset
) -> tuple[Document, ...]:
    """Validate the documents after the changes, write the manifest with their titles, and return the documents."""
    documents, mistakes = read_document_folder(changes.preview(FOLDER), f"{FOLDER}/", {})
    if mistakes:
        raise DatasetError(mistakes)
    titles = collect_titles(documents, manifest, rows, before.docs)
    if not manifest.metadata:
        changes.write(MANIFEST, format_new_manifest(before.folder, changes.output, titles))
    else:
        text = (changes.output / MANIFEST).read_text(encoding="utf-8")
        if (changed := update_manifest(text, manifest, documents, titles)) != text:
            changes.write(MANIFEST, changed)
    named = [replace(found, title=titles.get(found.id, found.title)) for found in documents.values() if found]
    return assign_languages(named, manifest.metadata.get("language"), manifest.languages)[0]


def _printable_path(name: str) -> str:
    """Return a path with bytes that are not UTF-8 escaped, for printing and JSON."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
