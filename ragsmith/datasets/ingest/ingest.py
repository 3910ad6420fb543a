"""Turn a folder of files into a data set's folder, or bring one up to date with the folder it was made from.

Everything is converted first, beside the data set, and put in its place by renaming at the end. A row of
``sources.jsonl`` says what a text was when it was written: another text in its place was edited by a person, and is
left alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

from ragsmith.datasets import sources as rows_of
from ragsmith.datasets.document_types import MAX_BYTES, kind_of
from ragsmith.datasets.document_types.pdf import MAX_BYTES as MAX_BINARY
from ragsmith.datasets.documents import FOLDER, document_id, read_document_folder
from ragsmith.datasets.ingest.describing import changed_manifest, document_titles, new_manifest, part_title
from ragsmith.datasets.ingest.evidence_references import EvidenceReferences
from ragsmith.datasets.ingest.naming import document_file_name
from ragsmith.datasets.ingest.near_duplicates import NearPair, near_duplicates
from ragsmith.datasets.ingest.readers.choosing import reader_of
from ragsmith.datasets.ingest.readers.part import FilePart
from ragsmith.datasets.ingest.tree import FolderEntry, walk
from ragsmith.datasets.ingest.writing import FolderChanges, folder_changes
from ragsmith.datasets.languages import assign_languages
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import Manifest, read_manifest
from ragsmith.datasets.sources import SourceRecord, read_sources
from ragsmith.errors import DatasetError, MissingExtra, UsageError
from ragsmith.text.files import TextError, read_bytes, size
from ragsmith.types import Document, Modality


class FileOutcome(StrEnum):
    """What became of something in the folder."""

    ADDED = "added"
    CHANGED = "changed"
    UNCHANGED = "unchanged"
    MOVED = "moved"
    EDITED = "edited"  # the document was edited in the data set, and is left as it is
    DUPLICATE = "duplicate"
    REFUSED = "refused"
    ASIDE = "left aside"  # hidden, or filled by programs


@dataclass(frozen=True, slots=True)
class ConvertedFile:
    """Something in the folder, by its path from there; the documents it became, or why it is none.

    ``reason`` is there for what is refused, left aside, edited, or a duplicate, whose ``docs`` are those it repeats.
    """

    source: str
    outcome: FileOutcome
    kind: str = ""
    docs: tuple[str, ...] = ()
    reason: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemovedFile:
    """A document whose file is gone from the folder; it is kept where ``questions`` have their evidence in it."""

    doc: str
    source: str
    questions: int

    @property
    def kept(self) -> bool:
        """Whether it is still a document."""
        return self.questions > 0


@dataclass(frozen=True)
class IngestResult:
    """What an intake found and did: a `ConvertedFile` for everything in the folder, in the order of names.

    ``repointed`` counts the questions that have evidence in documents that changed, by document.
    """

    folder: Path
    output: Path
    fresh: bool
    files: tuple[ConvertedFile, ...]
    removed: tuple[RemovedFile, ...]
    documents: tuple[Document, ...]
    sources: tuple[SourceRecord, ...]
    near: tuple[NearPair, ...]
    repointed: Mapping[str, int] = field(default_factory=dict)

    def of(self, *outcomes: FileOutcome) -> tuple[ConvertedFile, ...]:
        """The files with one of these outcomes."""
        return tuple(file for file in self.files if file.outcome in outcomes)


@dataclass(frozen=True, slots=True)
class _Piece:
    """A part of a file as text, and its row; whether that was made now, and not found in the data set."""

    row: SourceRecord
    text: str

    @property
    def key(self) -> tuple[str, Modality]:
        """What makes two of them the same document."""
        return _key(self.row)


def _key(row: SourceRecord) -> tuple[str, Modality]:
    kind = kind_of(f"x{row.ending}")
    return row.text_sha256, kind.modality if kind else Modality.PROSE


def ingest_folder(folder: Path, output: Path, on_file: Callable[[str, int], None] | None = None) -> IngestResult:
    """Convert everything in ``folder`` to documents in ``output``, a new folder or one that this has written before.

    ``on_file`` is told each file's path and how many came before it.

    Raises:
        UsageError: ``folder`` is none, or ``output`` is one of something else, or being written to by somebody else.
        DatasetError: nothing in ``folder`` can be read, or a file in ``output`` is wrong; every reason is listed.
        OSError: the disk is full; nothing was changed then.
    """
    _check(folder, output)
    with folder_changes(output) as changes:
        known = read_sources(output)
        manifest = _manifest(output)
        before = _ExistingDataset.read(folder, output, known)
        files: dict[str, ConvertedFile] = {}
        pieces: list[_Piece] = []
        for number, found in enumerate(walk(folder, output.resolve())):
            if on_file:
                on_file(found.name, number)
            try:
                those = _read_pieces(found, before, name_of=_printable_path(found.name))
                _refuse_conflicts(those, before)
                pieces += those
            except (TextError, MissingExtra) as error:
                reason = error.reason if isinstance(error, TextError) and error.line is None else str(error)
                outcome = FileOutcome.ASIDE if found.hidden else FileOutcome.REFUSED
                files[_printable_path(found.name)] = ConvertedFile(_printable_path(found.name), outcome, reason=reason)
        placed = _assign_documents(pieces, before)
        gone = [row for row in before.docs.values() if row.doc not in {piece.row.doc for piece in placed}]
        rows, outcomes = _write_documents(placed, before, changes)
        with changes.held():
            pointing = EvidenceReferences.read(output)
            removed = _remove_documents(gone, before, pointing, rows, changes)
            if not any(row.doc for row in rows) and not before.foreign():
                raise DatasetError([f"{folder}: has no file that can be read", *_lines(files.values())])
            for source, those in _by_source(placed).items():
                files[source] = _converted_file(source, those, outcomes, before)
            rows.sort(key=lambda row: (row.source, row.part))
            documents = _documents(changes, manifest, rows, before)
            languages = {document.id: document.language for document in documents}
            rows = [replace(row, language=languages.get(row.doc or "")) for row in rows]
            changes.write(rows_of.FILE, rows_of.sources_text(rows))
            changed = {doc for doc, outcome in outcomes.items() if outcome is FileOutcome.CHANGED}
            changes.apply()
    ordered = tuple(files[source] for source in sorted(files))
    near = near_duplicates({document.id: document.text for document in documents})
    repointed = {doc: count for doc in sorted(changed) if (count := pointing.at(doc, ""))}
    return IngestResult(folder, output, before.fresh, ordered, removed, documents, tuple(rows), near, repointed)


@dataclass(frozen=True)
class _ExistingDataset:
    """The folder, and the data set as it was: its rows, and the bytes of the files of its documents by name."""

    folder: Path
    fresh: bool
    rows: Mapping[str, Sequence[SourceRecord]]
    docs: Mapping[str, SourceRecord]
    documents: Mapping[str, bytes]
    texts: Mapping[str, str]

    @classmethod
    def read(cls, folder: Path, output: Path, known: Sequence[SourceRecord]) -> _ExistingDataset:
        inside = output / FOLDER
        paths = sorted(path for path in inside.rglob("*") if path.is_file() and not path.is_symlink())
        documents = {path.relative_to(inside).as_posix(): path.read_bytes() for path in paths}
        docs = {row.doc: row for row in known if row.doc}
        texts = {}
        for row in docs.values():
            data = documents.get(row.file or "")
            if data is not None and _digest(data) == row.text_sha256:
                texts[row.text_sha256] = data.decode()
        return cls(folder, not known and not documents, _grouped(known), docs, documents, texts)

    def is_edited(self, row: SourceRecord) -> bool:
        """Whether the file of a document is another than was written."""
        data = self.documents.get(row.file or "")
        return data is not None and _digest(data) != row.text_sha256

    def foreign(self) -> set[str]:
        """The identifiers of documents that nothing in the folder was converted to."""
        own = {row.file for row in self.docs.values()}
        return {document_id(file) for file in self.documents if file not in own}


def _check(folder: Path, output: Path) -> None:
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder; give the one that your files are in")
    inside, outside = folder.resolve(), output.resolve()
    if inside == outside or inside.is_relative_to(outside):
        raise UsageError(f"{folder} would be read and written to; give another folder after -o")
    if output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file; give a new folder after -o")
    known = output.is_dir() and any((output / name).exists() for name in (rows_of.FILE, MANIFEST, FOLDER))
    if output.is_dir() and not known and any(output.iterdir()):
        raise UsageError(f"{output} has files and is no data set; give a new folder after -o")


def _manifest(output: Path) -> Manifest:
    if not (output / MANIFEST).exists():
        return Manifest()
    manifest, mistakes = read_manifest(output)
    if mistakes:
        raise DatasetError(mistakes)
    return manifest


def _read_pieces(found: FolderEntry, before: _ExistingDataset, name_of: str) -> list[_Piece]:
    """The texts of a file, as they were converted before if it has not changed. Raises ``TextError``."""
    if found.problem:
        raise TextError(found.problem)
    data = read_bytes(found.path, limit=MAX_BINARY)
    if not data.strip():
        raise TextError("is empty")
    digest = _digest(data)
    reader = reader_of(data, found.name)
    converter = reader.converter
    if not reader.binary and len(data) > MAX_BYTES:
        raise TextError(f"is larger than the limit of {size(MAX_BYTES)} for text; split it, or leave out what is old")
    known = before.rows.get(name_of, ())
    if known and all((row.sha256, row.converter) == (digest, converter) for row in known):
        texts = [before.texts.get(row.text_sha256) for row in known]
        if None not in texts:
            return [_Piece(row, text or "") for row, text in zip(known, texts, strict=True)]
    parts = [part for part in reader.read(data, found.name) if part.text.strip()]
    if not parts:
        raise TextError("has no text")
    if large := next((part for part in parts if len(part.text.encode()) > MAX_BYTES), None):
        what = f"the sheet {large.name!r}" if large.name else "it"
        raise TextError(f"as text, {what} is larger than the limit of {size(MAX_BYTES)}; split it")
    return [_piece(part, name_of, digest, reader.name, converter) for part in parts]


def _refuse_conflicts(pieces: Sequence[_Piece], before: _ExistingDataset) -> None:
    """Refuse a file whose document is there with another text, and was not made by an intake: it is not replaced.

    With the same text it is adopted. Raises ``TextError``.
    """
    owned = {(row.source, row.part) for row in before.docs.values()}
    files = {row.file for row in before.docs.values()}
    texts = {row.text_sha256 for row in before.docs.values()}  # of a file that was moved: its document stays
    for piece in pieces:
        if (piece.row.source, piece.row.part) in owned or piece.row.text_sha256 in texts:
            continue
        file = document_file_name(piece.row.source, FilePart(piece.text, piece.row.ending, name=piece.row.part), set())
        if file in before.documents and file not in files and before.documents[file] != piece.text.encode():
            there = f"{FOLDER}/{file} is there with another text, and no {rows_of.FILE} says what it was made from"
            raise TextError(f"{there}; remove or rename it, or give a new folder after -o")


def _piece(part: FilePart, source: str, digest: str, kind: str, converter: str) -> _Piece:
    row = SourceRecord(
        source=source,
        sha256=digest,
        kind=kind,
        converter=converter,
        text_sha256=_digest(part.text.encode()),
        ending=part.ending,
        part=part.name,
        title=part_title(part, source),
        pages=part.pages,
        notes=part.notes,
    )
    return _Piece(row, part.text)


def _assign_documents(pieces: Sequence[_Piece], before: _ExistingDataset) -> list[_Piece]:
    """Give every piece its document: the one that it had, that of a file which was moved, or a new one.

    Of equal texts that come first which are documents already, then those with the shortest path.
    """
    owned = {(row.source, row.part): row for row in before.docs.values()}
    present = {(piece.row.source, piece.row.part) for piece in pieces}
    gone = {_key(row): row for row in before.docs.values() if (row.source, row.part) not in present}
    taken = {*before.docs, *before.foreign()}
    first: dict[tuple[str, Modality], str] = {}
    placed: list[_Piece] = []

    def order(piece: _Piece) -> tuple[bool, int, str, str]:
        row = piece.row
        return (row.source, row.part) not in owned, len(row.source), row.source, row.part

    for piece in sorted(pieces, key=order):
        row, old = piece.row, owned.get((piece.row.source, piece.row.part))
        if piece.key in first:
            placed.append(replace(piece, row=replace(row, doc=None, file=None, duplicate_of=first[piece.key])))
            continue
        if old is None or old.ending != row.ending:
            old = gone.pop(piece.key, None)
        if old is not None and old.file is not None:
            file = old.file
        else:
            part = FilePart(piece.text, row.ending, name=row.part)
            file = document_file_name(row.source, part, set())
            if before.documents.get(file) != piece.text.encode():  # else an intake was cut short after writing it
                file = document_file_name(row.source, part, taken)
        doc = document_id(file)
        taken.add(doc)
        first[piece.key] = doc
        placed.append(replace(piece, row=replace(row, doc=doc, file=file, duplicate_of=None)))
    return placed


def _write_documents(
    placed: Sequence[_Piece], before: _ExistingDataset, changes: FolderChanges
) -> tuple[list[SourceRecord], dict[str, FileOutcome]]:
    """Write what is new; return the rows, and what became of each document."""
    rows: list[SourceRecord] = []
    outcomes: dict[str, FileOutcome] = {}
    for piece in placed:
        row = piece.row
        if row.doc is None or row.file is None:
            rows.append(row)
            continue
        old, data = before.docs.get(row.doc), before.documents.get(row.file)
        if old is not None and data is not None and data != piece.text.encode() and before.is_edited(old):
            outcomes[row.doc] = FileOutcome.EDITED
            rows.append(old)
            continue
        if data != piece.text.encode():
            changes.write(f"{FOLDER}/{row.file}", piece.text)
        rows.append(row)
        if old is None:
            outcomes[row.doc] = FileOutcome.ADDED
        elif old.text_sha256 != row.text_sha256 or data is None:
            outcomes[row.doc] = FileOutcome.CHANGED
        else:
            outcomes[row.doc] = FileOutcome.UNCHANGED if old.source == row.source else FileOutcome.MOVED
    return rows, outcomes


def _remove_documents(
    gone: Sequence[SourceRecord],
    before: _ExistingDataset,
    pointing: EvidenceReferences,
    rows: list[SourceRecord],
    changes: FolderChanges,
) -> tuple[RemovedFile, ...]:
    """Move the documents whose files are gone out of the way, but for those that questions have their evidence in."""
    found: list[RemovedFile] = []
    for row in gone:
        data = before.documents.get(row.file or "", b"")
        questions = pointing.at(str(row.doc), data.decode(errors="replace"))
        found.append(RemovedFile(str(row.doc), row.source, questions if data else 0))
        if found[-1].kept:
            rows.append(row)
        elif data:
            changes.move_away(f"{FOLDER}/{row.file}")
    return tuple(found)


def _converted_file(
    source: str, pieces: Sequence[_Piece], outcomes: Mapping[str, FileOutcome], before: _ExistingDataset
) -> ConvertedFile:
    docs = [piece.row.doc for piece in pieces if piece.row.doc]
    notes = tuple(note for piece in pieces for note in piece.row.notes)
    kind = pieces[0].row.kind
    if not docs:
        repeated = tuple(dict.fromkeys(str(piece.row.duplicate_of) for piece in pieces))
        reason = f"has the same text as {', '.join(repeated)}"
        return ConvertedFile(source, FileOutcome.DUPLICATE, kind, repeated, reason, notes)
    here = {outcomes[doc] for doc in docs}
    one = next(
        o
        for o in (FileOutcome.EDITED, FileOutcome.CHANGED, FileOutcome.ADDED, FileOutcome.MOVED, FileOutcome.UNCHANGED)
        if o in here
    )
    if one is FileOutcome.ADDED and len(here) > 1:
        one = FileOutcome.CHANGED  # a workbook with a new sheet
    reason = ""
    if one is FileOutcome.EDITED:
        edited = [doc for doc in docs if outcomes[doc] is FileOutcome.EDITED]
        changed = [
            p.row.doc for p in pieces if p.row.doc in edited and p.row.sha256 != before.docs[str(p.row.doc)].sha256
        ]
        reason = f"{', '.join(edited)} was edited in the data set, and is left as it is"
        if changed:
            reason += "; the file changed, too: remove the document and run this again to have it new"
    return ConvertedFile(source, one, kind, tuple(docs), reason, notes)


def _documents(
    changes: FolderChanges, manifest: Manifest, rows: Sequence[SourceRecord], before: _ExistingDataset
) -> tuple[Document, ...]:
    """Check the documents as they will be, and write the manifest that has their titles."""
    documents, mistakes = read_document_folder(changes.preview(FOLDER), f"{FOLDER}/", {})
    if mistakes:
        raise DatasetError(mistakes)
    titled = document_titles(documents, manifest, rows, before.docs)
    if not manifest.about:
        changes.write(MANIFEST, new_manifest(before.folder, changes.output, titled))
    else:
        text = (changes.output / MANIFEST).read_text(encoding="utf-8")
        if (changed := changed_manifest(text, manifest, documents, titled)) != text:
            changes.write(MANIFEST, changed)
    named = [replace(found, title=titled.get(found.id, found.title)) for found in documents.values() if found]
    return assign_languages(named, manifest.about.get("language"), manifest.languages)[0]


def _lines(files: Iterable[ConvertedFile]) -> list[str]:
    return [f"{file.source}: {file.reason}" for file in sorted(files, key=lambda file: file.source)]


def _by_source(pieces: Sequence[_Piece]) -> dict[str, list[_Piece]]:
    found: dict[str, list[_Piece]] = {}
    for piece in sorted(pieces, key=lambda piece: (piece.row.source, piece.row.part)):
        found.setdefault(piece.row.source, []).append(piece)
    return found


def _grouped(rows: Sequence[SourceRecord]) -> dict[str, list[SourceRecord]]:
    found: dict[str, list[SourceRecord]] = {}
    for row in rows:
        found.setdefault(row.source, []).append(row)
    return found


def _printable_path(name: str) -> str:
    """A path as it can be printed and kept in JSON: bytes that are no UTF-8 are shown as they are escaped."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
