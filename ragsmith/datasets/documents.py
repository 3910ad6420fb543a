"""Read the documents of a data set's folder, with all mistakes."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

from ragsmith.building import TaskProgress
from ragsmith.datasets.document_types import DocumentKind, kind_of, kinds_in_words
from ragsmith.datasets.document_types.tables import separator, source_of
from ragsmith.datasets.sources import read_sources
from ragsmith.errors import DatasetError
from ragsmith.text.files import FORBIDDEN, TextError
from ragsmith.text.markdown import title
from ragsmith.types import Document, Modality

FOLDER = "documents"
MAX_NAME = 255

LINK = "is a symbolic link, which is not followed; put the folder itself here"
CONVERT = "convert the folder with  ragsmith dataset init  or move the file away"
CLOSED = "cannot be listed; check its permissions"

Documents = Mapping[str, Document | None]
"""Documents by identifier; None for an invalid document."""


def read_documents(dataset: Path, titles: Mapping[str, str] | None = None) -> tuple[Documents, list[str]]:
    """Return the documents of the data set in folder ``dataset``, sorted by identifier, and the mistakes.

    ``titles`` take precedence over those in the files. Documents converted from paged files have pages, unless edited.
    """
    documents, mistakes = read_document_folder(dataset / FOLDER, f"{FOLDER}/", titles)
    try:
        sources = read_sources(dataset)
    except DatasetError as error:
        return documents, [*mistakes, *error.mistakes]
    paged = {row.doc: row for row in sources if row.doc and row.pages}
    found = dict(documents)
    for id_, row in paged.items():
        document = documents.get(id_)
        if document and row.text_sha256 == sha256(document.text.encode()).hexdigest():
            found[id_] = replace(document, pages=row.pages)
    return found, mistakes


def read_document_folder(
    folder: Path, called: str, titles: Mapping[str, str] | None = None, *, foreign: list[str] | None = None
) -> tuple[Documents, list[str]]:
    """Return the documents in ``folder``, at any depth, and the mistakes, whose paths begin with ``called``.

    Symbolic links are not followed. If ``foreign`` is given, names of files of unsupported types are appended to it
    instead of mistakes.
    """
    if problem := _folder_problem(folder):
        return {}, [f"{called or folder}: {problem}"]
    documents: dict[str, Document | None] = {}
    files: dict[str, str] = {}
    mistakes: list[str] = []
    building = TaskProgress("reading documents")
    for name, path in _files(folder):
        building.done(len(documents))
        id_, kind = document_id(name), kind_of(path.name)
        problem = _name_problem(path, kind)
        if foreign is not None and problem == _no_kind():
            foreign.append(name)
            continue
        if not problem and id_ in files:
            problem = f"has the same identifier {id_!r} as {files[id_]}; rename one of them"
        if kind is None or problem:
            mistakes.append(f"{called}{ascii(name) if FORBIDDEN.search(name) else name}: {problem}")
            if kind:
                documents.setdefault(id_, None)
            continue
        files[id_] = name
        documents[id_] = None
        try:
            documents[id_] = _read(path, kind, id_, (titles or {}).get(id_))
        except TextError as error:
            mistakes.append(error.at(f"{called}{name}"))
    if not documents and not mistakes and not foreign:
        mistakes.append(f"{called or folder}: has no documents; put {kinds_in_words()} files there")
    return dict(sorted(documents.items())), mistakes


def read_document(path: Path) -> Document:
    """Return the document in one file. Raises ``DatasetError``."""
    if not path.exists():
        raise DatasetError([f"{path}: is missing; name a file or a folder of documents"])
    kind = kind_of(path.name)
    problem = _name_problem(path, kind)
    if kind is None or problem:
        raise DatasetError([f"{path}: {problem}"])
    try:
        return _read(path, kind, document_id(path.name), None)
    except TextError as error:
        raise DatasetError([error.at(str(path))]) from error


def _files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the relative and full paths of files in ``folder`` at any depth, sorted by name.

    A folder that cannot be listed is yielded itself. Hidden entries and compiled modules are skipped.
    """
    within = [("", folder)]
    while within:
        above, at = within.pop()
        inner: list[tuple[str, Path]] = []
        for path in sorted(at.iterdir(), key=lambda path: path.name):
            if path.name.startswith(".") or path.name == "__pycache__":  # such as .DS_Store
                continue
            name = f"{above}{path.name}"
            if path.is_symlink() or not path.is_dir() or FORBIDDEN.search(path.name) or not _opens(path):
                yield name, path
            else:
                inner.append((f"{name}/", path))
        within.extend(reversed(inner))


def _opens(folder: Path) -> bool:
    return os.access(folder, os.R_OK | os.X_OK)


def document_id(name: str) -> str:
    """Return the identifier of a document by its path in the folder of documents, with ``/`` between folders.

    Markdown and plain text lose their suffix. It is in NFC, as file systems differ in that.
    """
    path = PurePosixPath(name)
    kind = kind_of(path)
    return unicodedata.normalize("NFC", str(path.with_suffix("") if kind and kind.by_stem else path))


def default_title(document: Document) -> str:
    """Return the title of a document without one in the manifest: its heading of level 1, else its identifier."""
    heading = title(document.text) if document.modality is Modality.PROSE else None
    return heading or document.id


def document_file(document: Document) -> tuple[str, str]:
    """Return the name and content of a file that is read as ``document``, without its title. Raises ``TextError``.

    Source code and tables keep their type; everything else, including text of PDF, becomes Markdown.
    """
    if document.modality is Modality.PROSE:
        return _safe(f"{document.id}.md", document), document.text
    name = _safe(document.id, document)
    kind = kind_of(name)
    if kind is None or kind.modality is not document.modality:
        raise TextError(f"the id does not end as the name of a file with {document.modality} does; add the ending")
    if document.modality is Modality.CODE:
        return name, document.text
    source = source_of(document.text, separator(name))
    if source is None:
        raise TextError("the text is not that of a table, one line 'column: value; ...' a row; make it prose")
    return name, source


def _safe(name: str, document: Document) -> str:
    parts = name.split("/")
    unsafe = any(not part or part.startswith(".") or len(part.encode()) > MAX_NAME for part in parts)
    if unsafe or "\\" in name or FORBIDDEN.search(name) or document.id != document_id(name):
        raise TextError("the id is not the path of a file without its ending; rename it")
    return name


def _folder_problem(folder: Path) -> str | None:
    try:
        mode = folder.lstat().st_mode
    except OSError:
        return f"is missing; create this folder and put {kinds_in_words()} files there"
    if stat.S_ISLNK(mode):
        return LINK
    if not stat.S_ISDIR(mode):
        return "is not a folder; put the documents in a folder of this name"
    return None if _opens(folder) else CLOSED


def _name_problem(path: Path, kind: DocumentKind | None) -> str | None:
    if FORBIDDEN.search(path.name):
        return "the name has characters that cannot be printed; rename it"
    if path.is_dir():
        return LINK if path.is_symlink() else CLOSED
    if kind is None:
        return _no_kind()
    return None


def _no_kind() -> str:
    return f"is of no kind that can be read: {kinds_in_words()}; {CONVERT}"


def _read(path: Path, kind: DocumentKind, id_: str, wanted: str | None) -> Document:
    loaded = kind.read(path)
    if not loaded.text.strip():
        raise TextError("is empty; add text or remove the file")
    return Document(id_, wanted or loaded.title or id_, loaded.text, kind.modality, loaded.pages)
