"""The documents of an index, which `ragsmith index` builds, extends and reduces.

Each index has a file in the folder of the artifact cache, with its settings in the first line, a document per line and
a checksum in the last line. Pipelines that differ only in the stages after retrieval share an index
(`ExportedFile.index_digest`). A file is replaced as a whole, under a lock that is held from reading to writing.

A document belongs to the file that it was read from. Its identifier is the path of this file below the folder that the
index was built on. A file elsewhere gets the path below the folder that is added, or its name, and keeps it.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from datetime import date
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ragsmith.datasets.dataset import find_manifest, make_dataset, merge_duplicates, read_files
from ragsmith.datasets.documents import document_id, documents_folder, iter_files, path_ids
from ragsmith.datasets.locking import hold_lock as locked
from ragsmith.errors import DatasetError, UsageError
from ragsmith.exported.file import ExportedFile
from ragsmith.index.artifact_cache import ArtifactCache
from ragsmith.text.languages import language_code
from ragsmith.text.restoring import restore
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.writing import replace_file
from ragsmith.types import Dataset, Document, FieldValue, Modality

FOLDER = "collections"
"""Name of the folder of collections within that of the artifact cache."""

_MAX_NAMED = 5
"""Maximum number of documents that a message names."""


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A document of an index, with the path of its file and its declared language; "" if there is none."""

    document: Document
    file: str
    declared_language: str


Documents = Mapping[str, IndexedDocument]
"""Documents by identifier."""


@dataclass(frozen=True, slots=True)
class IndexUpdate:
    """What a command changed in an index: the sorted identifiers of documents.

    ``hidden`` are documents that are left out now, by identifier, and the identical documents that are used in their
    place; ``shown`` were left out before.
    """

    added: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    hidden: Mapping[str, str] = field(default_factory=dict)
    shown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Content:
    """The documents of an index, and what new ones are read with.

    ``folder`` is the folder or data set that the index was built on; ``fields`` are the types that the data set
    declares, and ``language`` its declared language, or "".
    """

    documents: Documents
    folder: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    language: str = ""

    def dataset(self, name: str, languages: Mapping[str, str]) -> Dataset:
        """Return the documents as a data set with the ``languages`` of some; those of others are detected."""
        metadata = {"name": name} | ({"language": self.language} if self.language else {})
        return make_dataset(metadata, [each.document for each in self.documents.values()], [], languages=languages)

    def root(self) -> Path:
        """Return the folder in which identifiers are paths."""
        return documents_folder(Path(self.folder))

    def with_documents(self, documents: Documents) -> _Content:
        """Return the content with other documents."""
        return replace(self, documents=documents)


def all_documents(data: Dataset) -> tuple[Document, ...]:
    """Return the documents of a data set with duplicates, so that each can be removed."""
    return (*data.documents, *data.duplicates)


class Collection:
    """The documents of the index of the pipeline in the file ``winner``.

    Raises:
        UsageError: the file does not describe a pipeline.
    """

    def __init__(self, winner: Path, cache: ArtifactCache) -> None:
        self._winner = winner
        self._folder = cache.folder / FOLDER
        self._path = self._folder / f"{ExportedFile(winner).index_digest()}.jsonl"

    def start(
        self, documents: Iterable[Document], folder: Path, *, replace: bool = False
    ) -> tuple[Dataset, IndexUpdate]:
        """Store ``documents`` as those of the index; others in it are only removed with ``replace``.

        ``folder`` is the folder or data set that they were read from.

        Raises:
            UsageError: other documents would be removed, or the file is damaged.
        """
        new = _describe_content(documents, folder.resolve())

        def validated(before: _Content) -> _Content:
            if not replace and (removed := sorted(before.documents.keys() - new.documents.keys())):
                names = ", ".join(removed[:_MAX_NAMED]) + (", ..." if len(removed) > _MAX_NAMED else "")
                raise UsageError(
                    f"the index of {self._winner} holds documents that are not among these, {len(removed):,} in all "
                    f"({names}): "
                    "add these to it with  ragsmith index add , or replace them with  --replace"
                )
            return new

        return self._change(validated, partial(self._read_earlier, may_be_damaged=replace))

    def add(self, paths: Sequence[str | Path], *, replace: bool = False) -> tuple[Dataset, IndexUpdate]:
        """Add the documents in files and folders; a document replaces the one that was read from the same file.

        Fields have the types that the data set of the index declares. A document of another file is only replaced if
        that file no longer exists, or with ``replace``.

        Raises:
            DatasetError: a document cannot be read, or a name could be that of two; all errors are listed.
            UsageError: there is no index yet.
        """

        def extended(content: _Content) -> _Content:
            claimed = {} if replace else dict(content.documents)
            mistakes: list[str] = []
            for path in map(Path, paths):
                try:
                    added = _read_added(path, content, claimed)
                except DatasetError as error:
                    mistakes += error.mistakes
                else:
                    claimed |= added
                    content = content.with_documents({**content.documents, **added})
            if mistakes:
                raise DatasetError(mistakes)
            return content

        return self._change(extended, self._read_all)

    def remove(self, names: Sequence[str]) -> tuple[Dataset, IndexUpdate]:
        """Remove the documents with these identifiers, or of these files.

        Raises:
            DatasetError: some are not in the index, or could be two of it; the message names all of them.
            UsageError: no document would remain.
        """

        def remaining(content: _Content) -> _Content:
            found = {name: _find_named(name, content) for name in names}
            if mistakes := [_describe_unclear(name, ids, content) for name, ids in found.items() if len(ids) != 1]:
                raise DatasetError(mistakes)
            removed = set().union(*found.values())
            left = {id_: each for id_, each in content.documents.items() if id_ not in removed}
            if not left:
                raise UsageError(
                    "these are all documents of the index: keep at least one, or build the index on other documents"
                )
            return content.with_documents(left)

        return self._change(remaining, self._read_all)

    def read(self) -> Dataset:
        """Return the documents as a data set; ``source`` is the folder or data set that the index was built on.

        Raises:
            UsageError: there is no index, or the file is damaged.
        """
        content = self._read_all()
        languages = {id_: each.document.language for id_, each in content.documents.items()}
        return replace(content.dataset(self._winner.stem, languages), source=content.folder)

    def _change(
        self, change: Callable[[_Content], _Content], read: Callable[[], _Content]
    ) -> tuple[Dataset, IndexUpdate]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / ".lock").open("ab") as file, locked(file.fileno()):
            before = read()
            after = change(before)
            languages = {id_: each.declared_language for id_, each in after.documents.items() if each.declared_language}
            data = after.dataset(self._winner.stem, languages)
            # the file also has the duplicates that a data set drops: one remains if the other is removed
            documents = sorted(all_documents(data), key=lambda document: document.id)
            settings = {name: value for name, value in asdict(after).items() if name != "documents"}
            records = [settings, *(asdict(replace(after.documents[each.id], document=each)) for each in documents)]
            lines = [json.dumps(record, default=lambda day: {"date": day.isoformat()}).encode() for record in records]
            replace_file(b"\n".join([*lines, _checksum(lines), b""]), self._path)
        return replace(data, source=after.folder), _compare(before.documents, after.documents, dict(data.merged))

    def _read_earlier(self, *, may_be_damaged: bool) -> _Content:
        """Return the content of the file; none if there is no file, or if it is damaged and may be so."""
        with suppress(*[UsageError] if may_be_damaged else []):
            return self._read_all() if self._path.is_file() else _Content({})
        return _Content({})

    def _read_all(self) -> _Content:
        if not self._path.is_file():
            raise UsageError(
                f"there is no index of {self._winner} yet: build it with  ragsmith index build {self._winner}"
            )
        remedy = (
            "restore a copy of the file, or replace its documents with  ragsmith index build "
            f"{self._winner} --documents FOLDER --replace"
        )
        *lines, checksum = self._path.read_bytes().split(b"\n")[:-1] or [b""]
        if checksum != _checksum(lines):
            raise UsageError(f"{self._path} is damaged: {remedy}")
        try:
            settings, *records = map(json.loads, lines)
            readers = {Modality: Modality, FieldValue: _restore_field}
            held = [restore(IndexedDocument, record, readers) for record in records]
            return _Content({each.document.id: each for each in held}, **settings)
        except (ValueError, TypeError):  # written by another version
            raise UsageError(f"{self._path} holds documents that this version cannot read: {remedy}") from None


def _describe_content(documents: Iterable[Document], folder: Path) -> _Content:
    """Return the content of an index of ``documents``, which were read from a folder or data set."""
    root, (manifest, _) = documents_folder(folder), find_manifest(folder)
    files = {_id_below(file, root): str(file) for file in iter_files(root)}
    held = {
        each.id: IndexedDocument(each, files.get(each.id, ""), manifest.languages.get(each.id, ""))
        for each in documents
    }
    return _Content(held, str(folder), manifest.fields, manifest.metadata.get("language", ""))


def _read_added(path: Path, content: _Content, claimed: Documents) -> Documents:
    """Return the documents in a file or folder; identifiers in ``claimed`` are those of other files, if these exist.

    Raises:
        DatasetError: a document cannot be read, or its name could be that of two.
    """
    place = _resolve(path)
    if not place.exists():
        raise DatasetError([f"{path}: is missing; name a file or a folder of documents"])
    source = Path(content.folder) if place.is_relative_to(content.root()) or str(place) == content.folder else place
    root = documents_folder(source) if source.is_dir() else source.parent
    part = place if place.is_relative_to(root) else root
    ids = _identify(iter_files(part) if place.is_dir() else [place], root, content, claimed)
    documents, manifest = read_files(source, root, ids, content.fields)
    paths, all_others = {id_: str(file) for file, id_ in ids.items()}, manifest.metadata.get("language", "")
    languages = {each.id: manifest.languages.get(each.id) or language_code(all_others) or "" for each in documents}
    return {each.id: IndexedDocument(each, paths[each.id], languages[each.id]) for each in documents}


def _identify(files: Iterable[Path], root: Path, content: _Content, claimed: Documents) -> dict[Path, str]:
    """Return the identifiers of files in the folder ``root``.

    Raises:
        DatasetError: a file could be one of two documents, or a document one of two files.
    """
    known, home = {each.file: id_ for id_, each in content.documents.items()}, content.root()
    ids, unclear = {}, []
    for file in files:
        base = home if file.is_relative_to(home) else root
        id_ = ids[file] = known.get(str(file)) or _id_below(file, base)
        other = claimed[id_].file if id_ in claimed else ""
        if other not in ("", str(file)) and Path(other).exists() and not file.samefile(other):
            unclear.append(f"{file} and {other} are both {id_!r}: rename one, or replace {other} with  --replace")
        elif base != home and str(file) not in known and (named := _find_longer(file, id_, content)):
            unclear.append(
                f"{file} could be {id_!r} or {named!r} of the index: add the folder that {named!r} is in, "
                "or rename the file"
            )
    if unclear:
        raise DatasetError(unclear)
    return ids


def _find_longer(file: Path, id_: str, content: _Content) -> str | None:
    """Return an identifier in the index that a path also names, with more folders than ``id_``, if there is one."""
    longer = (name for name in path_ids(str(file)) if name.count("/") > id_.count("/"))
    return next((name for name in longer if name in content.documents), None)


def _find_named(name: str, content: _Content) -> set[str]:
    """Return the documents that an identifier or a path names, with or without folders above if there is no other."""
    file, root = _resolve(Path(name)), content.root()
    ids = {unicodedata.normalize("NFC", name), document_id(name)}
    ids |= {id_ for id_, each in content.documents.items() if each.file == str(file)}
    ids |= {_id_below(file, root)} if file.is_relative_to(root) else set()
    return ids & content.documents.keys() or set(path_ids(name)) & content.documents.keys()


def _describe_unclear(name: str, ids: set[str], content: _Content) -> str:
    if not ids:
        return f"the index has no {name!r}: {did_you_mean(name, content.documents)}"
    choices = " or ".join(f"{id_!r} ({content.documents[id_].file})" for id_ in sorted(ids))
    return f"{name!r} could be {choices}: give the whole path of one, or its identifier from another folder"


def _resolve(path: Path) -> Path:
    """Return the absolute path of a file or folder; a link to a file is the link."""
    return path.resolve() if path.is_dir() else path.parent.resolve() / path.name


def _id_below(file: Path, folder: Path) -> str:
    return document_id(file.relative_to(folder).as_posix())


def _compare(before: Documents, after: Documents, hidden: Mapping[str, str]) -> IndexUpdate:
    """Compare the documents of an index before and after a change, where those in ``hidden`` are left out."""
    was_hidden = merge_duplicates([each.document for each in before.values()])[1]
    return IndexUpdate(
        tuple(sorted(after.keys() - before.keys())),
        tuple(sorted(id_ for id_ in before.keys() & after.keys() if _values(before[id_]) != _values(after[id_]))),
        tuple(sorted(before.keys() - after.keys())),
        {id_: first for id_, first in sorted(hidden.items()) if was_hidden.get(id_) != first},
        tuple(sorted((was_hidden.keys() - hidden.keys()) & after.keys())),
    )


def _values(indexed: IndexedDocument) -> tuple[object, ...]:
    """Return what a document has besides its language, which depends on the others."""
    document = indexed.document
    return document.title, document.text, document.modality, document.pages, dict(document.fields)


def _restore_field(stored: Any) -> Any:
    """Restore the value of a field from JSON, which has a list for a tuple, and an object for a date."""
    return (
        date.fromisoformat(stored["date"])
        if isinstance(stored, dict)
        else tuple(stored)
        if isinstance(stored, list)
        else stored
    )


def _checksum(lines: Sequence[bytes]) -> bytes:
    return blake2b(b"\n".join(lines), digest_size=16).hexdigest().encode()
