"""A list of questions and a folder of documents become a data set, beside a list of what was not anchored."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from ragsmith.datasets.anchoring.anchor import Anchor, Anchoring, Unanchored
from ragsmith.datasets.anchoring.answers import AT_LEAST
from ragsmith.datasets.anchoring.asked import read_asked
from ragsmith.datasets.anchoring.places import Place
from ragsmith.datasets.dataset import load_documents
from ragsmith.datasets.documents import FOLDER
from ragsmith.datasets.locking import locked
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import KEYS, read_manifest, written
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.questions import question_record
from ragsmith.datasets.writing import document_files, new_folder, write_documents
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.writing import write_file
from ragsmith.types import UNSPECIFIED, Document, Span

UNANCHORED = "unanchored.jsonl"


def anchor_list(
    questions: Path,
    documents: Path,
    output: Path | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    at_least: float = AT_LEAST,
) -> Anchoring:
    """Find the evidence of the questions in the list ``questions`` and write them as a data set's ``questions.jsonl``.

    ``documents`` is a folder of documents, or a data set's folder that has no questions yet: then ``output`` may be
    left out, and the questions join it. Else ``output``, a new folder, gets documents and questions. What was not
    anchored is written to ``unanchored.jsonl`` beside them. Where no question is anchored, that is all that is written.

    Raises ``DatasetError`` with every mistake of the list or of the documents, ``UsageError`` when there is no place to
    write to: both before anything is written.
    """
    if not questions.is_file():
        raise UsageError(
            f"{questions}: there is no such file; give a list of questions (.csv, .tsv, .jsonl, .json, .xlsx)"
        )
    _check(documents, output)
    asked = read_asked(questions, columns)
    data = load_documents(documents)
    found = Anchor(data.documents, dict(data.merged)).anchor(asked, at_least)
    _write(found, documents, output or documents, data.documents, {key: getattr(data, key) for key in KEYS})
    return found


def listed(left: Unanchored, documents: Mapping[str, Document]) -> dict[str, object]:
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
        "candidates": [candidate(place, documents) for place in left.why.candidates],
        **({"split": asked.split} if asked.split else {}),
    }


def candidate(place: Place, documents: Mapping[str, Document]) -> dict[str, object]:
    """Return a place as it is listed: evidence, how it was found, and how surely."""
    return {**_entry(place.span, documents), "how": str(place.how), "score": place.score}


def _entry(span: Span, documents: Mapping[str, Document]) -> dict[str, object]:
    text = documents[span.doc].text[span.start : span.end]
    return {"doc": span.doc, "start": span.start, "end": span.end, "text": text}


def _check(documents: Path, output: Path | None) -> None:
    if not documents.is_dir():
        raise UsageError(f"{documents}: there is no such folder; give one of documents, or a data set's")
    if output is None and not (documents / FOLDER).is_dir():
        raise UsageError(f"{documents} is no data set's folder (it has no {FOLDER}/): give --output, a new folder")
    if output is None and (documents / QUESTIONS).exists():
        raise UsageError(f"{documents} has a {QUESTIONS} already, which is not replaced: give --output, a new folder")
    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is not an empty folder; give a new one")


def _write(
    found: Anchoring, source: Path, output: Path, documents: Sequence[Document], about: Mapping[str, str]
) -> None:
    by_id = {document.id: document for document in documents}
    texts = {document.id: document.text for document in documents}
    rows = _lines([question_record(anchored.example, texts) for anchored in found.anchored])
    left = _lines([listed(each, by_id) for each in found.unanchored])
    if output == source:
        with locked(source):
            _check(source, None)  # somebody may have drafted some meanwhile
            if not (source / MANIFEST).exists():
                write_file(written(about, {}), source / MANIFEST)
            if left or (source / UNANCHORED).exists():
                write_file(left, source / UNANCHORED)
            if rows:  # last: where there are questions, all is written
                write_file(rows, source / QUESTIONS)
        return
    if not rows:
        write_file(left, output / UNANCHORED)
        return
    manifest, mistakes = read_manifest(source) if (source / MANIFEST).exists() else (None, [])
    if mistakes:
        raise DatasetError(mistakes)
    files = document_files(documents)
    with new_folder(output) as draft:
        write_documents(draft, {**about, **(manifest.about if manifest else {})}, documents, files)
        write_file(rows, draft / QUESTIONS)
        if left:
            write_file(left, draft / UNANCHORED)


def _lines(records: Sequence[Mapping[str, object]]) -> str:
    return "".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
