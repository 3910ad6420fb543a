"""The documents that `ragsmith index` holds for a pipeline: what was there when it was built, added to and taken from.

They lie beside the shelf in a file for each index (`ExportedFile.index`: pipelines that only differ in what stands
behind retrieval share one), one document a line and a digest of all in the last; the file is replaced as a whole, and
whoever replaces it holds a lock from reading it on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path

from ragsmith.datasets.dataset import load_documents, make_dataset
from ragsmith.datasets.documents import read_document
from ragsmith.datasets.locking import held as locked
from ragsmith.errors import DatasetError, UsageError
from ragsmith.exported.file import ExportedFile
from ragsmith.index.artifact_cache import ArtifactCache
from ragsmith.text.suggest import did_you_mean
from ragsmith.text.writing import replace_file
from ragsmith.types import Dataset, Document, Modality

FOLDER = "collections"

_NAMED = 5
"""Documents that a message names."""

Documents = dict[str, Document]
"""By identifier."""


def every(data: Dataset) -> tuple[Document, ...]:
    """The documents of a data set with those that it dropped as identical: what is held can be removed one by one."""
    return (*data.documents, *data.twins)


class Collection:
    """The documents that are held for the pipeline in the file ``winner``, beside ``shelf``.

    Raises:
        UsageError: the file is not one of a pipeline.
    """

    def __init__(self, winner: Path, shelf: ArtifactCache) -> None:
        self._winner = winner
        self._folder = shelf.folder / FOLDER
        self._path = self._folder / f"{ExportedFile(winner).index()}.jsonl"

    def start(self, documents: Iterable[Document], *, replace: bool = False) -> Dataset:
        """Hold these documents, and no others; such as are held now are only given up to ``replace`` them.

        Raises:
            UsageError: others are held that would be given up, or the file is damaged.
        """
        new = {document.id: document for document in documents}

        def started() -> Documents:
            if not replace and self._path.is_file() and (lost := [name for name in self._held() if name not in new]):
                named = ", ".join(sorted(lost)[:_NAMED]) + (", ..." if len(lost) > _NAMED else "")
                raise UsageError(
                    f"the index of {self._winner} holds what is not among these documents, {len(lost):,} in all "
                    f"({named}): "
                    "add these to it with  ragsmith index add , or add  --replace  to hold these alone"
                )
            return new

        return self._replaced(started)

    def add(self, paths: Sequence[str | Path]) -> Dataset:
        """Hold the documents in files and folders, too; one whose identifier is held already takes its place.

        Raises:
            DatasetError: some of them cannot be read; all that is wrong is listed.
            UsageError: nothing is held yet.
        """
        found: Documents = {}
        mistakes: list[str] = []
        for path in map(Path, paths):
            try:
                read = every(load_documents(path)) if path.is_dir() else (read_document(path),)
                found |= {document.id: document for document in read}
            except DatasetError as error:
                mistakes += error.mistakes
        if mistakes:
            raise DatasetError(mistakes)
        return self._replaced(lambda: self._held() | found)

    def remove(self, names: Sequence[str]) -> Dataset:
        """Hold the documents of these identifiers no more.

        Raises:
            UsageError: some are not held, which are all named; or nothing would be left.
        """

        def left() -> Documents:
            documents = self._held()
            unknown = [name for name in names if name not in documents]
            if unknown:
                raise DatasetError([f"the index has no {name!r}: {did_you_mean(name, documents)}" for name in unknown])
            kept = {name: document for name, document in documents.items() if name not in set(names)}
            if not kept:
                raise UsageError("these are all documents that the index holds: keep one, or build it on others")
            return kept

        return self._replaced(left)

    def read(self) -> Dataset:
        """What is held.

        Raises:
            UsageError: nothing is, or the file is damaged.
        """
        return self._dataset(self._held())

    def _replaced(self, change: Callable[[], Documents]) -> Dataset:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / ".lock").open("ab") as file, locked(file.fileno()):
            documents = change()
            data = self._dataset(documents)
            # twins, of which a data set keeps one, stay apart here: the other is there when one of them goes
            lines = [json.dumps(asdict(documents[name])).encode() for name in sorted(documents)]
            replace_file(b"\n".join([*lines, _seal(lines), b""]), self._path)
        return data

    def _held(self) -> Documents:
        if not self._path.is_file():
            raise UsageError(
                f"there is no index of {self._winner} yet: build it with  ragsmith index build {self._winner}"
            )
        again = (
            "put a copy of the file there, or give up what it held and hold other documents with  ragsmith index build "
            f"{self._winner} --documents FOLDER --replace"
        )
        *lines, seal = self._path.read_bytes().split(b"\n")[:-1] or [b""]
        if seal != _seal(lines):
            raise UsageError(f"{self._path} is damaged: {again}")
        try:
            return {document.id: document for document in map(_document, lines)}
        except (ValueError, KeyError, TypeError):  # whole, and not of this version
            raise UsageError(f"{self._path} holds documents that this version cannot read: {again}") from None

    def _dataset(self, documents: Documents) -> Dataset:
        languages = {document.id: document.language for document in documents.values()}
        return make_dataset({"name": self._winner.stem}, list(documents.values()), [], languages=languages)


def _document(line: bytes) -> Document:
    fields = json.loads(line)
    modality, pages = Modality(fields.pop("modality")), tuple(fields.pop("pages"))
    return Document(**fields, modality=modality, pages=pages)


def _seal(lines: Sequence[bytes]) -> bytes:
    return blake2b(b"\n".join(lines), digest_size=16).hexdigest().encode()
