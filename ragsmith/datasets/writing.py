"""Write the folder of a data set, whole or not at all."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ragsmith.datasets.documents import FOLDER, default_title, document_file
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import manifest_yaml
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.files import TextError
from ragsmith.text.languages import ENGLISH
from ragsmith.types import Document


@contextmanager
def new_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder, whose files become those of ``folder`` at the end; nothing is left after an error.

    Raises ``UsageError`` when ``folder`` exists and is not empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not an empty folder; give a new one")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".ragsmith-") as temporary:
        draft = Path(temporary)
        yield draft
        folder.mkdir(exist_ok=True)
        for path in sorted(draft.iterdir()):
            path.rename(folder / path.name)


def document_files(documents: Sequence[Document]) -> dict[str, str]:
    """Return the contents of the documents' files by name, in the order given.

    Raises ``DatasetError`` with a sentence for every document that no file can hold.
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
    """Write ``dataset.yaml`` with what it says ``about`` the data set, and the ``files`` of its documents.

    Where nothing is said of a language, that of English documents is told from their texts again.
    """
    language = about.get("language", ENGLISH)
    titles = {document.id: document.title for document in documents if document.title != default_title(document)}
    languages = {document.id: document.language for document in documents if document.language != language}
    (folder / MANIFEST).write_bytes(manifest_yaml(about, titles, languages).encode())
    (folder / FOLDER).mkdir()
    for name, content in files.items():
        path = folder / FOLDER / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode())
