"""A list of questions and a folder of documents become a data set, beside a list of what was not anchored."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragsmith.datasets.anchoring.anchor import Anchor, Anchoring, Unanchored
from ragsmith.datasets.anchoring.answers import MIN_PROBABILITY
from ragsmith.datasets.anchoring.joining import join_questions, read_question_rows
from ragsmith.datasets.anchoring.places import EvidenceMatch
from ragsmith.datasets.anchoring.question_lists import read_question_list
from ragsmith.datasets.dataset import load_documents
from ragsmith.datasets.documents import FOLDER
from ragsmith.datasets.evidence import evidence_record
from ragsmith.datasets.locking import locked
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import KEYS, folder_name, manifest_yaml, read_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.questions import question_record
from ragsmith.datasets.sources import FILE as SOURCES
from ragsmith.datasets.writing import document_files, new_folder, write_documents
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.jsonl import json_lines
from ragsmith.text.writing import write_file
from ragsmith.types import UNSPECIFIED, Document

UNANCHORED = "unanchored.jsonl"


def anchor_list(
    questions: Path,
    documents: Path,
    output: Path | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    at_least: float = MIN_PROBABILITY,
) -> Anchoring:
    """Find the evidence of the questions in the list ``questions`` and write them as a data set's ``questions.jsonl``.

    ``documents`` is a folder of documents, or a data set's folder: then ``output`` may be left out, and the questions
    join those that it has. Else ``output``, a new folder, gets documents and questions. What was not anchored is
    written to ``unanchored.jsonl`` beside them. Where no question is anchored, that is all that is written.

    Raises ``DatasetError`` with every mistake of the list or of the documents, ``UsageError`` when there is no place to
    write to: both before anything is written.
    """
    if not questions.is_file():
        raise UsageError(
            f"{questions}: there is no such file; give a list of questions (.csv, .tsv, .jsonl, .json, .xlsx)"
        )
    _check_paths(documents, output)
    asked = read_question_list(questions, columns)
    data = load_documents(documents)
    found = Anchor(data.documents, dict(data.merged)).anchor(asked, at_least)
    about = {key: getattr(data, key) for key in KEYS}
    if output is None or output == documents:
        return _append_to_dataset(found, documents, data.documents, about)
    _write_new_dataset(found, documents, output, data.documents, about)
    return found


def unanchored_record(left: Unanchored, documents: Mapping[str, Document]) -> dict[str, object]:
    """Return a line of ``unanchored.jsonl``: the question, why it is here, and where its evidence may be.

    With a candidate copied to a key ``evidence``, or a quotation written there, the line can be anchored again.
    """
    asked = left.asked
    return {
        "id": asked.id,
        "question": asked.question,
        **({"answer": asked.answer} if asked.answer else {}),
        **({} if asked.type == UNSPECIFIED else {"type": asked.type}),
        "line": asked.line,
        "status": str(left.why.status),
        "reason": left.why.reason,
        "candidates": [candidate_record(place, documents) for place in left.why.candidates],
        **({"split": asked.split} if asked.split else {}),
    }


def candidate_record(place: EvidenceMatch, documents: Mapping[str, Document]) -> dict[str, object]:
    """Return a place as it is listed: evidence, how it was found, and how surely."""
    return {**evidence_record(place.span, documents[place.span.doc].text), "how": str(place.how), "score": place.score}


def _check_paths(documents: Path, output: Path | None) -> None:
    if not documents.is_dir():
        raise UsageError(f"{documents}: there is no such folder; give one of documents, or a data set's")
    if output is None and not (documents / FOLDER).is_dir():
        raise UsageError(f"{documents} is no data set's folder (it has no {FOLDER}/): give --output, a new folder")
    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is not an empty folder; give a new one")


def _append_to_dataset(
    found: Anchoring, folder: Path, documents: Sequence[Document], about: Mapping[str, str]
) -> Anchoring:
    """Write what was anchored behind the questions that a data set has by now."""
    by_id = {document.id: document for document in documents}
    texts = {document.id: document.text for document in documents}
    with locked(folder):  # somebody may be drafting or reviewing
        before, there = read_question_rows(folder)
        found = join_questions(found, there)
        left = json_lines(unanchored_record(each, by_id) for each in found.unanchored)
        rows = json_lines(question_record(anchored.example, texts) for anchored in found.anchored)
        if not (folder / MANIFEST).exists():
            write_file(manifest_yaml(about, {}), folder / MANIFEST)
        if left or (folder / UNANCHORED).exists():
            write_file(left, folder / UNANCHORED)
        if rows:  # last: where there are questions, all is written
            write_file(before + rows, folder / QUESTIONS)
    return found


def _write_new_dataset(
    found: Anchoring, source: Path, output: Path, documents: Sequence[Document], about: Mapping[str, str]
) -> None:
    by_id = {document.id: document for document in documents}
    texts = {document.id: document.text for document in documents}
    rows = json_lines(question_record(anchored.example, texts) for anchored in found.anchored)
    left = json_lines(unanchored_record(each, by_id) for each in found.unanchored)
    if not rows:
        write_file(left, output / UNANCHORED)
        return
    manifest, mistakes = read_manifest(source) if (source / MANIFEST).exists() else (None, [])
    if mistakes:
        raise DatasetError(mistakes)
    named = {**about, **(manifest.about if manifest else {}), "name": folder_name(output)}
    converted = (source / SOURCES).exists()  # then the files stay what they are, so that init knows them again
    files = {} if converted else document_files(documents)
    with new_folder(output) as draft:
        write_documents(draft, named, documents, files)
        if converted:
            shutil.copytree(source / FOLDER, draft / FOLDER, dirs_exist_ok=True)
            shutil.copy2(source / SOURCES, draft / SOURCES)
        write_file(rows, draft / QUESTIONS)
        if left:
            write_file(left, draft / UNANCHORED)
