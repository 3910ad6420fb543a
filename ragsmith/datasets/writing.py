"""Write the folder of a data set, whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ragsmith.datasets.documents import FOLDER, default_title, document_file
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import format_manifest
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.files import TextError
from ragsmith.text.languages import ENGLISH
from ragsmith.types import Document

PREFIX = ".ragsmith-"
"""How the names of temporary folders begin."""


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder whose files are moved to ``folder`` at the end; an error leaves nothing behind.

    Raises:
        UsageError: ``folder`` exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not an empty folder; give a new one")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with draft_folder(folder.parent) as draft:
        yield draft
        publish_folder(draft, folder)


@contextmanager
def draft_folder(parent: Path) -> Iterator[Path]:
    """Yield a temporary folder in ``parent``, which may be renamed, and is removed otherwise."""
    with tempfile.TemporaryDirectory(dir=parent, prefix=PREFIX, ignore_cleanup_errors=True) as temporary:
        draft = Path(temporary) / "draft"  # with the permissions of other folders
        draft.mkdir()
        yield draft


def publish_folder(draft: Path, folder: Path) -> None:
    """Rename ``draft`` to ``folder``, or move its files into ``folder`` where that is an empty folder.

    Raises:
        UsageError: another process wrote to ``folder`` meanwhile.
    """
    if folder.is_dir() and any(folder.iterdir()):
        raise UsageError(f"{folder} was written by another process meanwhile; run the same command again")
    if not folder.is_dir():
        draft.rename(folder)
        return
    for path in sorted(draft.iterdir()):
        path.rename(folder / path.name)


def document_files(documents: Sequence[Document]) -> dict[str, str]:
    """Return the contents of the documents' files by name, in order.

    Raises:
        DatasetError: documents cannot be written as files; it lists all of them.
    """
    files: dict[str, str] = {}
    mistakes: list[str] = []
    for document in documents:
        try:
            name, content = document_file(document)
        except TextError as error:
            mistakes.append(error.at(f"document {document.id!r}"))
        else:
            files[name] = content
    if mistakes:
        raise DatasetError(mistakes)
    return files


def write_documents(
    folder: Path, about: Mapping[str, str], documents: Sequence[Document], files: Mapping[str, str]
) -> None:
    """Write ``dataset.yaml`` with the values ``about`` the data set, and the ``files`` of its documents.

    Only titles and languages that would not be recognised again are written.
    """
    language = about.get("language", ENGLISH)
    titles = {document.id: document.title for document in documents if document.title != default_title(document)}
    languages = {document.id: document.language for document in documents if document.language != language}
    (folder / MANIFEST).write_bytes(format_manifest(about, titles, languages).encode())
    (folder / FOLDER).mkdir()
    for name, content in files.items():
        path = folder / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
