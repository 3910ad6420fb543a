"""Write a data set from a list of questions and a folder of documents, and list the unanchored questions."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory

from ragsmith.datasets.anchoring.anchor import AnchoredQuestion, AnchoringResult, EvidenceFinder, UnanchoredQuestion
from ragsmith.datasets.anchoring.answers import MIN_PROBABILITY
from ragsmith.datasets.anchoring.matches import NoMatch, NoMatchReason
from ragsmith.datasets.anchoring.question_lists import ListedQuestion, read_question_list
from ragsmith.datasets.dataset import is_dataset, load_documents
from ragsmith.datasets.documents import FOLDER, document_id, documents_folder
from ragsmith.datasets.ingest.ingest import FileOutcome, ingest_folder
from ragsmith.datasets.label_checks import find_other_numbers
from ragsmith.datasets.locking import lock_questions
from ragsmith.datasets.manifest import FILE as MANIFEST
from ragsmith.datasets.manifest import KEYS, derive_dataset_name, format_manifest, read_optional_manifest
from ragsmith.datasets.questions import FILE as QUESTIONS
from ragsmith.datasets.questions import MAX_BYTES, question_record
from ragsmith.datasets.sources import FILE as SOURCES
from ragsmith.datasets.writing import document_files, new_folder, write_documents
from ragsmith.errors import DatasetError, UsageError
from ragsmith.text.folded import fold
from ragsmith.text.jsonl import Record, json_lines, read_json_lines
from ragsmith.text.writing import write_file
from ragsmith.types import UNSPECIFIED, Dataset, Document

UNANCHORED = "unanchored.jsonl"
"""File of the questions whose evidence was not found."""


def anchor_list(
    questions: Path,
    documents: Path,
    output: Path | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    at_least: float = MIN_PROBABILITY,
) -> AnchoringResult:
    """Find the evidence of the questions in the list ``questions``, and write both to ``questions.jsonl``.

    ``documents`` is a folder of documents or the folder of a data set. Without ``output`` the questions are appended to
    those of the data set; else documents and questions are written to ``output``, a new folder. Unanchored questions
    are written to ``unanchored.jsonl`` in the same folder; if no question is anchored, only this file is written.

    Raises:
        DatasetError: the list or the documents have mistakes; the error lists all of them, and no file is written.
        UsageError: an argument is not a file or folder as required; no file is written.
    """
    if not questions.is_file():
        raise UsageError(
            f"{questions}{' is a folder' if questions.is_dir() else ': there is no such file'}; give a list of "
            "questions (.csv, .tsv, .jsonl, .json, .xlsx) first"
        )
    if not documents.is_dir():
        raise UsageError(f"{documents}: there is no such folder; give a folder of documents, or of a data set")
    if output is None and not (documents / FOLDER).is_dir():
        raise UsageError(f"{documents} is not a data set (it has no {FOLDER}/): give --output, a new folder")
    if output is not None and output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise UsageError(f"{output} is not an empty folder; give a new one")
    listed = read_question_list(questions, columns)
    data = load_documents(documents)
    merged = dict(data.merged)
    with TemporaryDirectory() as made:
        if output not in (None, documents) and not (is_dataset(documents) or (documents / SOURCES).exists()):
            ingested = ingest_folder(documents_folder(documents), Path(made))  # `init` updates what it wrote itself
            if refused := ingested.with_outcome(FileOutcome.REFUSED):
                raise DatasetError([f"{file.source}: {file.reason}" for file in refused])
            merged = {document_id(row.source): row.duplicate_of for row in ingested.sources if row.duplicate_of}
            documents, data = ingested.output, load_documents(ingested.output)
        result = EvidenceFinder(data.documents, merged).anchor(listed, at_least)
        if output is None or output == documents:
            result = _append_to_dataset(result, documents, data)
        else:
            _write_new_dataset(result, documents, output, data)
    other_numbers = find_other_numbers([each.example for each in result.anchored], data.documents)
    return replace(result, other_numbers=tuple(other_numbers))


def _append_to_dataset(result: AnchoringResult, folder: Path, data: Dataset) -> AnchoringResult:
    """Append the anchored questions to those in ``folder``; return the result with ids as written."""
    with lock_questions(folder):  # questions may be drafted or reviewed at the same time
        existing = read_json_lines(folder / QUESTIONS, MAX_BYTES)
        if existing.mistakes:
            raise DatasetError(list(existing.mistakes.values()))
        result = _merge_with_rows(result, list(existing.records.values()))
        rows, unanchored = _format_lines(result, data)
        if not (folder / MANIFEST).exists():
            write_file(format_manifest(_manifest_values(data), {}), folder / MANIFEST)
        if unanchored or (folder / UNANCHORED).exists():
            write_file(unanchored, folder / UNANCHORED)
        if rows:  # written last, so that the other files exist once the questions do
            text = existing.text
            write_file((text if not text or text.endswith("\n") else f"{text}\n") + rows, folder / QUESTIONS)
    return result


def _write_new_dataset(result: AnchoringResult, source: Path, output: Path, data: Dataset) -> None:
    rows, unanchored = _format_lines(result, data)
    if not rows:
        write_file(unanchored, output / UNANCHORED)
        return
    manifest, mistakes = read_optional_manifest(source)
    if mistakes:
        raise DatasetError([f"{source}/{mistake}" for mistake in mistakes])
    converted = (source / SOURCES).exists()  # copied without changes, so that `init` recognises them
    files = {} if converted else document_files(data.documents)
    with new_folder(output) as draft:
        metadata = {**_manifest_values(data), **manifest.metadata, "name": derive_dataset_name(output)}
        write_documents(draft, metadata, data.documents, files)
        if converted:
            shutil.copytree(source / FOLDER, draft / FOLDER, dirs_exist_ok=True)
            shutil.copy2(source / SOURCES, draft / SOURCES)
        write_file(rows, draft / QUESTIONS)
        if unanchored:
            write_file(unanchored, draft / UNANCHORED)


def _manifest_values(data: Dataset) -> dict[str, str]:
    return {key: getattr(data, key) for key in KEYS}


def _format_lines(result: AnchoringResult, data: Dataset) -> tuple[str, str]:
    """Return the lines of ``questions.jsonl`` and of ``unanchored.jsonl``."""
    documents = {document.id: document for document in data.documents}
    texts = {id_: document.text for id_, document in documents.items()}
    rows = json_lines(question_record(each.example, texts) for each in result.anchored)
    return rows, json_lines(_unanchored_record(each, documents) for each in result.unanchored)


def _unanchored_record(unanchored: UnanchoredQuestion, documents: Mapping[str, Document]) -> dict[str, object]:
    """Return a line of ``unanchored.jsonl``: the question, the reason, and candidates for its evidence.

    A line can be anchored again after a candidate or a quotation was copied to ``evidence``, or ``answerable`` set to
    false.
    """
    question, no_match = unanchored.question, unanchored.no_match
    return {
        "id": question.id,
        "question": question.question,
        **({"answer": question.answer} if question.answer else {}),
        **({} if question.type == UNSPECIFIED else {"type": question.type}),
        "line": question.line,
        "status": str(no_match.status),
        "reason": no_match.reason,
        "candidates": [match.to_dict(documents) for match in no_match.candidates],
        "evidence": [],
        "answerable": question.answerable,
        **({"split": question.split} if question.split else {}),
    }


def _merge_with_rows(result: AnchoringResult, rows: Sequence[Record]) -> AnchoringResult:
    """Return the result with ids that are not in ``rows``, and with splits if the rows have splits.

    Questions that are in ``rows`` already, and questions without an answer if the rows have answers, are unanchored.

    Raises:
        DatasetError: the list has answers or splits, and the rows have none.
    """
    if not rows:
        return result
    has_answers = any("answer" in row for row in rows)
    has_splits = any("split" in row for row in rows)
    no_answers_needed = all(row.get("answerable", True) is False for row in rows)
    anchored = [each.question for each in result.anchored]
    mistakes = [
        f"{QUESTIONS} has no {what}s, and the list does: leave out its column, or give --output, a new folder"
        for what, in_list, in_rows in (
            ("answer", any(question.answer for question in anchored), has_answers or no_answers_needed),
            ("split", any(question.split for question in anchored), has_splits),
        )
        if in_list and not in_rows
    ]
    if mistakes:
        raise DatasetError(mistakes)
    ids = {str(row.get("id", "")) for row in rows}
    present = {fold(str(row.get("question", ""))).text: row for row in rows}
    merged: list[AnchoredQuestion] = []
    unanchored: list[UnanchoredQuestion] = []
    both: tuple[AnchoredQuestion | UnanchoredQuestion, ...] = (*result.anchored, *result.unanchored)
    for each in both:
        question = each.question
        if same := present.get(fold(question.question).text):
            unanchored.append(UnanchoredQuestion(question, _describe_present(question, same)))
        elif isinstance(each, UnanchoredQuestion):
            unanchored.append(each)
        elif has_answers and question.answerable and not question.answer:
            reason = "it has no answer, and the existing questions have one"
            unanchored.append(UnanchoredQuestion(question, NoMatch(NoMatchReason.NOT_FOUND, reason)))
        else:
            split = question.split or ("test" if has_splits else None)  # the test has questions written by people
            merged.append(replace(each, question=replace(_with_unique_id(question, ids), split=split)))
    return AnchoringResult(tuple(merged), tuple(sorted(unanchored, key=lambda each: each.question.line)))


def _describe_present(question: ListedQuestion, row: Record) -> NoMatch:
    """Return the reason why a question is not added whose words are those of ``row``."""
    reason = f"{QUESTIONS} has the same question ({row.get('id', '')})"
    if fold(question.answer).text in ("", fold(str(row.get("answer", ""))).text):
        return NoMatch(NoMatchReason.ALREADY_PRESENT, reason)
    return NoMatch(NoMatchReason.OTHER_ANSWER, f"{reason} with another answer: correct it there if this one is right")


def _with_unique_id(question: ListedQuestion, ids: set[str]) -> ListedQuestion:
    numbered = (f"{question.id}-{number}" for number in count(2))
    id_ = next(id_ for id_ in chain([question.id], numbered) if id_ not in ids)
    ids.add(id_)
    return replace(question, id=id_)
