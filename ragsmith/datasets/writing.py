"""Write the folder of a data set atomically."""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ragsmith.datasets.documents import FOLDER, default_title, document_file
from ragsmith.datasets.fields import get_types
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import format_manifest
from ragsmith.errors import UsageError
from ragsmith.text.files import parse_each
from ragsmith.text.filters import TYPES
from ragsmith.text.languages import ENGLISH
from ragsmith.types import Document

TEMPORARY_PREFIX = ".ragsmith-"
"""Prefix of the names of temporary folders."""


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces ``folder`` on exit, and is removed after an error.

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
    """Yield a temporary folder in ``parent``, which is removed on exit unless it was renamed."""
    with tempfile.TemporaryDirectory(dir=parent, prefix=TEMPORARY_PREFIX, ignore_cleanup_errors=True) as temporary:
        draft = Path(temporary) / "draft"  # has the default permissions, unlike the temporary folder
        draft.mkdir()
        yield draft


def publish_folder(draft: Path, folder: Path) -> None:
    """Rename ``draft`` to ``folder``, or move its files into ``folder`` if that is an empty folder.

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
    """Return the file contents of ``documents`` by file name, in order.

    Raises:
        DatasetError: documents cannot be written as files; the error lists all of them.
    """
    return dict(parse_each(documents, document_file, name=lambda document: f"document {document.id!r}"))


def write_documents(
    folder: Path, metadata: Mapping[str, str], documents: Sequence[Document], files: Mapping[str, str]
) -> None:
    """Write ``dataset.yaml`` with the values of ``metadata``, and the ``files`` of the documents.

    Titles and languages that loading derives from the documents are omitted.
    """
    language = metadata.get("language", ENGLISH)
    titles = {document.id: document.title for document in documents if document.title != default_title(document)}
    languages = {document.id: document.language for document in documents if document.language != language}
    fields = {
        name: declared
        for name, kind in get_types(documents).items()
        for declared, type_ in TYPES.items()
        if kind is type_ is not str
    }
    (folder / MANIFEST).write_bytes(format_manifest(metadata, titles, languages, fields).encode())
    (folder / FOLDER).mkdir()
    for name, content in files.items():
        path = folder / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
