"""The documents of an index, which `ragsmith index` builds, extends and reduces.

Each index has a file in the folder of the artifact cache, with a document per line and a checksum in the last line.
Pipelines that differ only in the stages after retrieval share an index (`ExportedFile.index_digest`). A file is
replaced as a whole, under a lock that is held from reading to writing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import Any

from ragsmith.datasets.dataset import load_documents, make_dataset
from ragsmith.datasets.documents import find_document_id, path_ids, read_document
from ragsmith.datasets.locking import hold_lock as locked
from ragsmith.errors import DatasetError, UsageError
from ragsmith.exported.file import ExportedFile
from ragsmith.index.artifact_cache import ArtifactCache
from ragsmith.text.restoring import restore
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.writing import replace_file
from ragsmith.types import Dataset, Document, FieldValue, Modality

FOLDER = "collections"
"""Name of the folder of collections within that of the artifact cache."""

_MAX_NAMED = 5
"""Maximum number of documents that a message names."""

Documents = dict[str, Document]
"""Documents by identifier."""


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

    def start(self, documents: Iterable[Document], *, replace: bool = False) -> Dataset:
        """Store ``documents`` as those of the index; others in it are only removed with ``replace``.

        Raises:
            UsageError: other documents would be removed, or the file is damaged.
        """
        new = {document.id: document for document in documents}

        def validated() -> Documents:
            if (
                not replace
                and self._path.is_file()
                and (removed := [name for name in self._read_all() if name not in new])
            ):
                names = ", ".join(sorted(removed)[:_MAX_NAMED]) + (", ..." if len(removed) > _MAX_NAMED else "")
                raise UsageError(
                    f"the index of {self._winner} holds documents that are not among these, {len(removed):,} in all "
                    f"({names}): "
                    "add these to it with  ragsmith index add , or replace them with  --replace"
                )
            return new

        return self._replace(validated)

    def add(self, paths: Sequence[str | Path]) -> Dataset:
        """Add the documents in files and folders; a document replaces the one with the same identifier.

        The identifier is the path of the file in the folder of the index, if the index has a document of this path:
        that of ``wiki/hr/policy.md`` is ``hr/policy`` in an index of ``wiki``.

        Raises:
            DatasetError: a document cannot be read; all errors are listed.
            UsageError: there is no index yet.
        """
        added: list[tuple[Path, Document]] = []
        mistakes: list[str] = []
        for path in map(Path, paths):
            try:
                read = all_documents(load_documents(path)) if path.is_dir() else (read_document(path),)
                added += [((path if path.is_dir() else path.parent).resolve(), document) for document in read]
            except DatasetError as error:
                mistakes += error.mistakes
        if mistakes:
            raise DatasetError(mistakes)

        def extended() -> Documents:
            known = self._read_all()
            return known | {each.id: each for each in (_with_known_id(*one, known) for one in added)}

        return self._replace(extended)

    def remove(self, names: Sequence[str]) -> Dataset:
        """Remove the documents with these identifiers.

        Raises:
            DatasetError: some are not in the index; the message names all of them.
            UsageError: no document would remain.
        """

        def remaining() -> Documents:
            documents = self._read_all()
            found = {name: find_document_id(name, documents) for name in names}
            if unknown := [name for name, id_ in found.items() if id_ is None]:
                raise DatasetError([f"the index has no {name!r}: {did_you_mean(name, documents)}" for name in unknown])
            for id_ in set(filter(None, found.values())):
                del documents[id_]
            if not documents:
                raise UsageError(
                    "these are all documents of the index: keep at least one, or build the index on other documents"
                )
            return documents

        return self._replace(remaining)

    def read(self) -> Dataset:
        """Return the documents as a data set.

        Raises:
            UsageError: there is no index, or the file is damaged.
        """
        return self._dataset(self._read_all())

    def _replace(self, change: Callable[[], Documents]) -> Dataset:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / ".lock").open("ab") as file, locked(file.fileno()):
            documents = change()
            data = self._dataset(documents)
            # the file also has the duplicates that a data set drops: one remains if the other is removed
            records = [asdict(documents[name]) for name in sorted(documents)]
            lines = [json.dumps(record, default=lambda day: {"date": day.isoformat()}).encode() for record in records]
            replace_file(b"\n".join([*lines, _checksum(lines), b""]), self._path)
        return data

    def _read_all(self) -> Documents:
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
            records = ({"fields": {}, **json.loads(line)} for line in lines)
            parsed = (restore(Document, each, {Modality: Modality, FieldValue: _restore_field}) for each in records)
            return {document.id: document for document in parsed}
        except (ValueError, KeyError, TypeError):  # written by another version
            raise UsageError(f"{self._path} holds documents that this version cannot read: {remedy}") from None

    def _dataset(self, documents: Documents) -> Dataset:
        languages = {document.id: document.language for document in documents.values()}
        return make_dataset({"name": self._winner.stem}, list(documents.values()), [], languages=languages)


def _with_known_id(folder: Path, document: Document, known: Container[str]) -> Document:
    """Return a document of ``folder`` with the identifier that it has in the index, below folders above ``folder``."""
    depth = document.id.count("/")
    candidates = path_ids((folder / document.id).as_posix())
    id_ = next((name for name in candidates if name in known and name.count("/") >= depth), document.id)
    return replace(document, id=id_, title=id_ if document.title == document.id else document.title)


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
