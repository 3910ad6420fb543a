"""Read the documents of a data set's folder, and say everything that is wrong with them."""

from __future__ import annotations

import os
import stat
import unicodedata
from collections.abc import Mapping
from pathlib import Path

from ragsmith.markdown import title
from ragsmith.strict_text import FORBIDDEN, MIB, TextError, read_text
from ragsmith.types import Document

FOLDER = "documents"
SUFFIXES = (".md", ".txt")
MAX_BYTES = 16 * MIB

Documents = Mapping[str, Document | None]
"""By identifier; ``None`` for a document that is there but cannot be used."""


def read_documents(dataset: Path) -> tuple[Documents, list[str]]:
    """Return the documents of the data set in folder ``dataset``, sorted by identifier, and the mistakes."""
    folder = dataset / FOLDER
    if problem := _folder_problem(folder):
        return {}, [f"{FOLDER}/: {problem}"]
    documents: dict[str, Document | None] = {}
    files: dict[str, str] = {}
    mistakes: list[str] = []
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.startswith("."):  # .DS_Store and its like
            continue
        id_ = document_id(path)
        if problem := _name_problem(path) or _clash(files, id_):
            mistakes.append(f"{FOLDER}/{_printable(path.name)}: {problem}")
            if path.suffix.lower() in SUFFIXES:
                documents.setdefault(id_, None)
            continue
        files[id_] = path.name
        documents[id_] = None
        try:
            documents[id_] = _read(path, id_)
        except TextError as error:
            mistakes.append(error.at(f"{FOLDER}/{path.name}"))
    if not documents and not mistakes:
        mistakes.append(f"{FOLDER}/: has no documents; put .md or .txt files there")
    return dict(sorted(documents.items())), mistakes


def document_id(path: Path) -> str:
    """Return the identifier of a document: the file's stem, in NFC because file systems differ in that."""
    return unicodedata.normalize("NFC", path.stem)


def document_title(text: str, id_: str) -> str:
    """Return the first heading of level 1, else the identifier."""
    return title(text) or id_


def _folder_problem(folder: Path) -> str | None:
    try:
        mode = folder.lstat().st_mode
    except OSError:
        return "is missing; create this folder and put .md or .txt files there"
    if stat.S_ISLNK(mode):
        return "is a symbolic link, which is not followed; put the folder itself here"
    if not stat.S_ISDIR(mode):
        return "is not a folder; put the documents in a folder of this name"
    return None if os.access(folder, os.R_OK | os.X_OK) else "cannot be listed; check its permissions"


def _name_problem(path: Path) -> str | None:
    if FORBIDDEN.search(path.name):
        return "the file's name has characters that cannot be printed; rename it"
    if not path.is_symlink() and path.is_dir():
        return "is a folder; move its files up into documents/"
    if path.suffix.lower() not in SUFFIXES:
        return "is not a .md or .txt file; convert it to text or move it away"
    return None


def _clash(files: Mapping[str, str], id_: str) -> str | None:
    return f"has the same identifier {id_!r} as {files[id_]}; rename one of them" if id_ in files else None


def _read(path: Path, id_: str) -> Document:
    text = read_text(path, limit=MAX_BYTES)
    if not text.strip():
        raise TextError("is empty; add text or remove the file")
    return Document(id_, document_title(text, id_), text)


def _printable(name: str) -> str:
    return ascii(name) if FORBIDDEN.search(name) else name
