"""Documents of any LlamaIndex reader as documents of a data set, in memory or in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from ragsmith.datasets.dataset import make_dataset
from ragsmith.datasets.document_types import kind_of
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
"""How a ZIP archive begins, and with it a file of Word, Excel, PowerPoint or OpenDocument."""
MOST_UNREADABLE = 0.1
"""Share of characters that no document may have, or that stand for bytes that are no text, above which it is binary."""


@dataclass(frozen=True, slots=True)
class WrittenDocuments:
    """What became of the documents of a reader.

    ``ids`` has for each that was written its LlamaIndex id and its identifier in the data set, in the order given;
    ``skipped`` the LlamaIndex ids of those without text, such as images.
    """

    folder: Path
    paths: tuple[Path, ...]
    ids: tuple[tuple[str, str], ...]
    skipped: tuple[str, ...]


def dataset_from_documents(documents: Sequence[BaseNode], name: str = "documents") -> Dataset:
    """A data set of these documents and no questions, to ask a pipeline about; a search needs questions as well.

    Raises:
        UsageError: none of them has text, or one is the content of a binary file.
    """
    converted, _, _ = _convert(documents)
    return make_dataset({"name": name}, converted, [])


def write_documents(documents: Sequence[BaseNode], folder: str | Path, *, name: str | None = None) -> WrittenDocuments:
    """Begin a data set in ``folder``: write ``dataset.yaml`` and ``documents/``, whole or not at all.

    What it lacks to be searched is ``questions.jsonl``, with evidence that points into the texts as written here.
    Control characters, which no document may have, become spaces. ``name`` is the folder's unless given.

    Raises:
        UsageError: ``folder`` exists and is not empty, or no document has text.
        DatasetError: the name or a document cannot be part of a data set, as the content of a binary file that a reader
            took for text cannot; lists every mistake.
    """
    folder = Path(folder)
    converted, ids, skipped = _convert(documents)
    described = manifest_values(folder, description="Documents read with LlamaIndex.", licence="not stated")
    files = document_files(converted)
    with new_folder(folder) as draft:
        write_files(draft, described | ({"name": name} if name else {}), converted, files)
        _, wrong = read_manifest(draft)
        _, wrong_documents = read_documents(draft)
        if mistakes := [*wrong, *wrong_documents]:
            raise DatasetError(mistakes)
    return WrittenDocuments(folder, tuple(folder / FOLDER / file for file in files), ids, skipped)


def _convert(
    documents: Sequence[BaseNode],
) -> tuple[list[Document], tuple[tuple[str, str], ...], tuple[str, ...]]:
    """Documents with text, their ids there and here, and the ids of the others."""
    converted: list[Document] = []
    ids: list[tuple[str, str]] = []
    skipped: list[str] = []
    names = DocumentNames()
    mistakes: list[str] = []
    for document in documents:
        read = _text(document)
        if _is_binary(read):
            mistakes.append(
                f"document {_said(document, 'file_name') or document.node_id} is the content of a binary file, not "
                "its text: choose a reader that extracts the text, or install what the reader needs for such files"
            )
            continue
        text = _clean(read).removeprefix(BYTE_ORDER_MARK)
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
    """A document of ``text`` that is named after its file, its page in it, or else its id."""
    file = _said(node, "file_name")
    kind = kind_of(file) if file else None
    title = " ".join(_clean(_said(node, "title")).split())
    if kind is not None and kind.modality is Modality.CODE:
        suffix = PurePath(file).suffix
        found = names.name(PurePath(file).stem, suffix)
        return Document(found, title or found, text, Modality.CODE)
    page = _said(node, "page_label")
    stem = PurePath(file).stem if file else node.node_id
    found = names.name(f"{stem}_p{page}" if file and page else stem)
    plain = Document(found, found, text)
    return Document(found, title or default_title(plain), text)


def _text(node: BaseNode) -> str:
    """The text alone, without metadata put in front."""
    from llama_index.core.schema import MetadataMode  # noqa: PLC0415  slow import, and made by whoever has a node

    return node.get_content(metadata_mode=MetadataMode.NONE)


def _said(node: BaseNode, key: str) -> str:
    value: Any = node.metadata.get(key)
    return str(value).strip() if isinstance(value, str | int) else ""


def _is_binary(text: str) -> bool:
    unreadable = len(FORBIDDEN.findall(text)) + text.count("\ufffd")
    return text.startswith(ARCHIVE) or unreadable > MOST_UNREADABLE * len(text)


def _clean(text: str) -> str:
    """Forbidden characters as spaces, so that offsets stay what they were."""
    return FORBIDDEN.sub(" ", text)
