"""Convert documents of LlamaIndex readers to a data set, in memory or in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.document_types import find_document_type
from ragsmith.datasets.documents import FOLDER, default_title, read_documents
from ragsmith.datasets.importers.registry import DocumentNames, manifest_values
from ragsmith.datasets.manifest import read_manifest
from ragsmith.datasets.writing import document_files, new_folder
from ragsmith.datasets.writing import write_documents as write_files
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.files import FORBIDDEN
from ragsmith.types import Dataset, Document, Modality

if TYPE_CHECKING:
    from llama_index.core.schema import BaseNode

BYTE_ORDER_MARK = "\ufeff"
ARCHIVE = "PK\x03\x04"
"""First bytes of a ZIP archive, and so of files of Word, Excel, PowerPoint and OpenDocument."""
MAX_UNREADABLE = 0.1
"""Share of control and replacement characters above which a text is the content of a binary file."""


@dataclass(frozen=True, slots=True)
class WrittenDocuments:
    """The documents of a reader that were written to ``folder``.

    ``ids`` has the LlamaIndex id and the identifier in the data set of each document; ``skipped`` has the LlamaIndex
    ids of documents without text, such as images.
    """

    folder: Path
    paths: tuple[Path, ...]
    ids: tuple[tuple[str, str], ...]
    skipped: tuple[str, ...]


def dataset_from_documents(documents: Sequence[BaseNode], name: str = "documents") -> Dataset:
    """Return a data set without questions, on which a pipeline can answer; a search needs questions.

    Raises:
        UsageError: no document has text, or one is the content of a binary file.
    """
    converted, _, _ = _convert(documents)
    return make_dataset({"name": name}, converted, [])


def write_documents(documents: Sequence[BaseNode], folder: str | Path, *, name: str | None = None) -> WrittenDocuments:
    """Write ``dataset.yaml`` and ``documents/`` of a new data set to ``folder``, atomically.

    A search needs ``questions.jsonl`` as well, with evidence that refers to the written texts. Control characters are
    replaced by spaces. ``name`` is by default that of the folder.

    Raises:
        UsageError: ``folder`` exists and is not empty, or no document has text.
        DatasetError: the name is invalid, or documents are the content of binary files; all mistakes are listed.
    """
    folder = Path(folder)
    converted, ids, skipped = _convert(documents)
    manifest = manifest_values(folder, "Documents read with LlamaIndex.")
    files = document_files(converted)
    with new_folder(folder) as draft:
        write_files(draft, manifest | ({"name": name} if name else {}), converted, files)
        _, manifest_mistakes = read_manifest(draft)
        _, document_mistakes = read_documents(draft)
        if mistakes := [*manifest_mistakes, *document_mistakes]:
            raise DatasetError(mistakes)
    return WrittenDocuments(folder, tuple(folder / FOLDER / file for file in files), ids, skipped)


def _convert(
    documents: Sequence[BaseNode],
) -> tuple[list[Document], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Return the documents with text, their ids in LlamaIndex and here, and the ids of the other documents."""
    converted: list[Document] = []
    ids: list[tuple[str, str]] = []
    skipped: list[str] = []
    names = DocumentNames()
    mistakes: list[str] = []
    for document in documents:
        content = _text(document)
        if _is_binary(content):
            name = _metadata_text(document, "file_name") or document.node_id
            mistakes.append(
                f"document {name} is the content of a binary file, not its text: choose a reader that extracts the "
                "text, or install the packages of the reader for such files"
            )
            continue
        text = _clean(content).removeprefix(BYTE_ORDER_MARK)
        if not text.strip():
            skipped.append(document.node_id)
            continue
        converted.append(_document(document, text, names))
        ids.append((document.node_id, converted[-1].id))
    if mistakes:
        raise DatasetError(mistakes)
    if not converted:
        raise UsageError(f"none of the {len(documents)} documents has text: choose a reader that extracts it")
    return converted, tuple(ids), tuple(skipped)


def _document(node: BaseNode, text: str, names: DocumentNames) -> Document:
    """Return a document of ``text``, named after its file and page, or after its id."""
    file = _metadata_text(node, "file_name")
    kind = find_document_type(file) if file else None
    title = " ".join(_clean(_metadata_text(node, "title")).split())
    if kind is not None and kind.modality is Modality.CODE:
        id_ = names.name(PurePath(file).stem, PurePath(file).suffix)
        return Document(id_, title or id_, text, Modality.CODE)
    page = _metadata_text(node, "page_label")
    stem = PurePath(file).stem if file else node.node_id
    id_ = names.name(f"{stem}_p{page}" if file and page else stem)
    untitled = Document(id_, id_, text)
    return Document(id_, title or default_title(untitled), text)


def _text(node: BaseNode) -> str:
    """Return the text without metadata."""
    from llama_index.core.schema import MetadataMode  # noqa: PLC0415  slow import; the caller has a node, so it is loaded

    return node.get_content(metadata_mode=MetadataMode.NONE)


def _metadata_text(node: BaseNode, key: str) -> str:
    value: Any = node.metadata.get(key)
    return str(value).strip() if isinstance(value, str | int) else ""


def _is_binary(text: str) -> bool:
    unreadable = len(FORBIDDEN.findall(text)) + text.count("\ufffd")
    return text.startswith(ARCHIVE) or unreadable > MAX_UNREADABLE * len(text)


def _clean(text: str) -> str:
    """Replace forbidden characters by spaces, which keeps the offsets."""
    return FORBIDDEN.sub(" ", text)
