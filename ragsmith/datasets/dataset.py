"""Read, validate and write data sets: folders of documents and labelled questions.

    dataset.yaml       name, and optionally title, description, licence, language, and titles and languages of documents
    documents/**       text (.md, .txt: the identifier is the path without suffix), source code, tables (.csv, .tsv) and
                       PDF (the identifier is the path); in folders of any depth
    questions.jsonl    questions, answers and their evidence, which becomes spans of the text as loaded

A data set with mistakes is not loaded: all of them are listed at once.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragsmith.datasets.bundled import bundled_path, names
from ragsmith.datasets.documents import FOLDER, read_document_folder, read_documents
from ragsmith.datasets.evidence import count_moved
from ragsmith.datasets.languages import assign_languages
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import KEYS, derive_dataset_name, read_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.questions import question_record, read_questions
from ragsmith.datasets.summary import describe
from ragsmith.datasets.writing import document_files, new_folder, write_documents
from ragsmith.digest import digest
from ragsmith.errors import DatasetError, UsageError, WrongOption
from ragsmith.text.jsonl import json_lines
from ragsmith.text.languages import ENGLISH
from ragsmith.types import Dataset, Document, Example, Modality, Span

__all__ = [
    "describe",
    "load_dataset",
    "load_documents",
    "load_documents_option",
    "make_dataset",
    "validate_dataset",
    "write_dataset",
]


def load_dataset(name_or_path: str | Path) -> Dataset:
    """Read the data set in a folder, or the bundled one of that name.

    Documents and questions are sorted by identifier, identical documents merged.

    Raises:
        DatasetError: the folder has mistakes; it lists all of them.
        UsageError: there is no such folder or name.
    """
    folder = bundled_path("datasets", name_or_path)
    if not any((folder / name).exists() for name in (MANIFEST, FOLDER, QUESTIONS)):
        raise DatasetError([_no_data_set(folder)])
    made = _load_folder(folder, with_questions=True)
    return replace(made, source=str(folder.resolve() if Path(name_or_path).is_dir() else name_or_path))


def load_documents(folder: str | Path) -> Dataset:
    """Read the documents in a folder, or those of a data set or of the bundled one of that name, without questions.

    Raises:
        DatasetError: the folder has mistakes; it lists all of them.
        UsageError: there is no such folder or name.
    """
    found = bundled_path("datasets", folder)
    inner = found / FOLDER
    if inner.is_dir() and (found / MANIFEST).is_file():
        return _load_folder(found, with_questions=False)
    at = inner if inner.is_dir() else found
    foreign: list[str] = []
    documents, wrong = read_document_folder(at, "", foreign=foreign)
    if foreign:
        raise DatasetError([_to_be_converted(at, foreign), *wrong])
    if wrong:
        raise DatasetError(wrong if inner.is_dir() else [_no_data_set(found), *wrong])
    return make_dataset(
        {"name": derive_dataset_name(found)}, [document for document in documents.values() if document], []
    )


def _load_folder(folder: Path, *, with_questions: bool) -> Dataset:
    manifest, wrong = read_manifest(folder)
    documents, wrong_documents = read_documents(folder, manifest.titles)
    examples, wrong_questions = read_questions(folder, documents) if with_questions else ([], [])
    if mistakes := (*wrong, *manifest.unknown_documents(documents), *wrong_documents, *wrong_questions):
        raise DatasetError(mistakes, [_found_again(folder, stale)] if (stale := count_moved(wrong_questions)) else [])
    found = [document for document in documents.values() if document]
    return make_dataset(manifest.metadata, found, examples, languages=manifest.languages)


def load_documents_option(folder: str | Path) -> Dataset:
    """Load the documents of the option ``documents``; raises as `load_documents`, and ``WrongOption``."""
    if not Path(folder).is_dir() and str(folder) not in names("datasets"):
        raise WrongOption("documents", f"names no folder: {folder}; give one of documents, or a data set")
    return load_documents(folder)


def _to_be_converted(folder: Path, foreign: Sequence[str]) -> str:
    some = foreign[0] if len(foreign) == 1 else f"{foreign[0]} and {len(foreign) - 1:,} more"
    return (
        f"{some} cannot be read as {'it is' if len(foreign) == 1 else 'they are'}: "
        f"`ragsmith dataset init {shlex.quote(str(folder))} -o DIR` converts the folder; then name DIR instead"
    )


def _found_again(folder: Path, stale: int) -> str:
    what = "a piece of evidence is" if stale == 1 else f"{stale:,} pieces of evidence are"
    repair = f"ragsmith dataset anchor --repair {shlex.quote(str(folder))}"
    return f"{QUESTIONS}: {what} not where it says, as after an edit of documents: `{repair}` looks for it again"


def _no_data_set(folder: Path) -> str:
    return f"{folder} is not a data set:  ragsmith dataset init {shlex.quote(str(folder))} -o DIR  makes one"


def validate_dataset(path: str | Path) -> tuple[str, ...]:
    """Return all mistakes in a data set, one sentence each."""
    try:
        load_dataset(path)
    except DatasetError as error:
        return error.mistakes
    except UsageError as error:
        return (str(error),)
    return ()


def make_dataset(
    about: Mapping[str, str],
    documents: Sequence[Document],
    examples: Sequence[Example],
    *,
    languages: Mapping[str, str] | None = None,
) -> Dataset:
    """Return a data set of valid parts: sorted, identical documents merged, with its digest.

    ``about`` has the keys of ``dataset.yaml``, of which ``name`` is required. ``languages`` are those of some documents
    by identifier; others have the ``language`` in ``about``, or a detected one.
    """
    kept, merged = _merge(documents)
    kept, language = assign_languages(kept, about.get("language"), languages)
    said = {**{document.id: document.language for document in kept}, **(languages or {})}
    given = {document.id: document for document in documents}
    moved = [_repoint(example, merged) for example in examples]
    ordered = tuple(sorted(moved, key=lambda example: example.id))
    return Dataset(
        name=about["name"],
        title=about.get("title", about["name"]),
        description=about.get("description", ""),
        licence=about.get("licence", "not stated"),
        language=language,
        documents=kept,
        examples=ordered,
        digest=digest("dataset", [_text_of(document) for document in kept], [_content(example) for example in ordered]),
        merged=tuple(merged.items()),
        duplicates=tuple([replace(given[one], language=said.get(one, said[first])) for one, first in merged.items()]),
    )


def write_dataset(dataset: Dataset, folder: str | Path) -> None:
    """Write a data set in the layout that ``load_dataset`` reads.

    Raises:
        UsageError: ``folder`` exists and is not empty.
        DatasetError: the written data set would be invalid; nothing is left behind then.
    """
    files = document_files(dataset.documents)
    with new_folder(Path(folder)) as draft:
        write_documents(draft, {key: getattr(dataset, key) for key in KEYS}, dataset.documents, files)
        texts = {document.id: document.text for document in dataset.documents}
        lines = json_lines(question_record(example, texts) for example in dataset.examples)
        (draft / QUESTIONS).write_bytes(lines.encode())
        if mistakes := validate_dataset(draft):
            raise DatasetError(mistakes)


def _merge(documents: Sequence[Document]) -> tuple[tuple[Document, ...], dict[str, str]]:
    """Return the first document by identifier of each text and modality, and a map from dropped to kept identifiers.

    The same text as code and as prose has other chunks, so these are different documents.
    """
    kept: dict[tuple[str, Modality], Document] = {}
    merged: dict[str, str] = {}
    for document in sorted(documents, key=lambda document: document.id):
        first = kept.setdefault((document.text, document.modality), document)
        if first is not document:
            merged[document.id] = first.id
    return tuple(kept.values()), merged


def _repoint(example: Example, merged: Mapping[str, str]) -> Example:
    """Move evidence to the kept documents, and remove repeated spans."""
    spans = {replace(span, doc=merged.get(span.doc, span.doc)) for span in example.evidence}
    ordered: tuple[Span, ...] = tuple(sorted(spans, key=lambda span: (span.doc, span.start, span.end)))
    return replace(example, evidence=ordered)


def _text_of(document: Document) -> dict[str, object]:
    """Return what the digest covers of a document; the language only if it is not English."""
    content: dict[str, object] = {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "modality": document.modality,
    }
    return content if document.language == ENGLISH else {**content, "language": document.language}


def _content(example: Example) -> dict[str, object]:
    """Return what the digest covers of a question; of its origin only whether it was drafted.

    A review without changes keeps the digest.
    """
    content: dict[str, object] = {
        "id": example.id,
        "question": example.question,
        "answer": example.answer,
        "type": example.type,
        "evidence": example.evidence,
        "split": example.split,
    }
    if not example.answerable:
        content["answerable"] = False
    if example.drafted:
        content["drafted"] = True
    return content
