"""Read, validate and write data sets: folders of documents and labelled questions.

    dataset.yaml       name, and optionally title, description, licence, language, titles and languages of documents,
                       and types of their fields
    documents/**       text (.md, .txt: the identifier is the path without suffix), source code, tables (.csv, .tsv) and
                       PDF (the identifier is the path); in folders of any depth
    questions.jsonl    questions, answers and their evidence, which becomes spans of the loaded text

Loading a data set with mistakes raises one error that lists all of them.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragsmith.datasets.bundled import bundled_names, bundled_path
from ragsmith.datasets.documents import COPIES, FOLDER, documents_folder, read_document_folder, read_documents
from ragsmith.datasets.evidence import count_moved, join_places, sort_spans
from ragsmith.datasets.languages import assign_languages
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import KEYS, Manifest, derive_dataset_name, read_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.questions import question_record, read_questions
from ragsmith.datasets.summary import describe
from ragsmith.datasets.writing import document_files, new_folder, write_documents
from ragsmith.digest import digest
from ragsmith.errors import DatasetError, UsageError, WrongOption
from ragsmith.text.filters import format_filter
from ragsmith.text.jsonl import json_lines
from ragsmith.text.languages import ENGLISH
from ragsmith.types import Dataset, Document, Example, places_of

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
    """Read the data set in a folder, or the bundled data set of that name.

    Documents and questions are sorted by identifier; identical documents are merged.

    Raises:
        DatasetError: the folder has mistakes; the error lists all of them.
        UsageError: there is no such folder or name.
    """
    folder = bundled_path("datasets", name_or_path)
    if not any((folder / name).exists() for name in (MANIFEST, FOLDER, QUESTIONS)):
        raise DatasetError([_describe_missing(folder)])
    manifest, wrong = read_manifest(folder)
    documents, wrong_documents = read_documents(folder, manifest.titles)
    examples, wrong_questions = read_questions(folder, documents)
    if mistakes := (*wrong, *manifest.unknown_documents(documents), *wrong_documents, *wrong_questions):
        moved = count_moved(wrong_questions)
        raise DatasetError(mistakes, [_describe_moved(folder, moved)] if moved else [])
    valid = [document for document in documents.values() if document]
    dataset = make_dataset(manifest.metadata, valid, examples, languages=manifest.languages)
    return replace(dataset, source=str(folder.resolve() if Path(name_or_path).is_dir() else name_or_path))


def load_documents(folder: str | Path) -> Dataset:
    """Read the documents in a folder, or those of a data set given by folder or bundled name, without questions.

    Raises:
        DatasetError: the folder has mistakes; the error lists all of them.
        UsageError: there is no such folder or name.
    """
    path = bundled_path("datasets", folder)
    documents, manifest = read_files(path, documents_folder(path))
    metadata = manifest.metadata or {"name": derive_dataset_name(path)}
    return make_dataset(metadata, documents, [], languages=manifest.languages)


def is_dataset(folder: Path) -> bool:
    """Whether a folder has the layout of a data set; else it has the documents themselves."""
    return (folder / FOLDER).is_dir() and (folder / MANIFEST).is_file()


def read_files(
    source: Path, root: Path, ids: Mapping[Path, str] | None = None, field_types: Mapping[str, str] | None = None
) -> tuple[list[Document], Manifest]:
    """Return documents of a folder or data set, or of a file, and the manifest of the data set.

    ``root`` is the folder of the documents, ``ids`` has the identifiers of the files to read, by default all.
    ``field_types`` take precedence over those of the manifest.

    Raises:
        DatasetError: the files or the manifest have mistakes; the error lists all of them.
    """
    manifest, mistakes = find_manifest(source)
    wrong = [f"{source}/{mistake}" for mistake in mistakes]
    unsupported: list[str] = []
    if is_dataset(source):
        documents, mistakes = read_documents(source, manifest.titles, field_types, ids=ids)
        wrong += manifest.unknown_documents(documents) if ids is None else ()
    else:
        documents, mistakes = read_document_folder(
            root, "", None, field_types, unsupported=unsupported if source.is_dir() else None, ids=ids
        )
        if unsupported:
            wrong = [_describe_unsupported(root, unsupported)]
        elif mistakes and root == source:
            wrong, mistakes = [_describe_missing(source)], mistakes if any(source.iterdir()) else []
    if mistakes or wrong:
        raise DatasetError([*wrong, *mistakes])
    return [document for document in documents.values() if document], manifest


def find_manifest(folder: Path) -> tuple[Manifest, list[str]]:
    """Return the manifest of a data set and its mistakes, or an empty one for a folder of documents."""
    return read_manifest(folder) if is_dataset(folder) else (Manifest(), [])


def load_documents_option(folder: str | Path) -> Dataset:
    """Load the documents given by the option ``documents``.

    Raises ``WrongOption`` for an unknown folder or name, and the errors of `load_documents`.
    """
    if not Path(folder).is_dir() and str(folder) not in bundled_names("datasets"):
        raise WrongOption(
            "documents",
            f"is {str(folder)!r}, which is neither a folder nor a data set: give a folder of documents, or a data set",
        )
    return load_documents(folder)


def _describe_unsupported(folder: Path, files: Sequence[str]) -> str:
    listed = files[0] if len(files) == 1 else f"{files[0]} and {len(files) - 1:,} more"
    return (
        f"{listed} cannot be read as {'it is' if len(files) == 1 else 'they are'}: "
        f"`ragsmith dataset init {shlex.quote(str(folder))} -o DIR` converts the folder; then name DIR instead"
    )


def _describe_moved(folder: Path, count: int) -> str:
    what = "a piece of evidence is" if count == 1 else f"{count:,} pieces of evidence are"
    repair = f"ragsmith dataset anchor --repair {shlex.quote(str(folder))}"
    return f"{QUESTIONS}: {what} not at the given offsets, as after an edit of documents: `{repair}` locates it again"


def _describe_missing(folder: Path) -> str:
    named = shlex.quote(str(folder))
    if not any(folder.iterdir()):
        return f"{folder} is empty: put documents there, or name a data set (`ragsmith dataset list` shows some)"
    if folder.name == FOLDER and (folder.parent / MANIFEST).is_file():
        return f"{folder} has the documents of a data set: give its folder, {folder.parent}"
    return (
        f"{folder} is not a data set: `ragsmith dataset init {named} -o DIR` makes one without questions, which a "
        f"search needs (`ragsmith dataset anchor QUESTIONS.csv --documents DIR` adds them); "
        f"`ragsmith recommend {named}` needs none"
    )


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
    metadata: Mapping[str, str],
    documents: Sequence[Document],
    examples: Sequence[Example],
    *,
    languages: Mapping[str, str] | None = None,
) -> Dataset:
    """Return a data set of valid documents and questions, sorted, with identical documents merged.

    ``metadata`` has the keys of ``dataset.yaml``, of which ``name`` is required. ``languages`` maps some documents to
    their language; all others have the ``language`` in ``metadata``, or a detected language.
    """
    distinct, merged = merge_duplicates(documents)
    distinct, language = assign_languages(distinct, metadata.get("language"), languages)
    language_by_id = {**{document.id: document.language for document in distinct}, **(languages or {})}
    by_id = {document.id: document for document in documents}
    duplicates = [
        replace(by_id[id_], language=language_by_id.get(id_, language_by_id[first])) for id_, first in merged.items()
    ]
    ordered = tuple(sorted((_redirect_evidence(example, merged) for example in examples), key=lambda e: e.id))
    contents = [_document_content(document) for document in distinct]
    fields = [repr(sorted(each.fields.items())) for each in distinct] if any(each.filter for each in ordered) else []
    return Dataset(
        name=metadata["name"],
        title=metadata.get("title", metadata["name"]),
        description=metadata.get("description", ""),
        licence=metadata.get("licence", "not stated"),
        language=language,
        documents=distinct,
        examples=ordered,
        digest=digest(
            "dataset",
            contents,
            [_question_content(example) for example in ordered],
            *fields,
        ),
        merged=tuple(merged.items()),
        duplicates=tuple(duplicates),
    )


def write_dataset(dataset: Dataset, folder: str | Path) -> None:
    """Write a data set in the layout that ``load_dataset`` reads.

    Raises:
        UsageError: ``folder`` exists and is not empty.
        DatasetError: the data set would be invalid; no file is written then.
    """
    files = document_files(dataset.documents)
    with new_folder(Path(folder)) as draft:
        write_documents(draft, {key: getattr(dataset, key) for key in KEYS}, dataset.documents, files)
        texts = {document.id: document.text for document in dataset.documents}
        lines = json_lines(question_record(example, texts) for example in dataset.examples)
        (draft / QUESTIONS).write_bytes(lines.encode())
        if mistakes := validate_dataset(draft):
            raise DatasetError(mistakes)


def merge_duplicates(documents: Sequence[Document]) -> tuple[tuple[Document, ...], dict[str, str]]:
    """Return the first document of each text, modality and fields, and a map from its duplicates to its identifier.

    The same text is chunked differently as code and as prose, so these are different documents.
    """
    distinct: dict[tuple[object, ...], Document] = {}
    merged: dict[str, str] = {}
    for document in sorted(documents, key=lambda document: document.id):
        fields = sorted((name, value) for name, value in document.fields.items() if name != COPIES)
        first = distinct.setdefault((document.text, document.modality, *fields), document)
        if first is not document:
            merged[document.id] = first.id
    return tuple(distinct.values()), merged


def _redirect_evidence(example: Example, merged: Mapping[str, str]) -> Example:
    """Replace merged documents in the evidence, and remove repeated spans."""
    spans = (
        join_places(replace(place, doc=merged.get(place.doc, place.doc)) for place in places_of(span))
        for span in example.evidence
    )
    return replace(example, evidence=sort_spans(spans))


def _document_content(document: Document) -> dict[str, object]:
    """Return the content of a document for the digest, with the language unless it is English."""
    return {
        "id": document.id,
        "title": document.title,
        "text": document.text,
        "modality": document.modality,
        **({} if document.language == ENGLISH else {"language": document.language}),
    }


def _question_content(example: Example) -> dict[str, object]:
    """Return the content of a question for the digest, with whether a model drafted the question.

    Other values of the origin are excluded, so a review without changes does not change the digest.
    """
    return {
        "id": example.id,
        "question": example.question,
        "answer": example.answer,
        "type": example.type,
        "evidence": example.evidence,
        "split": example.split,
        **({} if example.answerable else {"answerable": False}),
        **({"drafted": True} if example.drafted else {}),
        **({"filter": format_filter(example.filter)} if example.filter else {}),
    }
