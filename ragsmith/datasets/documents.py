"""Read the documents of a data set's folder, and say everything that is wrong with them."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from ragsmith.datasets.kinds import DocumentKind, kind_of, kinds_in_words
from ragsmith.datasets.kinds.tables import separator, source_of
from ragsmith.text.files import FORBIDDEN, TextError
from ragsmith.text.markdown import title
from ragsmith.types import Document, Modality

FOLDER = "documents"
MAX_NAME = 255

Documents = Mapping[str, Document | None]
"""By identifier; ``None`` for a document that is there but cannot be used."""


def read_documents(dataset: Path, titles: Mapping[str, str] | None = None) -> tuple[Documents, list[str]]:
    """Return the documents of the data set in folder ``dataset``, sorted by identifier, and the mistakes.

    ``titles`` go before the titles that the files give themselves.
    """
    return documents_in(dataset / FOLDER, f"{FOLDER}/", titles)


def documents_in(folder: Path, called: str, titles: Mapping[str, str] | None = None) -> tuple[Documents, list[str]]:
    """Return the documents that lie in ``folder`` itself; mistakes name it as ``called``, which ends with a slash."""
    if problem := _folder_problem(folder):
        return {}, [f"{called or folder}: {problem}"]
    documents: dict[str, Document | None] = {}
    files: dict[str, str] = {}
    mistakes: list[str] = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith(".") or path.name == "__pycache__":  # .DS_Store and its like; compiled .py documents
            continue
        id_, kind = document_id(path), kind_of(path.name)
        problem = _name_problem(path, kind, called)
        if not problem and id_ in files:
            problem = f"has the same identifier {id_!r} as {files[id_]}; rename one of them"
        if kind is None or problem:
            name = ascii(path.name) if FORBIDDEN.search(path.name) else path.name
            mistakes.append(f"{called}{name}: {problem}")
            if kind:
                documents.setdefault(id_, None)
            continue
        files[id_] = path.name
        documents[id_] = None
        try:
            documents[id_] = _read(path, kind, id_, (titles or {}).get(id_))
        except TextError as error:
            mistakes.append(error.at(f"{called}{path.name}"))
    if not documents and not mistakes:
        mistakes.append(f"{called or folder}: has no documents; put {kinds_in_words()} files there")
    return dict(sorted(documents.items())), mistakes


def document_id(path: Path) -> str:
    """Return the identifier of a document, in NFC because file systems differ in that.

    It is the file's stem for Markdown and plain text, and the whole name for every other kind.
    """
    kind = kind_of(path.name)
    return unicodedata.normalize("NFC", path.name if kind and not kind.by_stem else path.stem)


def default_title(document: Document) -> str:
    """Return the title of a written document if nothing else is said: its heading of level 1, else its identifier."""
    heading = title(document.text) if document.modality is Modality.PROSE else None
    return heading or document.id


def document_file(document: Document) -> tuple[str, str]:
    """Return a file's name and content that are read as ``document``, but for its title. Raises ``TextError``.

    Source code and tables are written as what they are, everything else as Markdown, a PDF's text, too.
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
    path = Path(name)
    unsafe = "/" in name or "\\" in name or name.startswith(".") or document.id != document_id(path)
    if unsafe or FORBIDDEN.search(name) or len(name.encode()) > MAX_NAME:
        raise TextError("the id is not the stem of a file name; rename it")
    return name


def _folder_problem(folder: Path) -> str | None:
    try:
        mode = folder.lstat().st_mode
    except OSError:
        return f"is missing; create this folder and put {kinds_in_words()} files there"
    if stat.S_ISLNK(mode):
        return "is a symbolic link, which is not followed; put the folder itself here"
    if not stat.S_ISDIR(mode):
        return "is not a folder; put the documents in a folder of this name"
    return None if os.access(folder, os.R_OK | os.X_OK) else "cannot be listed; check its permissions"


def _name_problem(path: Path, kind: DocumentKind | None, called: str) -> str | None:
    if FORBIDDEN.search(path.name):
        return "the file's name has characters that cannot be printed; rename it"
    if not path.is_symlink() and path.is_dir():
        return f"is a folder; move its files up{called and f' into {called}'}"
    if kind is None:
        return f"is of no kind that can be read: {kinds_in_words()}; convert it or move it away"
    return None


def _read(path: Path, kind: DocumentKind, id_: str, wanted: str | None) -> Document:
    loaded = kind.read(path)
    if not loaded.text.strip():
        raise TextError("is empty; add text or remove the file")
    return Document(id_, wanted or loaded.title or id_, loaded.text, kind.modality)
