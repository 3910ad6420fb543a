"""Read the documents in the folder of a data set, and collect all mistakes."""

import os
import stat
import unicodedata
from collections.abc import Container, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path, PurePosixPath

from ragsmith.building import TaskProgress
from ragsmith.datasets.document_types import DocumentType, describe_document_types, find_document_type
from ragsmith.datasets.document_types.tables import cell_separator, reconstruct_source
from ragsmith.datasets.fields import convert_fields
from ragsmith.datasets.manifest import read_optional_manifest
from ragsmith.datasets.sources import read_sources
from ragsmith.errors import DatasetError, UsageError
from ragsmith.grouping import group_values
from ragsmith.text.files import FORBIDDEN, TextError
from ragsmith.text.markdown import find_title
from ragsmith.types import Document, Modality

FOLDER = "documents"
MAX_NAME_BYTES = 255
"""Maximum length of a file name, in bytes."""

SYMBOLIC_LINK = "is a symbolic link, which is not followed; put the folder itself here"
CONVERSION_ADVICE = "convert the folder with  ragsmith dataset init  or move the file away"
NOT_LISTABLE = "cannot be listed; check its permissions"

COPIES = "also_in"
"""Field with the paths of the source files that have the text of the document, too."""

Documents = Mapping[str, Document | None]
"""Documents by identifier; None for an invalid document."""


def read_documents(
    dataset: Path,
    titles: Mapping[str, str] | None = None,
    field_types: Mapping[str, str] | None = None,
    *,
    ids: Mapping[Path, str] | None = None,
) -> tuple[Documents, list[str]]:
    """Return the documents of the data set in folder ``dataset``, sorted by identifier, and the mistakes.

    ``titles`` take precedence over titles in the files, and ``field_types`` over the declared types of fields. ``ids``
    are those of `read_document_folder`. Documents converted from paged files have pages, unless the documents were
    edited, those converted from a sheet of a workbook have the field ``sheet``, and those whose text other files have
    have the paths of these in the field `COPIES`.
    """
    types = {**read_optional_manifest(dataset)[0].fields, **(field_types or {})}
    documents, mistakes = read_document_folder(dataset / FOLDER, f"{FOLDER}/", titles, types, ids=ids)
    try:
        sources = read_sources(dataset)
    except DatasetError as error:
        return documents, [*mistakes, *error.mistakes]
    updated = dict(documents)
    for row in sources:
        document = updated.get(row.doc or "")
        if document and row.part:
            document = updated[document.id] = replace(document, fields={"sheet": row.part, **document.fields})
        if document and row.pages and row.text_sha256 == sha256(document.text.encode()).hexdigest():
            updated[document.id] = replace(document, pages=row.pages)
    updated |= {
        id_: replace(document, fields={COPIES: tuple(dict.fromkeys(places)), **document.fields})
        for id_, places in group_values((row.duplicate_of or "", row.source) for row in sources).items()
        if (document := updated.get(id_))
    }
    return updated, mistakes


def read_document_folder(
    folder: Path,
    prefix: str,
    titles: Mapping[str, str] | None = None,
    field_types: Mapping[str, str] | None = None,
    *,
    unsupported: list[str] | None = None,
    ids: Mapping[Path, str] | None = None,
) -> tuple[Documents, list[str]]:
    """Return the documents in ``folder`` and its subfolders, and the mistakes, with ``prefix`` before the paths.

    ``field_types`` are the declared types of fields. Symbolic links are not followed. Names of files of unsupported
    types are appended to ``unsupported`` if given, else reported as mistakes. ``ids`` has the files to read, with their
    identifiers; by default, all are read and have those of `document_id`.
    """
    if problem := _find_folder_problem(folder):
        return {}, [f"{prefix or folder}: {problem}"]
    documents: dict[str, Document | None] = {}
    files: dict[str, str] = {}
    mistakes: list[str] = []
    progress = TaskProgress("reading documents")
    for path in iter_files(folder) if ids is None else ids:
        progress.done(len(documents))
        name = path.relative_to(folder).as_posix()
        id_, kind = document_id(name) if ids is None else ids[path], find_document_type(path.name)
        problem = _find_file_problem(path, kind)
        if unsupported is not None and problem == _describe_unsupported():
            unsupported.append(name)
            continue
        if not problem and id_ in files:
            problem = f"has the same identifier {id_!r} as {files[id_]}; rename one of them"
        if kind is None or problem:
            mistakes.append(f"{prefix}{ascii(name) if FORBIDDEN.search(name) else name}: {problem}")
            if kind:
                documents.setdefault(id_, None)
            continue
        files[id_] = name
        documents[id_] = None
        try:
            documents[id_] = _load_document(path, kind, id_, (titles or {}).get(id_), field_types)
        except TextError as error:
            mistakes.append(error.at(f"{prefix}{name}"))
    if not documents and not mistakes and not unsupported:
        mistakes.append(f"{prefix or folder}: has no documents; put {describe_document_types()} files there")
    return dict(sorted(documents.items())), mistakes


def iter_files(folder: Path) -> Iterator[Path]:
    """Yield the files in ``folder`` at any depth, sorted by name.

    A folder that cannot be listed is yielded like a file. Hidden entries and compiled modules are skipped.
    """
    for current, subfolders, files in os.walk(folder):
        visible = [name for name in sorted([*subfolders, *files]) if not name.startswith(".") and name != "__pycache__"]
        paths = [Path(current, name) for name in visible]
        walked = {path for path in paths if _is_walked(path)}
        subfolders[:] = sorted(path.name for path in walked)
        yield from (path for path in paths if path not in walked)


def _is_walked(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not FORBIDDEN.search(path.name) and _is_listable(path)


def _is_listable(folder: Path) -> bool:
    return os.access(folder, os.R_OK | os.X_OK)


def documents_folder(folder: Path) -> Path:
    """Return the folder of the documents of a data set, or ``folder`` if it has the documents themselves."""
    return folder / FOLDER if (folder / FOLDER).is_dir() else folder


def document_id(name: str) -> str:
    """Return the identifier of a document by its path in the folder of documents, with ``/`` between folders.

    The suffix of Markdown and plain text is removed. The identifier is in NFC, as file systems differ in Unicode forms.
    """
    path = PurePosixPath(name)
    kind = find_document_type(path)
    return unicodedata.normalize("NFC", str(path.with_suffix("") if kind and kind.by_stem else path))


def path_ids(path: str) -> Iterator[str]:
    """Yield the identifiers that a path may name, the longest first: of ``wiki/hr/policy.md`` also ``hr/policy``."""
    parts = PurePosixPath(unicodedata.normalize("NFC", path.replace("\\", "/"))).parts
    for first in range(len(parts)):
        name = "/".join(parts[first:])
        yield from (name, document_id(name))


def find_document_id(path: str, known: Container[str]) -> str | None:
    """Return the identifier that a path names, with or without folders above and the ending, None if none is known."""
    return next((id_ for id_ in path_ids(path) if id_ in known), None)


def resolve_document_path(path: str, known: Container[str]) -> str:
    """Return the identifier in ``known`` that is ``path`` or of the file at this path; else the path in NFC.

    The path starts in the folder of documents or above it. Other folders are not removed, as ``hr/policy`` would become
    ``policy`` once it is gone.
    """
    name = str(PurePosixPath(unicodedata.normalize("NFC", path.replace("\\", "/"))))
    names = (name, f"/{name}".rpartition(f"/{FOLDER}/")[2])
    return next((id_ for each in names for id_ in (each, document_id(each)) if id_ in known), name)


def copies_of(document: Document) -> tuple[str, ...]:
    """Return the paths of the source files that have the text of a document, too."""
    return places if isinstance(places := document.fields.get(COPIES), tuple) else ()


def default_title(document: Document) -> str:
    """Return the title of a document without a title in the manifest: the heading of level 1, else the identifier."""
    heading = find_title(document.text) if document.modality is Modality.PROSE else None
    return heading or document.id


def document_file(document: Document) -> tuple[str, str]:
    """Return the name and content of a file that loads as ``document``, except for its title. Raises ``TextError``.

    Source code and tables keep their file type; all other documents, such as the text of a PDF, become Markdown.
    """
    if document.modality is Modality.PROSE:
        return _validate_file_name(f"{document.id}.md", document), document.text
    name = _validate_file_name(document.id, document)
    kind = find_document_type(name)
    if kind is None or kind.modality is not document.modality:
        raise TextError(f"the id has no file name suffix of {document.modality}; add the suffix")
    if document.modality is Modality.CODE:
        return name, document.text
    source = reconstruct_source(document.text, cell_separator(name))
    if source is None:
        raise TextError("the text is not a table with a line 'column: value; ...' for each row; make it prose")
    return name, source


def _validate_file_name(name: str, document: Document) -> str:
    """Return ``name`` if it is a valid file name of ``document``. Raises ``TextError``."""
    parts = name.split("/")
    is_unsafe = any(not part or part.startswith(".") or len(part.encode()) > MAX_NAME_BYTES for part in parts)
    if is_unsafe or "\\" in name or FORBIDDEN.search(name) or document.id != document_id(name):
        raise TextError("the id is not the path of a file without its suffix; rename it")
    return name


def _find_folder_problem(folder: Path) -> str | None:
    try:
        mode = folder.lstat().st_mode
    except OSError:
        return f"is missing; create this folder and put {describe_document_types()} files there"
    if stat.S_ISLNK(mode):
        return SYMBOLIC_LINK
    if not stat.S_ISDIR(mode):
        return "is not a folder; put the documents in a folder of this name"
    return None if _is_listable(folder) else NOT_LISTABLE


def _find_file_problem(path: Path, kind: DocumentType | None) -> str | None:
    if FORBIDDEN.search(path.name):
        return "the name has characters that cannot be printed; rename it"
    if path.is_dir():
        return SYMBOLIC_LINK if path.is_symlink() else NOT_LISTABLE
    if kind is None:
        return _describe_unsupported()
    return None


def _describe_unsupported() -> str:
    return f"is not of a supported type: {describe_document_types()}; {CONVERSION_ADVICE}"


def _load_document(
    path: Path, kind: DocumentType, id_: str, given_title: str | None, field_types: Mapping[str, str] | None = None
) -> Document:
    loaded = kind.read(path)
    if not loaded.text.strip():
        raise TextError("is empty; add text or remove the file")
    try:
        fields = convert_fields(id_, loaded.fields, field_types or {})
    except UsageError as error:
        raise TextError(f"{error}; correct it, or its type in dataset.yaml") from None
    return Document(id_, given_title or loaded.title or id_, loaded.text, kind.modality, loaded.pages, fields=fields)
