"""A data set is a folder of documents and labelled questions; here it is read, checked whole, and written.

    dataset.yaml       name, and optionally title, description, licence, language
    documents/*.md     (or .txt) the texts; the file's stem is the document's identifier
    questions.jsonl    questions, answers and the evidence for them as character spans

Nothing is computed on a data set with mistakes: all of them are listed at once.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ragsmith.bundled import bundled_path
from ragsmith.canonical import digest
from ragsmith.dataset_documents import FOLDER, document_id, document_title, read_documents
from ragsmith.dataset_questions import FILE as QUESTIONS
from ragsmith.dataset_questions import read_questions
from ragsmith.dataset_summary import describe
from ragsmith.errors import DatasetError, UsageError
from ragsmith.json_records import kind
from ragsmith.strict_text import FORBIDDEN, TextError, read_text
from ragsmith.strict_yaml import MAX_BYTES, YamlError, parse_yaml, unknown_key_message
from ragsmith.types import Dataset, Document, Example, Span

__all__ = ["describe", "load_dataset", "make_dataset", "validate_dataset", "write_dataset"]

MANIFEST = "dataset.yaml"
KEYS = ("name", "title", "description", "licence", "language")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_YAML_BREAKS = str.maketrans({character: f"\\u{ord(character):04x}" for character in "\x7f\x85\u2028\u2029\ufeff"})


def load_dataset(name_or_path: str | Path) -> Dataset:
    """Read the data set in a folder, or the bundled one of that name.

    Documents and questions come sorted by identifier, identical documents merged. Raises ``DatasetError`` with every
    mistake in the folder, ``UsageError`` when there is no such folder or name.
    """
    folder = bundled_path("datasets", name_or_path)
    manifest, wrong = _read_manifest(folder)
    documents, wrong_documents = read_documents(folder)
    examples, wrong_questions = read_questions(folder, documents)
    if mistakes := (*wrong, *wrong_documents, *wrong_questions):
        raise DatasetError(mistakes)
    return make_dataset(manifest, [document for document in documents.values() if document], examples)


def validate_dataset(path: str | Path) -> tuple[str, ...]:
    """Return every mistake in a data set, one sentence each; none when it can be loaded."""
    try:
        load_dataset(path)
    except DatasetError as error:
        return error.mistakes
    except UsageError as error:
        return (str(error),)
    return ()


def make_dataset(about: Mapping[str, str], documents: Sequence[Document], examples: Sequence[Example]) -> Dataset:
    """Return a data set of checked parts: sorted, identical documents merged, with its digest.

    ``about`` holds the keys of ``dataset.yaml``; only ``name`` is needed.
    """
    kept, merged = _merge(documents)
    moved = [_repoint(example, merged) for example in examples]
    ordered = tuple(sorted(moved, key=lambda example: example.id))
    return Dataset(
        name=about["name"],
        title=about.get("title", about["name"]),
        description=about.get("description", ""),
        licence=about.get("licence", "not stated"),
        language=about.get("language", "en"),
        documents=kept,
        examples=ordered,
        digest=digest("dataset", kept, ordered),
        merged=tuple(merged.items()),
    )


def write_dataset(dataset: Dataset, folder: str | Path) -> None:
    """Write a data set in the layout that ``load_dataset`` reads.

    Raises ``UsageError`` when ``folder`` exists and is not empty, ``DatasetError`` when the data set could not be read
    back as it is; nothing is left behind then.
    """
    folder = Path(folder)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UsageError(f"{folder} is not an empty folder; give a new one")
    if mistakes := tuple(_unwritable(dataset)):
        raise DatasetError(mistakes)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".ragsmith-") as temporary:
        draft = Path(temporary)
        _write(dataset, draft)
        if mistakes := validate_dataset(draft):
            raise DatasetError(mistakes)
        folder.mkdir(exist_ok=True)
        for path in sorted(draft.iterdir()):
            path.rename(folder / path.name)


def _read_manifest(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Return what ``dataset.yaml`` says, and its mistakes."""
    try:
        tree = parse_yaml(read_text(folder / MANIFEST, limit=MAX_BYTES), MANIFEST)
    except TextError as error:
        return {}, [error.at(MANIFEST)]
    except YamlError as error:
        return {}, [str(error)]
    if not isinstance(tree.data, dict):
        return {}, [f"{MANIFEST}:{tree.line()}: {kind(tree.data)} stands here instead of keys; write 'name: ...'"]
    about: dict[str, str] = {}
    mistakes: list[str] = []
    for key, value in tree.data.items():
        if key not in KEYS:
            mistakes.append(f"{tree.where(key)}: {unknown_key_message(key, KEYS)}")
        elif not isinstance(value, str) or not value.strip():
            problem = (
                "is blank; write it" if isinstance(value, str) else f"must be text, not {kind(value)}; put it in quotes"
            )
            mistakes.append(f"{tree.where(key)}: {key!r} {problem}")
        elif key == "name" and not _NAME.fullmatch(value):
            mistakes.append(f"{tree.where(key)}: 'name' must be letters, digits, '-', '_' and '.', not {value!r}")
        else:
            about[key] = value
    if "name" not in tree.data:
        mistakes.append(f"{MANIFEST}:{tree.line()}: the key 'name' is missing; add it")
    return about, mistakes


def _merge(documents: Sequence[Document]) -> tuple[tuple[Document, ...], dict[str, str]]:
    """Keep the first document by identifier of each text; also return what was dropped, and for what."""
    kept: dict[str, Document] = {}
    merged: dict[str, str] = {}
    for document in sorted(documents, key=lambda document: document.id):
        first = kept.setdefault(document.text, document)
        if first is not document:
            merged[document.id] = first.id
    return tuple(kept.values()), merged


def _repoint(example: Example, merged: Mapping[str, str]) -> Example:
    """Point evidence at the documents that were kept; spans that coincide then are one."""
    spans = {replace(span, doc=merged.get(span.doc, span.doc)) for span in example.evidence}
    ordered: tuple[Span, ...] = tuple(sorted(spans, key=lambda span: (span.doc, span.start, span.end)))
    return replace(example, evidence=ordered)


def _unwritable(dataset: Dataset) -> Iterator[str]:
    """Yield what a folder cannot hold of a data set's documents."""
    for document in dataset.documents:
        path = Path(f"{document.id}.md")
        unsafe = (
            "/" in document.id or "\\" in document.id or document.id.startswith(".") or document.id != document_id(path)
        )
        if unsafe or FORBIDDEN.search(document.id) or len(path.name.encode()) > 255:
            yield f"document {document.id!r}: the id is not the stem of a file name; rename it"
        elif (title := document_title(document.text, document.id)) != document.title:
            wanted = f"the title {document.title!r} would be read as {title!r}"
            yield f"document {document.id!r}: {wanted}; make it a '# ' heading"


def _write(dataset: Dataset, folder: Path) -> None:
    about = {key: getattr(dataset, key) for key in KEYS}
    manifest = [f"{key}: {_quoted(value)}\n" for key, value in about.items() if value.strip()]
    (folder / MANIFEST).write_bytes("".join(manifest).encode())
    (folder / FOLDER).mkdir()
    texts = {document.id: document.text for document in dataset.documents}
    for id_, text in texts.items():
        (folder / FOLDER / f"{id_}.md").write_bytes(text.encode())
    lines = [json.dumps(_record(example, texts), ensure_ascii=False) + "\n" for example in dataset.examples]
    (folder / QUESTIONS).write_bytes("".join(lines).encode())


def _quoted(value: str) -> str:
    """A JSON text is a double-quoted YAML scalar, except for the characters that YAML takes for line ends."""
    return json.dumps(value, ensure_ascii=False).translate(_YAML_BREAKS)


def _record(example: Example, texts: Mapping[str, str]) -> dict[str, object]:
    evidence = [
        {"doc": span.doc, "start": span.start, "end": span.end, "text": texts[span.doc][span.start : span.end]}
        for span in example.evidence
    ]
    record = {"id": example.id, "question": example.question, "answer": example.answer, "type": example.type}
    return {**record, "evidence": evidence, **({"split": example.split} if example.split else {})}
